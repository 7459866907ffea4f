// SPDX-License-Identifier: MIT OR GPL-2.0
/* Sender tables. README.md, "Routes", says why a change interrupts the CPUs that use the table. */
#include <linux/gfp.h>
#include <linux/irqflags.h>
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
	table->between = quaver_receiver_new();
	if (table->entries && table->targets && table->between && zalloc_cpumask_var(&table->cpus, GFP_KERNEL))
		return table;
	quaver_receiver_put(table->between);
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
	quaver_receiver_put(table->between);
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

/* What SENDUIPI does with an entry, on this CPU, whatever its thread may send to. */
static void send(struct quaver_table *table, unsigned long index)
{
	unsigned long flags;
	u64 misc, entries;

	local_irq_save(flags);
	misc = quaver_read_msr(QUAVER_MSR_MISC);
	entries = quaver_read_msr(QUAVER_MSR_TT);
	quaver_write_msr(QUAVER_MSR_MISC, (misc & ~(u64)U32_MAX) | (QUAVER_ENTRIES - 1));
	quaver_write_msr(QUAVER_MSR_TT, (u64)table->entries | 1);
	quaver_senduipi(index);
	quaver_write_msr(QUAVER_MSR_TT, entries);
	quaver_write_msr(QUAVER_MSR_MISC, misc);
	local_irq_restore(flags);
}

/*
 * Changes both halves of an entry that is in use. No CPU may wait for another with interrupts off here: a lock that a
 * third one holds may be what that one waits for.
 */
static void table_change(struct quaver_table *table, int index, u64 upid, u64 control)
{
	struct quaver_uitt_entry *entry = &table->entries[index];

	WRITE_ONCE(entry->upid, (u64)&table->between->upid);
	table_settle(table);
	WRITE_ONCE(entry->control, control);
	table_settle(table);
	WRITE_ONCE(entry->upid, upid);
	table_settle(table);
	if (xchg(&table->between->upid.pir, 0))
		send(table, index);
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
		table_change(table, index, (u64)&target->upid, entry_control(vector));
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
