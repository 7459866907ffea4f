// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The registers of threads: README.md, "A thread's registers", states the order of steps and why.
 *
 * A thread's structure is made, changed and taken down by the thread itself only, so its fields need no lock; the hash
 * table has one. The notifiers run in the thread's context as well.
 */
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "internal.h"

static DEFINE_HASHTABLE(threads, 8);
static DEFINE_SPINLOCK(threads_lock);
static struct workqueue_struct *releases;

struct quaver_thread *quaver_thread_current(void)
{
	struct quaver_thread *thread, *found = NULL;

	/* Nobody else registers a notifier for most threads: an exit or exec of theirs takes no lock. */
	if (hlist_empty(&current->preempt_notifiers))
		return NULL;
	spin_lock(&threads_lock);
	hash_for_each_possible(threads, thread, node, (unsigned long)current) {
		if (thread->task == current) {
			found = thread;
			break;
		}
	}
	spin_unlock(&threads_lock);
	return found;
}

static u32 notification_destination(void)
{
	u32 id = per_cpu(x86_cpu_to_apicid, smp_processor_id());

	return x2apic_mode ? id : id << 8;
}

/* Interrupts are off. */
static void registers_load(struct quaver_thread *thread)
{
	u64 misc = 0;

	if (thread->table) {
		cpumask_set_cpu(smp_processor_id(), thread->table->cpus);
		smp_mb__after_atomic(); /* before this CPU can read an entry: table_settle() */
		misc = QUAVER_ENTRIES - 1;
		quaver_write_msr(QUAVER_MSR_TT, (u64)thread->table->entries | 1);
	}
	if (thread->receiver) {
		struct quaver_upid *upid = &thread->receiver->upid;

		WRITE_ONCE(upid->ndst, notification_destination());
		quaver_write_msr(QUAVER_MSR_HANDLER, thread->handler);
		quaver_write_msr(QUAVER_MSR_STACKADJUST, thread->stack);
		quaver_write_msr(QUAVER_MSR_PD, (u64)upid);
		clear_bit(QUAVER_UPID_ON, &upid->control);
		if (!quaver_ticks_load(&thread->ticks)) {
			clear_bit(QUAVER_UPID_SN, &upid->control);
			thread->uirr |= xchg(&upid->pir, 0);
		}
		quaver_write_msr(QUAVER_MSR_RR, thread->uirr);
		misc |= (u64)QUAVER_HARDWARE_VECTOR << 32;
	}
	quaver_write_msr(QUAVER_MSR_MISC, misc);
	if (thread->uif)
		quaver_stui();
}

/* Interrupts are off. */
static void registers_save(struct quaver_thread *thread)
{
	thread->uif = quaver_testui();
	quaver_clui();
	if (thread->receiver) {
		set_bit(QUAVER_UPID_SN, &thread->receiver->upid.control);
		quaver_write_msr(QUAVER_MSR_MISC, 0);
		quaver_ticks_save(&thread->ticks);
		thread->uirr = quaver_read_msr(QUAVER_MSR_RR);
		quaver_write_msr(QUAVER_MSR_RR, 0);
		quaver_write_msr(QUAVER_MSR_PD, 0);
	}
	if (thread->table) {
		quaver_write_msr(QUAVER_MSR_MISC, 0);
		quaver_write_msr(QUAVER_MSR_TT, 0);
		cpumask_clear_cpu(smp_processor_id(), thread->table->cpus);
	}
}

static void switched_in(struct preempt_notifier *notifier, int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	registers_load(container_of(notifier, struct quaver_thread, notifier));
	local_irq_restore(flags);
}

static void switched_out(struct preempt_notifier *notifier, struct task_struct *next)
{
	registers_save(container_of(notifier, struct quaver_thread, notifier));
}

static struct preempt_ops notifier_operations = {
	.sched_in = switched_in,
	.sched_out = switched_out,
};

unsigned long quaver_thread_begin(struct quaver_thread *thread)
{
	unsigned long flags;

	local_irq_save(flags);
	registers_save(thread);
	return flags;
}

