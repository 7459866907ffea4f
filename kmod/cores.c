// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Shared cores (Skyloft, section 3.3): of the members of a group that are bound to one CPU, at most one is active.
 *
 * Who is active changes under the group's lock only. A member is made and removed by its own thread; others only make
 * it active, and wake it. Members that rest (quaver_rest) may run without being active, and may lose that while they
 * run: they agree by other means who has the CPU.
 */
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "internal.h"

struct quaver_group {
	struct kref ref;
	spinlock_t lock;
	struct list_head members; /* those suspended longest come first */
};

struct member {
	struct hlist_node node;
	struct list_head link; /* of the group */
	struct task_struct *task;
	struct quaver_group *group;
	unsigned int cpu;
	bool active;
	bool woken; /* and has not returned from a suspension since */
	struct cpumask before; /* where it could run before it joined */
};

static DEFINE_HASHTABLE(members, 6);
static DEFINE_SPINLOCK(members_lock);
static atomic_t members_count = ATOMIC_INIT(0);

struct quaver_group *quaver_group_new(void)
{
	struct quaver_group *group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);

	if (!group)
		return NULL;
	kref_init(&group->ref);
	spin_lock_init(&group->lock);
	INIT_LIST_HEAD(&group->members);
	return group;
}

static void group_free(struct kref *ref)
{
	kfree(container_of(ref, struct quaver_group, ref));
}

void quaver_group_put(struct quaver_group *group)
{
	kref_put(&group->ref, group_free);
}

static struct member *member_current(void)
{
	struct member *member, *found = NULL;

	if (!atomic_read(&members_count))
		return NULL;
	spin_lock(&members_lock);
	hash_for_each_possible(members, member, node, (unsigned long)current) {
		if (member->task == current) {
			found = member;
			break;
		}
	}
	spin_unlock(&members_lock);
	return found;
}

static struct member *member_new(struct quaver_group *group)
{
	struct member *member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);

	if (!member)
		return NULL;
	/* The caller's open file holds one already. */
	__module_get(THIS_MODULE);
	member->task = current;
	get_task_struct(current);
	member->group = group;
	kref_get(&group->ref);
	cpumask_copy(&member->before, current->cpus_ptr);
	INIT_LIST_HEAD(&member->link);
	spin_lock(&members_lock);
	hash_add(members, &member->node, (unsigned long)current);
	spin_unlock(&members_lock);
	atomic_inc(&members_count);
	return member;
}

static void member_free(struct member *member)
{
	spin_lock(&members_lock);
	hash_del(&member->node);
	spin_unlock(&members_lock);
	atomic_dec(&members_count);
	put_task_struct(member->task);
	quaver_group_put(member->group);
	kfree(member);
	module_put(THIS_MODULE);
}

static struct member *active_of(struct quaver_group *group, unsigned int cpu)
{
	struct member *member;

	lockdep_assert_held(&group->lock);
	list_for_each_entry(member, &group->members, link) {
		if (member->cpu == cpu && member->active)
			return member;
	}
	return NULL;
}

static void activate(struct member *member)
{
	lockdep_assert_held(&member->group->lock);
	WRITE_ONCE(member->active, true);
	WRITE_ONCE(member->woken, true);
	wake_up_process(member->task);
}

/* In place of who is active on its CPU. */
static void succeed(struct member *member)
{
	struct member *before = active_of(member->group, member->cpu);

	if (before && before != member)
		WRITE_ONCE(before->active, false);
	activate(member);
}

/* Removes a member from the list, and lets the one suspended longest succeed if it was the active one. */
static void retire(struct member *member)
{
	struct member *next;

	lockdep_assert_held(&member->group->lock);
	list_del_init(&member->link);
	if (!member->active)
		return;
	WRITE_ONCE(member->active, false);
	list_for_each_entry(next, &member->group->members, link) {
		if (next->cpu == member->cpu) {
			activate(next);
			return;
		}
	}
}

/* Returns when the calling thread is active, or is about to die. */
static long suspend(struct member *member)
{
	long result = 0;

	for (;;) {
		set_current_state(TASK_KILLABLE | TASK_NOLOAD | TASK_FREEZABLE);
		if (READ_ONCE(member->active))
			break;
		if (fatal_signal_pending(current)) {
			result = -EINTR;
			break;
		}
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	WRITE_ONCE(member->woken, false);
	return result;
}

/* Returns when the calling thread was woken; until: NULL, or the end in any case. */
static long rest(struct member *member, ktime_t *until)
{
	long result = -EINTR;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE | TASK_FREEZABLE);
		if (READ_ONCE(member->woken) || signal_pending(current))
			break;
		if (!schedule_hrtimeout_range(until, current->timer_slack_ns, HRTIMER_MODE_ABS)) {
			result = -ETIME;
			break;
		}
	}
	__set_current_state(TASK_RUNNING);
	return xchg(&member->woken, false) ? 0 : result;
}

