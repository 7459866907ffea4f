// SPDX-License-Identifier: MIT OR GPL-2.0
/* Sender tables. README.md, "Routes", says why a change interrupts the CPUs that use the table. */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "internal.h"

struct quaver_table *quaver_table_new(void)
{
	struct quaver_table *table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT);

	if (!table)
		return NULL;
	kref_init(&table->ref);
	mutex_init(&table->lock);
	table->entries = (void *)__get_free_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO, QUAVER_TABLE_ORDER);
	table->targets = kvcalloc(QUAVER_ENTRIES, sizeof(*table->targets), GFP_KERNEL_ACCOUNT);
	if (table->entries && table->targets && zalloc_cpumask_var(&table->cpus, GFP_KERNEL))
		return table;
	free_pages((unsigned long)table->entries, QUAVER_TABLE_ORDER);
	kvfree(table->targets);
	kfree(table);
	return NULL;
}

/* The last reference: no thread is attached, so nobody sends through it. */
static void table_free(struct kref *ref)
{
	struct quaver_table *table = container_of(ref, struct quaver_table, ref);
	unsigned int i;

	for (i = 0; i < QUAVER_ENTRIES; i++)
		quaver_receiver_put(table->targets[i]);
	free_pages((unsigned long)table->entries, QUAVER_TABLE_ORDER);
	kvfree(table->targets);
	free_cpumask_var(table->cpus);
	kfree(table);
}

void quaver_table_put(struct quaver_table *table)
{
	kref_put(&table->ref, table_free);
}

static void nothing(void *unused)
{
}

/*
 * Returns when no CPU is in a SENDUIPI that has read an entry as it was before the call. A CPU that is not in the mask
 * does not use the table; one that enters it later reads what was written before: set_bit in registers_load() and the
 * barrier here see to that.
 */
static void table_settle(struct quaver_table *table)
{
	smp_mb();
	on_each_cpu_mask(table->cpus, nothing, NULL, true);
}

/* CPUs that wait in an interrupt. */
struct table_pause {
	atomic_t coming, leaving;
	bool over;
};

static void wait_for_change(void *argument)
{
	struct table_pause *pause = argument;

	atomic_dec(&pause->coming);
	while (!smp_load_acquire(&pause->over))
		cpu_relax();
	atomic_dec_return_release(&pause->leaving);
}

/*
 * Writes both halves of an entry that is in use. Meanwhile every CPU that uses the table waits in an interrupt, so that
 * a SENDUIPI, which is not interrupted, finds the old entry or the new one. One change at a time: two would wait for
 * each other.
 */
static void table_change(struct quaver_table *table, struct quaver_uitt_entry *entry, u64 upid, u64 control)
{
	static DEFINE_MUTEX(one);
	static struct cpumask cpus;
	struct table_pause pause = {};

	mutex_lock(&one);
	cpus_read_lock();
	preempt_disable();
	WRITE_ONCE(table->changing, true);
	smp_mb(); /* Who enters sees that, or is seen here: table_enter(). */
	cpumask_and(&cpus, table->cpus, cpu_online_mask);
	cpumask_clear_cpu(smp_processor_id(), &cpus);
	atomic_set(&pause.coming, cpumask_weight(&cpus));
	atomic_set(&pause.leaving, cpumask_weight(&cpus));
	smp_call_function_many(&cpus, wait_for_change, &pause, false);
	while (atomic_read_acquire(&pause.coming))
		cpu_relax();
	WRITE_ONCE(entry->upid, upid);
	WRITE_ONCE(entry->control, control);
	smp_store_release(&pause.over, true);
	while (atomic_read_acquire(&pause.leaving))
		cpu_relax();
	smp_store_release(&table->changing, false);
	preempt_enable();
	cpus_read_unlock();
	mutex_unlock(&one);
}

static u64 entry_control(u32 vector)
{
	return 1 | (u64)vector << 8;
}

static long route_locked(struct quaver_table *table, int index, struct quaver_receiver *target, u32 vector)
{
	struct quaver_uitt_entry *entry;
	struct quaver_receiver *old;

	if (index == QUAVER_ANY) {
		if (!target)
			return -EINVAL;
		for (index = 0; index < QUAVER_ENTRIES && table->targets[index]; index++)
			;
		if (index == QUAVER_ENTRIES)
			return -ENOSPC;
	}
	if (index < 0 || index >= QUAVER_ENTRIES)
		return -EINVAL;
	entry = &table->entries[index];
	old = table->targets[index];
	if (!target && !old)
		return -EINVAL;
	if (target && old && entry->control == entry_control(vector)) {
		WRITE_ONCE(entry->upid, (u64)&target->upid);
		table_settle(table);
	} else if (target && old) {
		table_change(table, entry, (u64)&target->upid, entry_control(vector));
	} else if (target) {
		WRITE_ONCE(entry->upid, (u64)&target->upid);
		smp_wmb();
		WRITE_ONCE(entry->control, entry_control(vector));
	} else {
		WRITE_ONCE(entry->control, 0);
		table_settle(table);
	}
	table->targets[index] = target;
	quaver_receiver_put(old);
	return index;
}

long quaver_table_route(struct quaver_table *table, const struct quaver_route *route)
{
	struct quaver_receiver *target = NULL;
	u32 vector = 0;
	long result;

	if (route->flags || route->reserved || route->vector_fd < -1)
		return -EINVAL;
	if (route->vector_fd >= 0) {
		target = quaver_receiver_of_fd(route->vector_fd, &vector);
		if (IS_ERR(target))
			return PTR_ERR(target);
	}
	if (target && READ_ONCE(target->gone)) {
		quaver_receiver_put(target);
		return -ESRCH;
	}
	mutex_lock(&table->lock);
	result = route_locked(table, route->index, target, vector);
	mutex_unlock(&table->lock);
	if (result < 0)
		quaver_receiver_put(target);
	return result;
}
