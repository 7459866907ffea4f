/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The interface of /dev/quaver: user interrupts, delegated timers and shared cores on stock kernels.
 *
 * All calls are ioctls on an open file of the device. Structures have no padding, all fields named `reserved` and all
 * undefined flags must be 0 (else EINVAL). A call that is unknown to the module fails with ENOTTY: the size of a
 * structure is part of its number, so a longer one is another call.
 *
 * "The calling thread" is a kernel thread of a process. Its registrations end by QUAVER_DETACH, by its exit and by
 * exec; a child of fork has none. What a thread may do follows from the descriptors that its process has, and from
 * nothing else: they can be handed on as any descriptor can (fork, SCM_RIGHTS, pidfd_getfd).
 *
 * Errors of all calls: EFAULT (the structure cannot be read or written), EINVAL (see each call), ENOMEM.
 */
#ifndef QUAVER_H
#define QUAVER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define QUAVER_DEVICE "/dev/quaver"
#define QUAVER_ABI 1 /* raised when the meaning of a call changes */

/* What this machine offers; struct quaver_info.features. */
#define QUAVER_HAS_UINTR (1U << 0) /* send and receive user interrupts */
#define QUAVER_HAS_TIMER (1U << 1) /* the local APIC's timer can be given to a thread */
#define QUAVER_HAS_CORES (1U << 2) /* park, switch, wake up, leave; on every machine */
#define QUAVER_HAS_REST (1U << 3) /* QUAVER_REST, and flags of QUAVER_WAKEUP; on every machine */

struct quaver_info {
	__u32 abi; /* QUAVER_ABI of the module */
	__u32 features;
	__u32 entries; /* of a sender table; indices are 0 .. entries - 1 */
	__u32 hardware_vector; /* the vector of the kernel on which notifications come */
	__u64 timer_min_ns; /* shortest and longest period of a delegated timer; 0 without QUAVER_HAS_TIMER */
	__u64 timer_max_ns;
	char why[96]; /* why a feature is missing, in words, ends with 0; empty if none is */
};

/*
 * `stack` is the value of UISTACKADJUST. Bit 0 clear: so many bytes below the interrupted RSP stay untouched; 128 for
 * the red zone of the System V ABI; at most 1 MiB. Bit 0 set: the handler starts on the stack that ends at the other
 * bits' address. Bits 1 and 2 are 0.
 */
struct quaver_handler {
	__u64 handler; /* address of the entry: called with the interrupt's frame on the stack, ends with UIRET */
	__u64 stack;
	__u32 flags; /* 0 */
	__u32 reserved;
};

struct quaver_vector {
	__u32 vector; /* 0 .. 63: which of the receiver's interrupts; 63 is delivered first */
	__u32 flags; /* 0 */
};

#define QUAVER_ANY (-1)

struct quaver_route {
	__s32 index; /* entry of the table, or QUAVER_ANY for a free one */
	__s32 vector_fd; /* where it leads to, or -1: nowhere, the entry becomes free */
	__u32 flags; /* 0 */
	__u32 reserved;
};

struct quaver_timer {
	__u64 period_ns; /* in: wanted; out: what the hardware does, a multiple of its step */
	__u32 vector; /* 0 .. 63: the user interrupt as which ticks arrive */
	__u32 flags; /* 0 */
};

#define QUAVER_PARK_TAKE (1U << 0) /* do not suspend if the core has no active thread: become it */

struct quaver_park {
	__u32 cpu;
	__u32 flags; /* 0 or QUAVER_PARK_TAKE */
};

#define QUAVER_WAKE_INSTEAD (1U << 0) /* in place of the CPU's active thread, if there is one */
#define QUAVER_WAKE_ASIDE (1U << 1) /* the end of a QUAVER_REST only: who is active stays so */

struct quaver_thread_id {
	__s32 tid; /* as gettid() says in the caller's PID namespace */
	__u32 flags; /* 0, or one of the two for QUAVER_WAKEUP */
};

struct quaver_rest {
	__s32 tid; /* who becomes active, or 0: nobody */
	__u32 cpu;
	__u64 limit_ns; /* 0: none */
};

#define QUAVER_MAGIC 0xb9

/* Fills the structure. Never fails but with EFAULT. */
#define QUAVER_INFO _IOR(QUAVER_MAGIC, 0x10, struct quaver_info)

/*
 * Makes the calling thread a receiver, and a sender as QUAVER_ATTACH does. UIF is clear afterwards: nothing is
 * delivered before STUI. Interrupts that arrive while the thread does not run are delivered when it runs again; a
 * blocked system call is not ended.
 * EBUSY: it is a receiver already, or attached to another file. EINVAL: handler or stack is not a user address.
 * EOPNOTSUPP: no QUAVER_HAS_UINTR, `why` says why.
 */
#define QUAVER_REGISTER _IOW(QUAVER_MAGIC, 0x11, struct quaver_handler)

/*
 * The calling thread may execute SENDUIPI with indices of this file's table. All threads attached to one open file
 * share its table. Without it SENDUIPI raises SIGSEGV, as it does for an index that leads nowhere.
 * EBUSY: attached to another file. EOPNOTSUPP as above. Repeating it does nothing.
 */