static struct member *member_by_tid(struct quaver_group *group, int tid)
{
	struct pid_namespace *namespace = task_active_pid_ns(current);
	struct member *member;

	lockdep_assert_held(&group->lock);
	list_for_each_entry(member, &group->members, link) {
		if (tid > 0 && task_pid_nr_ns(member->task, namespace) == tid)
			return member;
	}
	return NULL;
}

/* The calling thread's, which is bound to this CPU; made if there is none, and then in no list yet. */
static struct member *member_bound(struct quaver_group *group, unsigned int cpu)
{
	struct member *member = member_current();
	bool is_new = !member;

	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return ERR_PTR(-EINVAL);
	if (member && member->group != group)
		return ERR_PTR(-EBUSY);
	if (is_new) {
		member = member_new(group);
		if (!member)
			return ERR_PTR(-ENOMEM);
	}
	if (set_cpus_allowed_ptr(current, cpumask_of(cpu))) {
		if (is_new)
			member_free(member);
		return ERR_PTR(-EPERM);
	}
	return member;
}

long quaver_park(struct quaver_group *group, const struct quaver_park *park)
{
	struct member *member;
	bool active;

	if (park->flags & ~QUAVER_PARK_TAKE)
		return -EINVAL;
	member = member_bound(group, park->cpu);
	if (IS_ERR(member))
		return PTR_ERR(member);
	spin_lock(&group->lock);
	retire(member);
	member->cpu = park->cpu;
	active = park->flags & QUAVER_PARK_TAKE && !active_of(group, park->cpu);
	member->active = active;
	list_add_tail(&member->link, &group->members);
	spin_unlock(&group->lock);
	return active ? 0 : suspend(member);
}

long quaver_rest(struct quaver_group *group, const struct quaver_rest *call)
{
	struct member *member = member_current(), *target = NULL;
	ktime_t until = ktime_add_safe(ktime_get(), min_t(u64, call->limit_ns, KTIME_MAX));
	bool bound = member && member->group == group && member->cpu == call->cpu;

	if (!bound) {
		member = member_bound(group, call->cpu);
		if (IS_ERR(member))
			return PTR_ERR(member);
	}
	spin_lock(&group->lock);
	if (!bound) {
		retire(member);
		member->cpu = call->cpu;
		list_add_tail(&member->link, &group->members);
	}
	if (call->tid) {
		target = member_by_tid(group, call->tid);
		if (!target || target == member || target->cpu != member->cpu) {
			spin_unlock(&group->lock);
			return -ESRCH;
		}
		succeed(target);
	}
	/* Who was woken meanwhile does not rest. */
	if (!member->woken)
		WRITE_ONCE(member->active, false);
	list_move_tail(&member->link, &group->members);
	spin_unlock(&group->lock);
	return rest(member, call->limit_ns ? &until : NULL);
}

long quaver_switch_to(struct quaver_group *group, int tid)
{
	struct member *member = member_current(), *target;
	long result = 0;

	if (!member || member->group != group || !member->active)
		return -EPERM;
	spin_lock(&group->lock);
	target = member_by_tid(group, tid);
	if (!target || target->active || target->cpu != member->cpu) {
		result = -ESRCH;
	} else {
		member->active = false;
		list_move_tail(&member->link, &group->members);
		activate(target);
	}
	spin_unlock(&group->lock);
	return result ? result : suspend(member);
}

long quaver_wakeup(struct quaver_group *group, const struct quaver_thread_id *thread)
{
	struct member *target;
	long result = 0;

	if (thread->flags > QUAVER_WAKE_ASIDE)
		return -EINVAL;
	spin_lock(&group->lock);
	target = member_by_tid(group, thread->tid);
	if (!target) {
		result = -ESRCH;
	} else if (thread->flags == QUAVER_WAKE_INSTEAD) {
		succeed(target);
	} else if (thread->flags == QUAVER_WAKE_ASIDE) {
		WRITE_ONCE(target->woken, true);
		wake_up_process(target->task);
	} else if (target->active) {
		result = -EALREADY;
	} else if (active_of(group, target->cpu)) {
		result = -EBUSY;
	} else {
		activate(target);
	}
	spin_unlock(&group->lock);
	return result;
}

/* At exit and exec; may be called with preemption disabled. */
void quaver_member_end(void)
{
	struct member *member = member_current();

	if (!member)
		return;
	spin_lock(&member->group->lock);
	retire(member);
	spin_unlock(&member->group->lock);
	member_free(member);
}

long quaver_leave(void)
{
	struct member *member = member_current();

	if (!member)
		return -ENOENT;
	/* First, so that it is not on the core any more when its successor is. A cpuset may have changed: stay then. */
	set_cpus_allowed_ptr(current, &member->before);
	quaver_member_end();
	return 0;
}
