/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the files of the module know of each other; README.md has the picture. */
#ifndef QUAVER_INTERNAL_H
#define QUAVER_INTERNAL_H

#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "hardware.h"
#include "quaver.h"

#define QUAVER_TABLE_ORDER 3
#define QUAVER_ENTRIES ((PAGE_SIZE << QUAVER_TABLE_ORDER) / sizeof(struct quaver_uitt_entry))

/* receiver.c: what interrupts are sent to. */
struct quaver_receiver {
	struct quaver_upid upid; /* first: aligned */
	struct kref ref;
	bool gone; /* its thread has detached */
};

int quaver_receivers_init(void);
void quaver_receivers_exit(void);
struct quaver_receiver *quaver_receiver_new(void);
void quaver_receiver_put(struct quaver_receiver *receiver);
int quaver_vector_fd(struct quaver_receiver *receiver, u32 vector);
struct quaver_receiver *quaver_receiver_of_fd(int fd, u32 *vector);

/* table.c: whom the threads of a file can send to. */
struct quaver_table {
	struct kref ref;
	struct mutex lock; /* entries and targets */
	struct quaver_uitt_entry *entries;
	struct quaver_receiver **targets;
	cpumask_var_t cpus; /* that run a thread with this table */
	struct quaver_receiver *between; /* gets what is sent along an entry that is half changed; never runs */
};

struct quaver_table *quaver_table_new(void);
void quaver_table_put(struct quaver_table *table);
long quaver_table_route(struct quaver_table *table, const struct quaver_route *route);

/* timer.c: the local APIC's timer. */
struct quaver_ticks {
	u64 period_ns; /* 0: not set */
	u32 count; /* of the local timer */
	u32 vector;
	bool enabled; /* the thread has it while it runs */
	int helper; /* CPU that sends the kernel's ticks */
	int cpu; /* where it is given to the thread now, or -1 */
	struct hrtimer assist; /* on the helper, once a jiffy */
	call_single_data_t call; /* from there to the thread's CPU */
};

struct quaver_thread;

void quaver_timer_init(void);
u64 quaver_timer_min_ns(void);
u64 quaver_timer_max_ns(void);
void quaver_ticks_init(struct quaver_ticks *ticks);
bool quaver_ticks_load(struct quaver_ticks *ticks);
void quaver_ticks_save(struct quaver_ticks *ticks);
void quaver_ticks_end(struct quaver_ticks *ticks);
void quaver_ticks_helper_offline(unsigned int cpu);
long quaver_timer_set(struct quaver_timer *timer);
long quaver_timer_enable(void);
long quaver_timer_disable(void);

/* thread.c: registers of a thread. */
struct quaver_thread {
	struct preempt_notifier notifier;
	struct hlist_node node;
	struct task_struct *task;
	struct quaver_table *table;
	struct quaver_receiver *receiver; /* NULL: it only sends */
	u64 handler;
	u64 stack;
	u64 uirr; /* while it does not run */
	bool uif; /* while it does not run */
	struct quaver_ticks ticks;
	struct work_struct release;
};

int quaver_threads_init(void);
void quaver_threads_exit(void);
struct quaver_thread *quaver_thread_current(void);
/* Between these two the calling thread's registers are in memory and may be changed. Interrupts are off. */
unsigned long quaver_thread_begin(struct quaver_thread *thread);
void quaver_thread_end(struct quaver_thread *thread, unsigned long flags);
long quaver_thread_attach(struct quaver_table *table);
long quaver_thread_register(struct quaver_table *table, const struct quaver_handler *handler);
long quaver_thread_detach(void);

/* cpu.c: CR4, and what this machine has. */
int quaver_cpu_init(void);
void quaver_cpu_exit(void);
/* NULL, or why there are no user interrupts. */
const char *quaver_cpu_why(void);

/* cores.c: shared cores. */
struct quaver_group;

struct quaver_group *quaver_group_new(void);
void quaver_group_put(struct quaver_group *group);
long quaver_park(struct quaver_group *group, const struct quaver_park *park);
long quaver_switch_to(struct quaver_group *group, int tid);
long quaver_wakeup(struct quaver_group *group, const struct quaver_thread_id *thread);
long quaver_rest(struct quaver_group *group, const struct quaver_rest *rest);
long quaver_leave(void);
void quaver_member_end(void);

#endif
