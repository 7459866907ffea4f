// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Counts the preempted threads that hold a quaver lock, or stand in a queue for one.
// (FlexGuard 3.1, Listing 1; the design is in ../README.md.) carriers.h has the workers of runtimes.
//
// One program for the whole system. `flags` has an entry for each thread that counts, and `count`
// changes only together with an entry, so it equals their number whatever switches go unseen.
//
// No vmlinux.h: the few fields that are read are declared below, and found in the running kernel's
// types when the program is loaded (CO-RE).

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KERNEL __attribute__((preserve_access_index))
#define UINT(name, value) int (*name)[value]

// Of linux/bpf.h.
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_MMAPABLE = 1 << 10 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static long (*bpf_for_each_map_elem)(void *map, void *each, void *context, u64 flags) = (void *)164;
static struct pt_regs *(*bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

// Of the kernel: only what is read, in any order.
struct ns_common {
    u32 inum;
} KERNEL;
struct pid_namespace {
    struct ns_common ns;
} KERNEL;
struct upid {
    s32 nr;
    struct pid_namespace *ns;
} KERNEL;
struct pid {
    u32 level;
    struct upid numbers[1];
} KERNEL;
typedef struct {
    s32 counter;
} KERNEL atomic_t;
enum pid_type { PIDTYPE_PID, PIDTYPE_TGID };
struct signal_struct {
    atomic_t live;
    struct pid *pids[4];
} KERNEL;
struct thread_struct {
    unsigned long gsbase;
} KERNEL;
struct task_struct {
    struct thread_struct thread;
    u32 __state;
    u32 flags;
    s32 pid;
    s32 tgid;
    s32 on_cpu;
    void *rseq;
    struct signal_struct *signal;
} KERNEL;
// The same type in Linux 7. (What follows three underscores is no part of a name in the kernel.)
struct rseq_data {
    void *usrptr;
} KERNEL;
struct task_struct___7 {
    struct rseq_data rseq;
} KERNEL;
struct pt_regs {
    unsigned long ax;
    unsigned long di;
    unsigned long orig_ax;
    unsigned long ip;
    unsigned long flags;
} KERNEL;
struct bpf_iter_meta {
    u64 session_id;
    u64 seq_num;
} KERNEL;
struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
} KERNEL;

// As large as the kernel has it.
#define UPID_SIZE __builtin_preserve_type_info(*(struct upid *)0, 1)
// Where the kernel has it, of whatever size; and whether it has it.
#define OFFSET(field) __builtin_preserve_field_info(field, 0)
#define EXISTS(field) __builtin_preserve_field_info(field, 2)

#define TASK_RUNNING 0
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define PF_EXITING 0x4
#define PF_KTHREAD 0x200000

// The same in ../src/asm.rs.
#define WINDOWS 6
#define IN 1
struct window {
    u32 start, end, what, reg, mask, value;
};

// The same in ../src/monitor/registration.rs.
struct registration {
    u64 text;       // where the windows' addresses begin
    s64 cell;       // from the area of restartable sequences to the cell
    u32 text_size;
    u32 unused;
    struct window windows[WINDOWS];
};

// The same in ../src/cell.rs and ../src/node.rs.
struct cell {
    s32 held;
    u32 spins;
    u64 node;
    u32 handle;
    u32 queued;
    u64 pauses;
    u64 last;
};
struct node {
    u32 place;
    u32 free;
    u64 next;
    u64 lock;
};
#define NONE 0

// The same in ../src/page.rs.
#define LOCKS 256
struct state {
    s64 count;
    u64 heartbeat;
    u64 preempted;
    u64 corrected;
    s64 locks[LOCKS];
};

struct flag {
    u64 since; // nanoseconds
    u64 seen;  // the last sweep that has seen its thread
    u64 lock;  // where in `locks` it counts
};

// Clients map this one. It is frozen when loaded: only this program writes to it.
struct {
    UINT(type, BPF_MAP_TYPE_ARRAY);
    UINT(max_entries, 1);
    UINT(map_flags, BPF_F_MMAPABLE);
    u32 *key;
    struct state *value;
} page SEC(".maps");

// By thread group, as the host numbers it.
struct {
    UINT(type, BPF_MAP_TYPE_HASH);
    UINT(max_entries, 4096);
    u32 *key;
    struct registration *value;
} processes SEC(".maps");

// By thread, as the kernel numbers it.
struct {
    UINT(type, BPF_MAP_TYPE_HASH);
    UINT(max_entries, 65536);
    u32 *key;
    struct flag *value;
} flags SEC(".maps");

// The host's PID namespace: its depth and its number. Written by each sweep, which the host reads.
static volatile u32 host_level = 0;
static volatile u32 host_ns = 0;
static volatile u64 sweep_began = 0;

