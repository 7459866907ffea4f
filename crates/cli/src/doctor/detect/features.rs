//! What the processor can do that user threads need or profit from.

use raw_cpuid::CpuId;
use serde::Serialize;

/// What the processor can do.
#[derive(Clone, Debug, Serialize)]
pub struct Features {
    /// `xsave` and `xrstor` may be used.
    pub xsave: bool,
    /// 256-bit vectors.
    pub avx2: bool,
    /// 512-bit vectors.
    pub avx512: bool,
    /// Matrix tiles.
    pub amx: bool,
    /// Bytes of extended state in a signal frame with the features that the kernel has enabled.
    pub xsave_bytes: Option<u32>,
    /// The processor has shadow stacks (CET).
    pub shadow_stack: bool,
}

pub(super) fn detect() -> Features {
    let cpuid = CpuId::new();
    let extended = cpuid.get_extended_feature_info();
    let has = |test: fn(&raw_cpuid::ExtendedFeatures) -> bool| extended.as_ref().is_some_and(test);
    Features {
        xsave: cpuid.get_feature_info().is_some_and(|f| f.has_xsave() && f.has_oxsave()),
        avx2: std::is_x86_feature_detected!("avx2"),
        avx512: std::is_x86_feature_detected!("avx512f"),
        amx: has(raw_cpuid::ExtendedFeatures::has_amx_tile),
        xsave_bytes: cpuid
            .get_extended_state_info()
            .map(|state| state.xsave_area_size_enabled_features()),
        shadow_stack: has(raw_cpuid::ExtendedFeatures::has_cet_ss),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_signal_frame_holds_the_extended_state() {
        if let Some(state) = super::detect().xsave_bytes {
            let frame = quaver::platform::facts().signal_frame;
            assert!(frame > state as usize, "frame {frame} bytes, state {state} bytes");
        }
    }
}
