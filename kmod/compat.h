/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What differs between the kernels that this module is built for: 6.1 and later. */
#ifndef QUAVER_COMPAT_H
#define QUAVER_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/version.h>
#include <asm/processor.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#include <asm/cpuid/api.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "quaver.ko needs a kernel of 6.1 or later"
#endif

/* cr4_update_irqsoff() is exported to all modules, not only to KVM. */
#define QUAVER_CR4_EXPORTED (LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0))

/* The tracepoint sched_process_exit tells whether the thread is the last of its process. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define QUAVER_EXIT_ARGUMENTS void *data, struct task_struct *task, bool group_dead
#else
#define QUAVER_EXIT_ARGUMENTS void *data, struct task_struct *task
#endif

static inline void quaver_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer->function = function;
#endif
}

#endif
