// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Says which carriers of a runtime have lost their CPU: preempted, or asleep in a page fault.
// (Scheduler activations without upcalls; Skyloft 6.)
//
// A carrier is found through its gs base, which no other thread sets: the words there begin with
// their own address. So threads are not registered, only processes. `gone` has an entry for each
// carrier that counts; a word of a page, and its sum, change only together with an entry.

#define BPF_MAP_TYPE_HASH_OF_MAPS 13
#define BPF_MAP_TYPE_RINGBUF 27

static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

// The same in ../src/monitor/carriers.rs.
#define CARRIERS 1008
enum { ON_CPU, PREEMPTED, ASLEEP };
struct carriers {
    u64 id; // of this page
    s64 away;
    u64 preempted;
    u64 asleep;
    u64 unused[4];
    u32 state[CARRIERS];
};

// The same in crates/runtime/src/worker/carrier.rs.
struct carrier {
    u64 self;
    u64 thread;
    u64 slot; // 0: it is no worker now
    u32 index;
    u32 unused;
};

struct gone {
    u64 id; // of the page in which it counts
    u64 since;
    u64 seen;
    u32 group;
    u32 index;
};

// Frozen: only this program writes to it.
struct page_of_carriers {
    UINT(type, BPF_MAP_TYPE_ARRAY);
    UINT(max_entries, 1);
    UINT(map_flags, BPF_F_MMAPABLE);
    UINT(key_size, sizeof(u32));
    UINT(value_size, sizeof(struct carriers));
};

// Its contents say nothing: that there is something wakes who waits.
struct bell_of_carriers {
    UINT(type, BPF_MAP_TYPE_RINGBUF);
    UINT(max_entries, 4096);
};

// By thread group, as the host numbers it.
struct {
    UINT(type, BPF_MAP_TYPE_HASH_OF_MAPS);
    UINT(max_entries, 4096);
    u32 *key;
    struct page_of_carriers *values[];
} carrier_pages SEC(".maps");

struct {
    UINT(type, BPF_MAP_TYPE_HASH_OF_MAPS);
    UINT(max_entries, 4096);
    u32 *key;
    struct bell_of_carriers *values[];
} carrier_bells SEC(".maps");

// By thread, as the kernel numbers it.
struct {
    UINT(type, BPF_MAP_TYPE_HASH);
    UINT(max_entries, 65536);
    u32 *key;
    struct gone *value;
} gone SEC(".maps");

// How many entries `gone` has.
static volatile s64 carriers_gone = 0;

INLINE struct carriers *page_of(u32 group)
{
    void *page = bpf_map_lookup_elem(&carrier_pages, &group);
    u32 zero = 0;

    return page ? bpf_map_lookup_elem(page, &zero) : 0;
}

// Whether a page has such a word. In one register, or the verifier would not see what was compared.
INLINE int is_carrier(u64 *index)
{
    asm volatile("" : "+r"(*index));
    return *index < CARRIERS;
}

// How a thread leaves the CPU: ON_CPU if of its own will. A fault is no system call: the number is
// negative then.
INLINE u32 how_it_leaves(struct task_struct *task)
{
    struct pt_regs *regs;

    if (task->__state == TASK_RUNNING)
        return PREEMPTED;
    if (!(task->__state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)))
        return ON_CPU;
    regs = bpf_task_pt_regs(task);
    return (s64)regs->orig_ax < 0 ? ASLEEP : ON_CPU;
}

// `task` is current.
INLINE void carrier_leaves(struct task_struct *task, struct task_struct *next)
{
    u64 base = task->thread.gsbase;
    struct carriers *page;
    struct carrier carrier;
    struct gone entry = {};
    u32 how, thread = task->pid;
    u64 index;
    void *bell;

    if (!base || task->flags & (PF_EXITING | PF_KTHREAD))
        return;
    how = how_it_leaves(task);
    if (how == ON_CPU)
        return;
    entry.group = group_of(task);
    page = page_of(entry.group);
    if (!page || bpf_probe_read_user(&carrier, sizeof(carrier), (void *)base))
        return;
    index = carrier.index;
    if (carrier.self != base || !carrier.slot || !is_carrier(&index))
        return;
    entry.id = page->id;
    entry.since = bpf_ktime_get_ns();
    entry.index = index;
    if (bpf_map_update_elem(&gone, &thread, &entry, BPF_NOEXIST))
        return;
    __sync_fetch_and_add(&carriers_gone, 1);
    __sync_fetch_and_add(how == PREEMPTED ? &page->preempted : &page->asleep, 1);
    page->state[index] = how;
    __sync_fetch_and_add(&page->away, 1);
    // Who gives way to a thread of its own process comes back soon, or that is a worker, too.
    if (how == PREEMPTED && next->tgid == task->tgid)
        return;
    bell = bpf_map_lookup_elem(&carrier_bells, &entry.group);
    if (bell)
        bpf_ringbuf_output(bell, &base, sizeof(base), 0);
}

// Has its CPU, or ends. Returns whether it counted.
INLINE int carrier_comes(u32 thread)
{
    struct gone *entry;
    struct carriers *page;
    u32 group;
    u64 id, index;

    if (!carriers_gone)
        return 0;
    entry = bpf_map_lookup_elem(&gone, &thread);
    if (!entry)
        return 0;
    group = entry->group;
    index = entry->index;
    id = entry->id;
    if (bpf_map_delete_elem(&gone, &thread))
        return 0;
    __sync_fetch_and_add(&carriers_gone, -1);
    page = page_of(group);
    if (page && page->id == id && is_carrier(&index)) {
        page->state[index] = ON_CPU;
        __sync_fetch_and_add(&page->away, -1);
    }
    return 1;
}
