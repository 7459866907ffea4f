/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* User interrupts as the CPU knows them, and access to its registers. Intel SDM, volume 3, "User Interrupts". */
#ifndef QUAVER_HARDWARE_H
#define QUAVER_HARDWARE_H

#include <linux/types.h>
#include <asm/apic.h>
#include <asm/barrier.h>

enum quaver_msr {
	QUAVER_MSR_RR = 0x985, /* UIRR: recognised, to be delivered */
	QUAVER_MSR_HANDLER = 0x986,
	QUAVER_MSR_STACKADJUST = 0x987,
	QUAVER_MSR_MISC = 0x988, /* 31:0 highest index of the UITT, 39:32 UINV */
	QUAVER_MSR_PD = 0x989, /* address of the UPID */
	QUAVER_MSR_TT = 0x98a, /* address of the UITT, bit 0: SENDUIPI is allowed */
	QUAVER_MSR_DEADLINE = 0x6e0,
	QUAVER_MSR_X2APIC = 0x800,
};

#define QUAVER_CPUID_UINTR BIT(5) /* of EDX of leaf 7 */
#define QUAVER_CR4_UINTR BIT(25)

/* KVM's vector for posted interrupts: a gate that only acknowledges. */
#define QUAVER_HARDWARE_VECTOR 0xf2

#define QUAVER_UPID_ON 0
#define QUAVER_UPID_SN 1

struct quaver_upid {
	union {
		unsigned long control;
		struct {
			u8 status; /* ON and SN */
			u8 reserved1;
			u8 nv;
			u8 reserved2;
			u32 ndst;
		};
	};
	u64 pir;
} __aligned(64);

struct quaver_uitt_entry {
	u64 control; /* bit 0 valid, 15:8 user vector */
	u64 upid;
};

static inline void quaver_write_msr(u32 msr, u64 value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32)) : "memory");
}

static inline u64 quaver_read_msr(u32 msr)
{
	u32 low, high;

	asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr) : "memory");
	return low | (u64)high << 32;
}

static inline bool quaver_testui(void)
{
	bool flag;

	asm volatile("testui" : "=@ccc"(flag) : : "memory");
	return flag;
}

static inline void quaver_stui(void)
{
	asm volatile("stui" : : : "memory");
}

static inline void quaver_clui(void)
{
	asm volatile("clui" : : : "memory");
}

static inline void quaver_senduipi(unsigned long index)
{
	asm volatile("senduipi %0" : : "r"(index) : "memory");
}

static inline u32 quaver_apic_read(u32 reg)
{
	if (x2apic_mode)
		return quaver_read_msr(QUAVER_MSR_X2APIC + (reg >> 4));
	return native_apic_mem_read(reg);
}

static inline void quaver_apic_write(u32 reg, u32 value)
{
	if (x2apic_mode)
		quaver_write_msr(QUAVER_MSR_X2APIC + (reg >> 4), value);
	else
		native_apic_mem_write(reg, value);
}

#endif