void quaver_thread_end(struct quaver_thread *thread, unsigned long flags)
{
	registers_load(thread);
	local_irq_restore(flags);
}

static void thread_release(struct work_struct *work)
{
	struct quaver_thread *thread = container_of(work, struct quaver_thread, release);

	quaver_ticks_end(&thread->ticks);
	quaver_table_put(thread->table);
	quaver_receiver_put(thread->receiver);
	kfree(thread);
}

/* The calling thread's structure, made if there is none. */
static struct quaver_thread *thread_get(struct quaver_table *table)
{
	struct quaver_thread *thread = quaver_thread_current();
	unsigned long flags;

	if (thread)
		return thread->table == table ? thread : ERR_PTR(-EBUSY);
	if (quaver_cpu_why())
		return ERR_PTR(-EOPNOTSUPP);
	thread = kzalloc(sizeof(*thread), GFP_KERNEL_ACCOUNT);
	if (!thread)
		return ERR_PTR(-ENOMEM);
	/* The caller's open file holds one already. */
	__module_get(THIS_MODULE);
	thread->task = current;
	thread->table = table;
	kref_get(&table->ref);
	quaver_ticks_init(&thread->ticks);
	INIT_WORK(&thread->release, thread_release);
	preempt_notifier_init(&thread->notifier, &notifier_operations);
	spin_lock(&threads_lock);
	hash_add(threads, &thread->node, (unsigned long)current);
	spin_unlock(&threads_lock);
	local_irq_save(flags);
	quaver_clui();
	registers_load(thread);
	preempt_notifier_register(&thread->notifier);
	local_irq_restore(flags);
	return thread;
}

long quaver_thread_attach(struct quaver_table *table)
{
	return PTR_ERR_OR_ZERO(thread_get(table));
}

static bool stack_is_valid(u64 stack)
{
	if (stack & 6)
		return false;
	if (stack & 1)
		return (stack & ~7ULL) && stack < TASK_SIZE_MAX;
	return stack <= 1 << 20;
}

long quaver_thread_register(struct quaver_table *table, const struct quaver_handler *handler)
{
	struct quaver_receiver *receiver;
	struct quaver_thread *thread;
	unsigned long flags;

	if (handler->flags || handler->reserved || !stack_is_valid(handler->stack) || !handler->handler ||
	    handler->handler >= TASK_SIZE_MAX)
		return -EINVAL;
	thread = quaver_thread_current();
	if (thread && thread->receiver)
		return -EBUSY;
	receiver = quaver_receiver_new();
	if (!receiver)
		return -ENOMEM;
	thread = thread_get(table);
	if (IS_ERR(thread)) {
		quaver_receiver_put(receiver);
		return PTR_ERR(thread);
	}
	flags = quaver_thread_begin(thread);
	thread->receiver = receiver;
	thread->handler = handler->handler;
	thread->stack = handler->stack;
	thread->uif = false;
	quaver_thread_end(thread, flags);
	return 0;
}

/* May be called with preemption disabled. */
long quaver_thread_detach(void)
{
	struct quaver_thread *thread = quaver_thread_current();
	unsigned long flags;

	if (!thread)
		return -ENOENT;
	spin_lock(&threads_lock);
	hash_del(&thread->node);
	spin_unlock(&threads_lock);
	local_irq_save(flags);
	preempt_notifier_unregister(&thread->notifier);
	registers_save(thread);
	local_irq_restore(flags);
	if (thread->receiver)
		WRITE_ONCE(thread->receiver->gone, true);
	queue_work(releases, &thread->release);
	/* quaver_threads_exit() waits for the work. */
	module_put(THIS_MODULE);
	return 0;
}

int quaver_threads_init(void)
{
	releases = alloc_workqueue("quaver", WQ_UNBOUND, 0);
	if (!releases)
		return -ENOMEM;
	preempt_notifier_inc();
	return 0;
}

void quaver_threads_exit(void)
{
	preempt_notifier_dec();
	destroy_workqueue(releases);
}
