//! What the processor can do that user threads need or profit from, as far as the kernel has switched it on.

use raw_cpuid::CpuId;
use serde::Serialize;

/// `AT_HWCAP2`, bit 1: the kernel lets programs write the FS and GS bases.
const HWCAP2_FSGSBASE: u64 = 1 << 1;

/// `arch_prctl(ARCH_SHSTK_STATUS)` and its flag for "this thread has a shadow stack".
const ARCH_SHSTK_STATUS: libc::c_int = 0x5005;
const ARCH_SHSTK_SHSTK: u64 = 1;

/// What the processor can do.
#[derive(Clone, Debug, Serialize)]
pub struct Features {
    /// `rdfsbase`/`wrfsbase` and friends may be used.
    pub fsgsbase: bool,
    /// `xsave` and `xrstor` may be used.
    pub xsave: bool,
    /// `xsavec`, the compact form.
    pub xsavec: bool,
    /// 256-bit vectors.
    pub avx2: bool,
    /// 512-bit vectors.
    pub avx512: bool,
    /// Matrix tiles.
    pub amx: bool,
    /// Bytes of extended state in a signal frame with the features that the kernel has enabled.
    pub xsave_bytes: Option<u32>,
    /// Bytes of a whole signal frame at least (`AT_MINSIGSTKSZ`).
    pub min_signal_stack: Option<u64>,
    /// The processor has shadow stacks (CET).
    pub shadow_stack_cpu: bool,
    /// This process runs with a shadow stack.
    pub shadow_stack_active: bool,
}

pub(super) fn detect() -> Features {
    let cpuid = CpuId::new();
    let basic = cpuid.get_feature_info();
    let extended = cpuid.get_extended_feature_info();
    let state = cpuid.get_extended_state_info();
    let has = |test: fn(&raw_cpuid::ExtendedFeatures) -> bool| extended.as_ref().is_some_and(test);
    Features {
        fsgsbase: auxv(libc::AT_HWCAP2).is_some_and(|bits| bits & HWCAP2_FSGSBASE != 0),
        xsave: basic.is_some_and(|f| f.has_xsave() && f.has_oxsave()),
        xsavec: state.as_ref().is_some_and(raw_cpuid::ExtendedStateInfo::has_xsavec),
        avx2: std::is_x86_feature_detected!("avx2"),
        avx512: std::is_x86_feature_detected!("avx512f"),
        amx: has(raw_cpuid::ExtendedFeatures::has_amx_tile),
        xsave_bytes: state.map(|state| state.xsave_area_size_enabled_features()),
        min_signal_stack: auxv(libc::AT_MINSIGSTKSZ),
        shadow_stack_cpu: has(raw_cpuid::ExtendedFeatures::has_cet_ss),
        shadow_stack_active: shadow_stack_active(),
    }
}

fn auxv(kind: libc::c_ulong) -> Option<u64> {
    // SAFETY: reads the auxiliary vector, which never changes.
    match unsafe { libc::getauxval(kind) } {
        0 => None,
        value => Some(value),
    }
}

fn shadow_stack_active() -> bool {
    let mut status = 0u64;
    // SAFETY: this operation writes one u64 through the pointer and fails without effect on kernels that lack it.
    let done = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, &raw mut status) };
    done == 0 && status & ARCH_SHSTK_SHSTK != 0
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_frame_holds_the_extended_state() {
        let features = super::detect();
        if let (Some(frame), Some(state)) = (features.min_signal_stack, features.xsave_bytes) {
            assert!(frame > u64::from(state), "frame {frame} bytes, state {state} bytes");
        }
    }
}
