// SPDX-License-Identifier: MIT OR GPL-2.0
/* The device, its calls, and the ends of threads. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "internal.h"

static ushort mode = 0600;
module_param(mode, ushort, 0444);
MODULE_PARM_DESC(mode, "permissions of /dev/quaver");

struct quaver_file {
	struct quaver_table *table;
	struct quaver_group *group;
};

static int device_open(struct inode *inode, struct file *file)
{
	struct quaver_file *open = kzalloc(sizeof(*open), GFP_KERNEL_ACCOUNT);

	if (!open)
		return -ENOMEM;
	open->table = quaver_table_new();
	open->group = quaver_group_new();
	if (!open->table || !open->group) {
		if (open->table)
			quaver_table_put(open->table);
		if (open->group)
			quaver_group_put(open->group);
		kfree(open);
		return -ENOMEM;
	}
	file->private_data = open;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct quaver_file *open = file->private_data;

	quaver_table_put(open->table);
	quaver_group_put(open->group);
	kfree(open);
	return 0;
}

static void info_fill(struct quaver_info *info)
{
	const char *why = quaver_cpu_why();

	memset(info, 0, sizeof(*info));
	info->abi = QUAVER_ABI;
	info->features = QUAVER_HAS_CORES | QUAVER_HAS_REST;
	info->entries = QUAVER_ENTRIES;
	info->hardware_vector = QUAVER_HARDWARE_VECTOR;
	if (!why) {
		info->features |= QUAVER_HAS_UINTR;
		info->timer_min_ns = quaver_timer_min_ns();
		info->timer_max_ns = quaver_timer_max_ns();
		if (info->timer_max_ns)
			info->features |= QUAVER_HAS_TIMER;
		else
			why = "the kernel's timer is a one-shot counter: no delegated timer";
	}
	strscpy(info->why, why ?: "", sizeof(info->why));
}

static long vector_new(const struct quaver_vector *vector)
{
	struct quaver_thread *thread = quaver_thread_current();

	if (vector->flags)
		return -EINVAL;
	if (!thread || !thread->receiver)
		return -ENOENT;
	return quaver_vector_fd(thread->receiver, vector->vector);
}

static long device_ioctl(struct file *file, unsigned int call, unsigned long address)
{
	struct quaver_file *open = file->private_data;
	void __user *user = (void __user *)address;
	union {
		struct quaver_info info;
		struct quaver_handler handler;
		struct quaver_vector vector;
		struct quaver_route route;
		struct quaver_timer timer;
		struct quaver_park park;
		struct quaver_thread_id thread;
		struct quaver_rest rest;
	} in;
	long result;

	if (_IOC_TYPE(call) != QUAVER_MAGIC)
		return -ENOTTY;
	/* The sizes of known calls are those of the union's members; an unknown call is refused below. */
	if (_IOC_DIR(call) & _IOC_WRITE) {
		if (_IOC_SIZE(call) > sizeof(in))
			return -ENOTTY;
		if (copy_from_user(&in, user, _IOC_SIZE(call)))
			return -EFAULT;
	}
	switch (call) {
	case QUAVER_INFO:
		info_fill(&in.info);
		return copy_to_user(user, &in.info, sizeof(in.info)) ? -EFAULT : 0;
	case QUAVER_REGISTER:
		return quaver_thread_register(open->table, &in.handler);
	case QUAVER_ATTACH:
		return quaver_thread_attach(open->table);
	case QUAVER_DETACH:
		return quaver_thread_detach();
	case QUAVER_VECTOR:
		return vector_new(&in.vector);
	case QUAVER_ROUTE:
		return quaver_table_route(open->table, &in.route);
	case QUAVER_TIMER_SET:
		result = quaver_timer_set(&in.timer);
		if (!result && copy_to_user(user, &in.timer, sizeof(in.timer)))
			return -EFAULT;
		return result;
	case QUAVER_TIMER_ENABLE:
		return quaver_timer_enable();
	case QUAVER_TIMER_DISABLE:
		return quaver_timer_disable();
	case QUAVER_PARK:
		return quaver_park(open->group, &in.park);
	case QUAVER_SWITCH_TO:
		return in.thread.flags ? -EINVAL : quaver_switch_to(open->group, in.thread.tid);
	case QUAVER_WAKEUP:
		return quaver_wakeup(open->group, &in.thread);
	case QUAVER_LEAVE:
		return quaver_leave();
	case QUAVER_REST:
		return quaver_rest(open->group, &in.rest);
	}
	return -ENOTTY;
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "quaver",
	.fops = &device_operations,
};

/* In the thread that ends, with preemption disabled, after its last instruction in user mode. */
static void thread_exits(QUAVER_EXIT_ARGUMENTS)
{
	quaver_thread_detach();
	quaver_member_end();
}

/* In the thread, before the first instruction of the new program. */
static void thread_execs(void *data, struct task_struct *task, pid_t old_pid, struct linux_binprm *binary)
{
	quaver_thread_detach();
	quaver_member_end();
}

/* Tracepoints are not exported by name. */
static struct hook {
	const char *name;
	void *probe;
	struct tracepoint *point;
	bool set;
} hooks[] = {
	{ "sched_process_exit", thread_exits },
	{ "sched_process_exec", thread_execs },
};

static void hook_find(struct tracepoint *point, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		if (!strcmp(point->name, hooks[i].name))
			hooks[i].point = point;
	}
}

static void hooks_remove(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		if (hooks[i].set)
			tracepoint_probe_unregister(hooks[i].point, hooks[i].probe, NULL);
	}
	tracepoint_synchronize_unregister();
}

static int hooks_set(void)
{
	unsigned int i;
	int result;

	for_each_kernel_tracepoint(hook_find, NULL);
	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		result = hooks[i].point ? tracepoint_probe_register(hooks[i].point, hooks[i].probe, NULL) : -ENOENT;
		if (result) {
			pr_err("quaver: cannot watch the kernel's tracepoint %s\n", hooks[i].name);
			hooks_remove();
			return result;
		}
		hooks[i].set = true;
	}
	return 0;
}

static int __init quaver_init(void)
{
	int result;

	result = quaver_receivers_init();
	if (result)
		return result;
	result = quaver_threads_init();
	if (result)
		goto receivers;
	result = hooks_set();
	if (result)
		goto threads;
	result = quaver_cpu_init();
	if (result)
		goto hooks;
	quaver_timer_init();
	device.mode = mode & 0777;
	result = misc_register(&device);
	if (!result)
		return 0;
	quaver_cpu_exit();
hooks:
	hooks_remove();
threads:
	quaver_threads_exit();
receivers:
	quaver_receivers_exit();
	return result;
}

static void __exit quaver_exit(void)
{
	misc_deregister(&device);
	quaver_cpu_exit();
	hooks_remove();
	quaver_threads_exit();
	quaver_receivers_exit();
}

module_init(quaver_init);
module_exit(quaver_exit);
MODULE_DESCRIPTION("User interrupts, delegated timers and shared cores for user-level threads");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("1");
