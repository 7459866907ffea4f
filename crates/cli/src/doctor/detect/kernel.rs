//! The kernel and what it runs on.

use raw_cpuid::CpuId;
use serde::Serialize;

use super::read_line;

/// The kernel and what it runs on.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// Major and minor number, when the release begins with them.
    pub version: Option<(u32, u32)>,
    /// `uname -v`: tells the preemption model.
    pub build: Option<String>,
    /// The processor's own name.
    pub processor: Option<String>,
    /// The hypervisor under this machine, if the processor admits one.
    pub hypervisor: Option<String>,
}

/// Reads them.
pub fn detect() -> Kernel {
    let cpuid = CpuId::new();
    let release = read_line("/proc/sys/kernel/osrelease");
    Kernel {
        version: release.as_deref().and_then(version),
        release,
        build: read_line("/proc/sys/kernel/version"),
        processor: cpuid.get_processor_brand_string().map(|b| b.as_str().trim().to_owned()),
        hypervisor: cpuid.get_hypervisor_info().map(|h| format!("{:?}", h.identify())),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn version_of_common_releases() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("6.18-rc1"), Some((6, 18)));
        assert_eq!(version("5.15.90.1-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(version("unknown"), None);
    }
}