INLINE struct state *state(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&page, &zero);
}

// The number of a thread's group in the host's namespace; 0 if it has none there.
INLINE u32 group_of(struct task_struct *task)
{
    u32 level = host_level;
    struct upid *at;
    struct pid *pid;
    s32 nr = 0;
    u32 inum = 0;

    if (level == 0)
        return task->tgid;
    pid = task->signal->pids[PIDTYPE_TGID];
    if (pid->level < level)
        return 0;
    at = (void *)&pid->numbers[0] + level * UPID_SIZE;
    bpf_probe_read_kernel(&nr, sizeof(nr), &at->nr);
    struct pid_namespace *ns = 0;
    bpf_probe_read_kernel(&ns, sizeof(ns), &at->ns);
    bpf_probe_read_kernel(&inum, sizeof(inum), &ns->ns.inum);
    return inum == host_ns ? nr : 0;
}

#include "carriers.h"

// Whether the instruction that the thread executes next is in a window: IN, OUT, or 0.
INLINE u32 window_of(struct task_struct *task, struct registration *process)
{
    struct pt_regs *regs = bpf_task_pt_regs(task);
    u64 at = regs->ip - process->text;
    u32 ax = regs->ax, fl = regs->flags;

    if (at >= process->text_size)
        return 0;
#pragma unroll
    for (int i = 0; i < WINDOWS; i++) {
        struct window *w = &process->windows[i];
        u32 reg = w->reg == 1 ? ax : fl;
        if (at >= w->start && at < w->end && (reg & w->mask) == w->value)
            return w->what;
    }
    return 0;
}

// The thread's area of restartable sequences; 0: it has none.
INLINE void *rseq_of(struct task_struct *task)
{
    struct task_struct___7 *seven = (void *)task;
    void *rseq = 0;

    if (EXISTS(seven->rseq.usrptr))
        bpf_probe_read_kernel(&rseq, sizeof(rseq), &seven->rseq.usrptr);
    else
        bpf_probe_read_kernel(&rseq, sizeof(rseq), &task->rseq);
    return rseq;
}

// Is it a byte, or an int of 0 or 1: the first byte says it.
INLINE int is_on_cpu(struct task_struct *task)
{
    u8 on_cpu = 0;

    bpf_probe_read_kernel(&on_cpu, sizeof(on_cpu), (void *)task + OFFSET(task->on_cpu));
    return on_cpu;
}

// Whether a thread that leaves the CPU holds a lock or stands in a queue, and the address of that
// lock's word. `task` is current.
INLINE int critical(struct task_struct *task, u64 *lock)
{
    u32 group = group_of(task), what;
    struct registration *process;
    struct node node = { .place = NONE };
    struct cell cell;
    void *rseq;

    process = bpf_map_lookup_elem(&processes, &group);
    if (!process)
        return 0;
    rseq = rseq_of(task);
    if (!rseq || bpf_probe_read_user(&cell, sizeof(cell), rseq + process->cell))
        return 0;
    *lock = cell.last;
    if (cell.held > 0)
        return 1;
    what = window_of(task, process);
    if (what) {
        *lock = bpf_task_pt_regs(task)->di; // the word, in all windows that are IN
        return what == IN;
    }
    if (!cell.node)
        return 0;
    bpf_probe_read_user(&node, sizeof(node), (void *)cell.node);
    *lock = node.lock;
    return node.place != NONE;
}

// The thread counts from now on, for the lock whose word lies at this address.
INLINE void raise(struct state *s, u32 thread, u64 lock)
{
    struct flag flag = { .since = bpf_ktime_get_ns(), .lock = lock * 0x9e3779b97f4a7c15ull >> 56 };

    __sync_fetch_and_add(&s->preempted, 1);
    if (bpf_map_update_elem(&flags, &thread, &flag, BPF_NOEXIST))
        return;
    __sync_fetch_and_add(&s->count, 1);
    __sync_fetch_and_add(&s->locks[flag.lock % LOCKS], 1);
}

// The thread does not count any more. Returns whether it did. Who deletes the entry counts down;
// a sweep could take another lock for the entry's only if it stood still here while the thread came
// and went on another CPU.
INLINE int drop(struct state *s, u32 thread)
{
    struct flag *flag = bpf_map_lookup_elem(&flags, &thread);
    u64 lock;

    if (!flag)
        return 0;
    lock = flag->lock;
    if (bpf_map_delete_elem(&flags, &thread))
        return 0;
    __sync_fetch_and_add(&s->count, -1);
    __sync_fetch_and_add(&s->locks[lock % LOCKS], -1);
    return 1;
}

