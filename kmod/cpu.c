// SPDX-License-Identifier: MIT OR GPL-2.0
/* CR4.UINTR on every CPU that is online, and what this machine lacks. */
#include <linux/cpuhotplug.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/static_call.h>
#include <asm/cpufeature.h>
#include <asm/tlbflush.h>

#include "compat.h"
#include "internal.h"

static bool with_kvm;
module_param(with_kvm, bool, 0444);
MODULE_PARM_DESC(with_kvm, "share KVM's notification vector while a hypervisor is in use");

static const char *missing;
static enum cpuhp_state state;

#if QUAVER_CR4_EXPORTED
static bool find_cr4_update(void)
{
	return true;
}

static void cr4_update(unsigned long set, unsigned long clear)
{
	cr4_update_irqsoff(set, clear);
}
#else
DEFINE_STATIC_CALL_NULL(quaver_cr4_update, cr4_update_irqsoff);

/*
 * Not for modules, but it is the one function that keeps the kernel's copy of CR4 true. The probe may lie behind an ENDBR,
 * and the function may have none: a static call is a direct one, which needs none.
 */
static bool find_cr4_update(void)
{
	struct kprobe probe = { .symbol_name = "cr4_update_irqsoff" };

	if (register_kprobe(&probe))
		return false;
	static_call_update(quaver_cr4_update, (void *)probe.addr);
	unregister_kprobe(&probe);
	return true;
}

static void cr4_update(unsigned long set, unsigned long clear)
{
	static_call(quaver_cr4_update)(set, clear);
}
#endif

static int cpu_online_callback(unsigned int cpu)
{
	unsigned long flags;

	local_irq_save(flags);
	cr4_update(QUAVER_CR4_UINTR, 0);
	quaver_write_msr(QUAVER_MSR_MISC, 0);
	quaver_write_msr(QUAVER_MSR_TT, 0);
	quaver_clui();
	local_irq_restore(flags);
	return 0;
}

static int cpu_offline_callback(unsigned int cpu)
{
	unsigned long flags;

	quaver_ticks_helper_offline(cpu);
	local_irq_save(flags);
	quaver_write_msr(QUAVER_MSR_MISC, 0);
	quaver_write_msr(QUAVER_MSR_TT, 0);
	cr4_update(0, QUAVER_CR4_UINTR);
	local_irq_restore(flags);
	return 0;
}

const char *quaver_cpu_why(void)
{
	if (missing)
		return missing;
	if (!with_kvm && native_read_cr4() & X86_CR4_VMXE)
		return "a hypervisor is in use and has the same vector; load the module with with_kvm=1 to share it";
	return NULL;
}

int quaver_cpu_init(void)
{
	int result;

	if (!(cpuid_edx(7) & QUAVER_CPUID_UINTR)) {
		missing = "this CPU has no user interrupts (CPUID 7, EDX bit 5)";
	} else if (boot_cpu_has(X86_FEATURE_PTI)) {
		missing = "page table isolation is on; boot with pti=off if this CPU does not need it";
	} else if (!boot_cpu_has(X86_FEATURE_APIC)) {
		missing = "the local APIC is off";
	} else if (!find_cr4_update()) {
		missing = "this kernel does not let modules change CR4, and has no kprobes";
	} else {
		result = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "quaver:online", cpu_online_callback,
					   cpu_offline_callback);
		if (result < 0)
			return result;
		state = result;
		return 0;
	}
	pr_info("quaver: no user interrupts: %s\n", missing);
	return 0;
}

void quaver_cpu_exit(void)
{
	if (!missing)
		cpuhp_remove_state(state);
}