#define QUAVER_ATTACH _IO(QUAVER_MAGIC, 0x12)

/*
 * Ends what QUAVER_REGISTER, QUAVER_ATTACH and QUAVER_TIMER_ENABLE have begun for the calling thread. What was sent and
 * not yet delivered is lost. Entries that lead to the thread stay valid and have no effect. Any open file will do.
 * ENOENT: nothing was registered.
 */
#define QUAVER_DETACH _IO(QUAVER_MAGIC, 0x13)

/*
 * Returns a new descriptor (close-on-exec) that stands for one vector of the calling thread. Whoever has it may send
 * that interrupt: see QUAVER_ROUTE. It has no other use.
 * ENOENT: the thread is no receiver. EMFILE, ENFILE: too many descriptors.
 */
#define QUAVER_VECTOR _IOW(QUAVER_MAGIC, 0x14, struct quaver_vector)

/*
 * Lets an entry of this file's table lead to a vector, and returns its index. Any thread that has the file may call it;
 * a thread that sends meanwhile reaches the old or the new receiver, and after the return only the new one. Threads
 * that run attached to this file are interrupted for an instant.
 * EBADF, EINVAL: vector_fd is no descriptor, or none of QUAVER_VECTOR. EINVAL: no such index; a free one cannot be
 * freed (index QUAVER_ANY with vector_fd -1). ENOSPC: no free entry. ESRCH: the receiver is gone.
 */
#define QUAVER_ROUTE _IOW(QUAVER_MAGIC, 0x15, struct quaver_route)

/*
 * Sets the period and vector of the calling thread's timer, running or not, and writes back the true period.
 * ENOENT: the thread is no receiver. ERANGE: not within timer_min_ns .. timer_max_ns. EOPNOTSUPP: no QUAVER_HAS_TIMER.
 */
#define QUAVER_TIMER_SET _IOWR(QUAVER_MAGIC, 0x16, struct quaver_timer)

/*
 * Gives the timer of the CPU's local APIC to the calling thread while it runs (Skyloft, section 3.2). Each tick raises
 * the vector of QUAVER_TIMER_SET, if the handler has refilled PIR by SENDUIPI on an entry that leads to that vector of
 * the thread itself; the module fills it for the first tick. UPID.SN is set meanwhile: what others send arrives with
 * the next tick.
 * The kernel's own tick of that CPU comes from another CPU, once a jiffy; its timers there are that much coarser.
 * ENOENT: the thread is no receiver, or has set no period. EINVAL: it may run on more than one CPU. EBUSY: enabled
 * already. EOPNOTSUPP: no QUAVER_HAS_TIMER, or no second CPU to tick for this one.
 */
#define QUAVER_TIMER_ENABLE _IO(QUAVER_MAGIC, 0x17)

/* Takes it back. What others have sent is delivered. ENOENT: it was not enabled. */
#define QUAVER_TIMER_DISABLE _IO(QUAVER_MAGIC, 0x18)

/*
 * Shared cores (Skyloft, section 3.3). Threads that park through the same open file, of any process, form a group. On
 * each CPU at most one thread of a group is active, the others are suspended in these calls; only fatal signals end
 * the suspension (EINTR is never seen). When the active thread exits, is killed, calls exec or leaves, the thread that
 * has been suspended longest on that CPU becomes active.
 */

/*
 * Binds the calling thread to a CPU and suspends it until another makes it active. If it was active, it is succeeded.
 * EINVAL: no such CPU, or it is not online. EPERM: the thread may not run there (cpuset). EBUSY: it is in another
 * file's group.
 */
#define QUAVER_PARK _IOW(QUAVER_MAGIC, 0x20, struct quaver_park)

/*
 * Suspends the calling thread and makes the other active, in one step.
 * EPERM: the caller is not active in this group. ESRCH: tid is not suspended in this group on the caller's CPU.
 */
#define QUAVER_SWITCH_TO _IOW(QUAVER_MAGIC, 0x21, struct quaver_thread_id)

/*
 * Makes a suspended thread active. Any thread that has the file may call it.
 * ESRCH: tid is not in this group. EBUSY: its CPU has an active thread. EALREADY: it is active. With a flag neither of
 * the last two: a thread that is not suspended then finds its next QUAVER_REST ended.
 */
#define QUAVER_WAKEUP _IOW(QUAVER_MAGIC, 0x22, struct quaver_thread_id)

/*
 * The calling thread leaves its group, gets back the CPUs that it had before, and is succeeded.
 * ENOENT: it is in no group.
 */
#define QUAVER_LEAVE _IO(QUAVER_MAGIC, 0x23)

/*
 * QUAVER_PARK or QUAVER_SWITCH_TO with an end, for threads that agree by other means who is to be active: in one step
 * the calling thread, bound to this CPU if it was not, is not active any more, and tid is. The call then suspends the
 * caller until it is woken (0), the limit is over (ETIME), or a signal comes (EINTR). In the last two cases it runs
 * without being active.
 * ESRCH: tid is not in this group on this CPU; nobody was made active, and the caller was not suspended. EINVAL, EPERM,
 * EBUSY: see QUAVER_PARK.
 */
#define QUAVER_REST _IOW(QUAVER_MAGIC, 0x24, struct quaver_rest)

#endif