// Arguments: whether by preemption (always 0 on some kernels), who leaves, who comes.
SEC("tp_btf/sched_switch")
int on_switch(u64 *context)
{
    struct task_struct *prev = (void *)context[1], *next = (void *)context[2];
    struct state *s = state();
    u64 lock = 0;

    carrier_leaves(prev, next);
    carrier_comes(next->pid);
    if (!s)
        return 0;
    // Who still wants to run was preempted, or yielded. Who is being killed holds nothing.
    if (prev->__state == TASK_RUNNING && !(prev->flags & (PF_EXITING | PF_KTHREAD)) && critical(prev, &lock))
        raise(s, prev->pid, lock);
    else if (s->count && drop(s, prev->pid)) // it ran with its flag up: a switch was missed
        __sync_fetch_and_add(&s->corrected, 1);
    if (s->count)
        drop(s, next->pid);
    return 0;
}

// Arguments: who ends.
SEC("tp_btf/sched_process_exit")
int on_exit(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    struct state *s = state();
    u32 group = group_of(task);

    carrier_comes(task->pid);
    if (s)
        drop(s, task->pid);
    if (task->signal->live.counter == 0)
        bpf_map_delete_elem(&processes, &group);
    return 0;
}

// Arguments: who forks, and the child. A new process has the same code at the same place.
SEC("tp_btf/sched_process_fork")
int on_fork(u64 *context)
{
    struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
    u32 from, to;
    struct registration *process;

    if (parent->tgid == child->tgid)
        return 0;
    from = group_of(parent);
    process = bpf_map_lookup_elem(&processes, &from);
    if (!process)
        return 0;
    to = group_of(child);
    if (to)
        bpf_map_update_elem(&processes, &to, process, BPF_ANY);
    return 0;
}

// Arguments: whose program changes, its former number, the new program.
SEC("tp_btf/sched_process_exec")
int on_exec(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    u32 group = group_of(task), former = (u32)context[1];
    struct state *s = state();

    bpf_map_delete_elem(&processes, &group);
    carrier_comes(former);
    if (s)
        drop(s, former);
    return 0;
}

struct sweep {
    struct state *state;
    u64 session;
    u64 now;
};

// A flag that no task had in this sweep, and that is older than the sweep, belongs to nobody.
static long drop_unseen(void *map, u32 *thread, struct flag *flag, struct sweep *sweep)
{
    u32 key = *thread;

    if (flag->seen != sweep->session && flag->since < sweep_began && drop(sweep->state, key))
        __sync_fetch_and_add(&sweep->state->corrected, 1);
    return 0;
}

static long carrier_unseen(void *map, u32 *thread, struct gone *gone, struct sweep *sweep)
{
    u32 key = *thread;

    if (gone->seen != sweep->session && gone->since < sweep_began && carrier_comes(key))
        __sync_fetch_and_add(&sweep->state->corrected, 1);
    return 0;
}

// Sees each task once, then none. A task that runs and has had its flag for 2 ms is not preempted:
// while it leaves the CPU, `on_cpu` stays up for much less.
SEC("iter/task")
int sweep(struct bpf_iter__task *context)
{
    struct task_struct *task = context->task;
    struct state *s = state();
    struct flag *flag;
    struct gone *carrier;
    u64 now = bpf_ktime_get_ns();
    u32 thread;

    if (!s)
        return 0;
    if (context->meta->seq_num == 0) {
        struct pid *pid = bpf_get_current_task_btf()->signal->pids[PIDTYPE_TGID];
        struct upid *at;
        struct pid_namespace *ns = 0;
        u32 inum = 0;

        at = (void *)&pid->numbers[0] + pid->level * UPID_SIZE;
        bpf_probe_read_kernel(&ns, sizeof(ns), &at->ns);
        bpf_probe_read_kernel(&inum, sizeof(inum), &ns->ns.inum);
        host_level = pid->level;
        host_ns = inum;
        sweep_began = now;
    }
    if (!task) {
        struct sweep end = { .state = s, .session = context->meta->session_id, .now = now };

        bpf_for_each_map_elem(&flags, drop_unseen, &end, 0);
        bpf_for_each_map_elem(&gone, carrier_unseen, &end, 0);
        s->heartbeat = now;
        return 0;
    }
    thread = task->pid;
    carrier = bpf_map_lookup_elem(&gone, &thread);
    if (carrier) {
        carrier->seen = context->meta->session_id;
        if (is_on_cpu(task) && now - carrier->since > 2000000 && carrier_comes(thread))
            __sync_fetch_and_add(&s->corrected, 1);
    }
    flag = bpf_map_lookup_elem(&flags, &thread);
    if (!flag)
        return 0;
    flag->seen = context->meta->session_id;
    if (is_on_cpu(task) && now - flag->since > 2000000 && drop(s, thread))
        __sync_fetch_and_add(&s->corrected, 1);
    return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
