// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The local APIC's timer, given to a thread while it runs: README.md, "Delegated timer".
 *
 * The timer of a CPU is the thread's from quaver_ticks_load() to quaver_ticks_save(), both with interrupts off on that
 * CPU. In between, the kernel's ticks come from the helper: an hrtimer there, a call to this CPU, and from there an
 * interrupt to itself.
 */
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/sched/isolation.h>
#include <linux/timekeeping.h>
#include <asm/msr.h>

#include "compat.h"
#include "internal.h"

#define MIN_NS 2000ULL
#define MAX_NS NSEC_PER_SEC
#define LVTT_MODES (APIC_LVT_TIMER_PERIODIC | APIC_LVT_TIMER_TSCDEADLINE)
#define LVTT_DELEGATED (QUAVER_HARDWARE_VECTOR | APIC_LVT_TIMER_PERIODIC)

/* What the kernel had in the timer that is a thread's now. */
struct local_timer {
	struct quaver_ticks *owner;
	u32 lvtt;
	u32 divider;
	u32 initial;
	u64 kernel_tick_ns; /* when the kernel last had one */
};

static DEFINE_PER_CPU(struct local_timer, local_timers);

/* Of the timer, undivided; 0: there is none that can be given away. */
static u64 hz;

u64 quaver_timer_min_ns(void)
{
	return hz ? MIN_NS : 0;
}

u64 quaver_timer_max_ns(void)
{
	return hz ? MAX_NS : 0;
}

static void interrupt_self(u32 vector)
{
	if (x2apic_mode) {
		quaver_apic_write(APIC_SELF_IPI, vector);
		return;
	}
	while (quaver_apic_read(APIC_ICR) & APIC_ICR_BUSY)
		cpu_relax();
	quaver_apic_write(APIC_ICR, APIC_DEST_SELF | APIC_DM_FIXED | vector);
}

/* False if the kernel uses the timer in a way that cannot be restored. */
static bool timer_take(struct local_timer *local)
{
	local->lvtt = quaver_apic_read(APIC_LVTT);
	local->divider = quaver_apic_read(APIC_TDCR);
	local->initial = quaver_apic_read(APIC_TMICT);
	return local->lvtt & LVTT_MODES;
}

static void timer_restore(struct local_timer *local)
{
	quaver_apic_write(APIC_LVTT, local->lvtt);
	quaver_apic_write(APIC_TDCR, local->divider);
	if (local->lvtt & APIC_LVT_TIMER_TSCDEADLINE) {
		/* The mode must be set before the deadline is: Intel SDM, volume 3, 11.5.4.1. */
		asm volatile("mfence; lfence" : : : "memory");
		/* At once: the kernel looks which of its timers are due, and sets the next deadline. */
		quaver_write_msr(QUAVER_MSR_DEADLINE, rdtsc());
	} else {
		quaver_apic_write(APIC_TMICT, local->initial);
		/* Its period begins anew with every switch: it would never end with frequent ones. */
		if (ktime_get_mono_fast_ns() - local->kernel_tick_ns >= TICK_NSEC) {
			local->kernel_tick_ns = ktime_get_mono_fast_ns();
			interrupt_self(local->lvtt & APIC_VECTOR_MASK);
		}
	}
}

static void timer_start(u32 count)
{
	quaver_apic_write(APIC_LVTT, LVTT_DELEGATED);
	quaver_apic_write(APIC_TDCR, APIC_TDR_DIV_1);
	quaver_apic_write(APIC_TMICT, count);
}

/* How fast the timer counts: that of the CPU that loads the module, they are alike. */
void quaver_timer_init(void)
{
	struct local_timer *local;
	unsigned long flags;
	u64 start, elapsed;
	u32 counted;

	if (quaver_cpu_why())
		return;
	local_irq_save(flags);
	local = this_cpu_ptr(&local_timers);
	if (timer_take(local)) {
		quaver_apic_write(APIC_LVTT, QUAVER_HARDWARE_VECTOR | APIC_LVT_MASKED);
		quaver_apic_write(APIC_TDCR, APIC_TDR_DIV_1);
		start = ktime_get_mono_fast_ns();
		quaver_apic_write(APIC_TMICT, U32_MAX);
		do {
			counted = U32_MAX - quaver_apic_read(APIC_TMCCT);
			elapsed = ktime_get_mono_fast_ns() - start;
		} while (elapsed < 2 * NSEC_PER_MSEC);
		hz = mul_u64_u64_div_u64(counted, NSEC_PER_SEC, elapsed);
		timer_restore(local);
	}
	local_irq_restore(flags);
	if (hz)
		pr_info("quaver: the local timer counts at %llu Hz\n", hz);
	else
		pr_info("quaver: no delegated timer: the kernel's timer is a one-shot counter\n");
}

/* On the thread's CPU, with interrupts off. */
static void kernel_tick(void *data)
{
	struct local_timer *local = this_cpu_ptr(&local_timers);

	if (local->owner != data)
		return;
	if (quaver_apic_read(APIC_LVTT) != LVTT_DELEGATED) {
		/* The kernel has set it up anew. */
		if (!timer_take(local)) {
			local->owner = NULL;
			return;
		}
		timer_start(local->owner->count);
	}
	local->kernel_tick_ns = ktime_get_mono_fast_ns();
	interrupt_self(local->lvtt & APIC_VECTOR_MASK);
}

static enum hrtimer_restart assist(struct hrtimer *timer)
{
	struct quaver_ticks *ticks = container_of(timer, struct quaver_ticks, assist);
	int cpu = READ_ONCE(ticks->cpu);

	/* Still on its way from the last time: EBUSY, and one tick is enough. */
	if (cpu >= 0 && cpu != smp_processor_id())
		smp_call_function_single_async(cpu, &ticks->call);
	hrtimer_forward_now(timer, ns_to_ktime(TICK_NSEC));
	return HRTIMER_RESTART;
}

static void assist_start(void *data)
{
	struct quaver_ticks *ticks = data;

	hrtimer_start(&ticks->assist, ns_to_ktime(TICK_NSEC), HRTIMER_MODE_REL_PINNED_HARD);
}

void quaver_ticks_init(struct quaver_ticks *ticks)
{
	ticks->cpu = -1;
	quaver_hrtimer_setup(&ticks->assist, assist);
	INIT_CSD(&ticks->call, kernel_tick, ticks);
}

/* Interrupts are off. True: the thread has the timer, and UPID.SN is to stay. */
bool quaver_ticks_load(struct quaver_ticks *ticks)
{
	struct local_timer *local = this_cpu_ptr(&local_timers);

	if (!ticks->enabled || ticks->helper == smp_processor_id() || !cpu_active(ticks->helper))
		return false;
	if (!timer_take(local))
		return false;
	timer_start(ticks->count);
	local->owner = ticks;
	WRITE_ONCE(ticks->cpu, smp_processor_id());
	return true;
}

/* Interrupts are off. */
void quaver_ticks_save(struct quaver_ticks *ticks)
{
	struct local_timer *local = this_cpu_ptr(&local_timers);

	if (local->owner != ticks)
		return;
	local->owner = NULL;
	WRITE_ONCE(ticks->cpu, -1);
	timer_restore(local);
}

static void nothing(void *unused)
{
}

/* The thread does not have the timer any more. Waits for ticks that are on their way. */
static void assist_stop(struct quaver_ticks *ticks)
{
	hrtimer_cancel(&ticks->assist);
	/* Calls are served in order. */
	on_each_cpu(nothing, NULL, true);
}

void quaver_ticks_end(struct quaver_ticks *ticks)
{
	if (ticks->enabled)
		assist_stop(ticks);
}

static void give_back(void *helper)
{
	struct quaver_ticks *ticks = this_cpu_ptr(&local_timers)->owner;

	if (ticks && ticks->helper == (int)(long)helper)
		quaver_ticks_save(ticks);
}

/* Threads whose helper goes have no ticks from now on. quaver_ticks_load() sees that it is not active. */
void quaver_ticks_helper_offline(unsigned int cpu)
{
	on_each_cpu(give_back, (void *)(long)cpu, true);
}

static int choose_helper(int cpu)
{
	int other;

	for_each_cpu(other, housekeeping_cpumask(HK_TYPE_DOMAIN)) {
		if (other != cpu && cpu_active(other))
			return other;
	}
	return -1;
}

long quaver_timer_set(struct quaver_timer *timer)
{
	struct quaver_thread *thread;
	unsigned long flags;
	u64 count;

	if (!hz)
		return -EOPNOTSUPP;
	if (timer->flags || timer->vector >= 64)
		return -EINVAL;
	if (timer->period_ns < MIN_NS || timer->period_ns > MAX_NS)
		return -ERANGE;
	thread = quaver_thread_current();
	if (!thread || !thread->receiver)
		return -ENOENT;
	count = mul_u64_u64_div_u64(timer->period_ns, hz, NSEC_PER_SEC);
	if (!count || count > U32_MAX)
		return -ERANGE;
	timer->period_ns = mul_u64_u64_div_u64(count, NSEC_PER_SEC, hz);
	flags = quaver_thread_begin(thread);
	thread->ticks.count = count;
	thread->ticks.period_ns = timer->period_ns;
	thread->ticks.vector = timer->vector;
	/* An enabled timer goes on with the new vector: fill PIR as enabling does. */
	if (thread->ticks.enabled)
		set_bit(timer->vector, (unsigned long *)&thread->receiver->upid.pir);
	quaver_thread_end(thread, flags);
	return 0;
}

long quaver_timer_enable(void)
{
	struct quaver_thread *thread = quaver_thread_current();
	struct quaver_ticks *ticks;
	unsigned long flags;
	int helper;

	if (!hz)
		return -EOPNOTSUPP;
	if (!thread || !thread->receiver || !thread->ticks.period_ns)
		return -ENOENT;
	ticks = &thread->ticks;
	if (ticks->enabled)
		return -EBUSY;
	if (current->nr_cpus_allowed != 1)
		return -EINVAL;
	helper = choose_helper(cpumask_first(current->cpus_ptr));
	if (helper < 0)
		return -EOPNOTSUPP;
	if (smp_call_function_single(helper, assist_start, ticks, true))
		return -EOPNOTSUPP;
	flags = quaver_thread_begin(thread);
	ticks->helper = helper;
	ticks->enabled = true;
	set_bit(ticks->vector, (unsigned long *)&thread->receiver->upid.pir);
	quaver_thread_end(thread, flags);
	return 0;
}

long quaver_timer_disable(void)
{
	struct quaver_thread *thread = quaver_thread_current();
	unsigned long flags;

	if (!thread || !thread->ticks.enabled)
		return -ENOENT;
	flags = quaver_thread_begin(thread);
	/* What the handler has put there for a tick that does not come any more. */
	clear_bit(thread->ticks.vector, (unsigned long *)&thread->receiver->upid.pir);
	thread->ticks.enabled = false;
	quaver_thread_end(thread, flags);
	assist_stop(&thread->ticks);
	return 0;
}
