//! CPU limits that control groups set: version 2, version 1, or both mounted side by side.
//!
//! A quota holds for a group and everything below it, so the narrowest one on the way from this
//! process's group to the root counts. In a container the upper part of that way may be invisible;
//! what can be seen is an upper bound.

use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, MountInfos};
use procfs::{FromRead, ProcessCGroups};
use serde::Serialize;

use crate::parse::cpulist;

/// CPU limits that control groups set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cgroup {
    /// 1 or 2: the version whose CPU controller holds this process; `None` without one.
    pub version: Option<u8>,
    /// CPU time per time that the group may use: 1.5 is one and a half CPUs. `None`: no limit.
    pub cpu_quota: Option<f64>,
    /// Over which period the quota is counted, in microseconds: how long a throttled group may
    /// stand still.
    pub quota_period_us: Option<u64>,
    /// The CPUs of the group's cpuset, where there is one.
    pub cpuset: Option<Vec<usize>>,
}

/// Reads the limits of this process.
pub fn detect() -> Cgroup {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    from_texts(&own, &mounts, read)
}

/// Evaluates the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`; `read` reads the files of
/// the hierarchies.
fn from_texts(own: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Cgroup {
    let own = ProcessCGroups::from_read(own.as_bytes()).map(|groups| groups.0).unwrap_or_default();
    let mounts = MountInfos::from_read(mounts.as_bytes()).map(|m| m.0).unwrap_or_default();

    let mut found = Cgroup::default();
    for group in &own {
        let unified = group.hierarchy == 0;
        let holds = |name: &str| unified || group.controllers.iter().any(|c| c == name);
        if !holds("cpu") && !holds("cpuset") {
            continue;
        }
        let mount = mounts.iter().find(|mount| {
            if unified { mount.fs_type == "cgroup2" } else { is_v1_of(mount, &group.controllers) }
        });
        let Some(way) = mount.map(|mount| way_to_root(mount, &group.pathname)) else { continue };

        if holds("cpu") {
            let quota = if unified { quota_v2(&way, &read) } else { quota_v1(&way, &read) };
            // A unified hierarchy without a CPU controller has no cpu.max below its root, and no
            // cpu.stat counts against it: version 1 is then the one in charge, if it is there.
            let in_charge =
                !unified || own.iter().all(|g| !g.controllers.iter().any(|c| c == "cpu"));
            if in_charge {
                found.version = Some(if unified { 2 } else { 1 });
            }
            if let Some((cpus, period)) = quota
                && found.cpu_quota.is_none_or(|other| cpus < other)
            {
                found.cpu_quota = Some(cpus);
                found.quota_period_us = Some(period);
            }
        }
        if holds("cpuset") {
            let name = if unified { "cpuset.cpus.effective" } else { "cpuset.effective_cpus" };
            let cpuset = way.iter().find_map(|dir| read(&dir.join(name)));
            found.cpuset = cpuset.and_then(|text| cpulist::parse(&text).ok()).or(found.cpuset);
        }
    }
    found
}

fn is_v1_of(mount: &MountInfo, controllers: &[String]) -> bool {
    mount.fs_type == "cgroup" && controllers.iter().all(|c| mount.super_options.contains_key(c))
}

/// The directories from the group's own up to the mount point of its hierarchy.
fn way_to_root(mount: &MountInfo, group: &str) -> Vec<PathBuf> {
    // The path is relative to the hierarchy's root, of which only a part may be mounted here.
    let inside = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let own = mount.mount_point.join(inside);
    own.ancestors()
        .take_while(|dir| dir.starts_with(&mount.mount_point))
        .map(Path::to_path_buf)
        .collect()
}

fn quota_v2(way: &[PathBuf], read: impl Fn(&Path) -> Option<String>) -> Option<(f64, u64)> {
    narrowest(way.iter().filter_map(|dir| {
        let text = read(&dir.join("cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        Some((quota.parse().ok()?, period.parse().ok()?))
    }))
}

fn quota_v1(way: &[PathBuf], read: impl Fn(&Path) -> Option<String>) -> Option<(f64, u64)> {
    narrowest(way.iter().filter_map(|dir| {
        // -1 is "no limit" and fails to parse as unsigned, as "max" does in version 2.
        let quota = read(&dir.join("cpu.cfs_quota_us"))?.trim().parse().ok()?;
        let period = read(&dir.join("cpu.cfs_period_us"))?.trim().parse().ok()?;
        Some((quota, period))
    }))
}

fn narrowest(quotas: impl Iterator<Item = (u64, u64)>) -> Option<(f64, u64)> {
    quotas
        .filter(|(_, period)| *period > 0)
        .map(|(quota, period)| (quota as f64 / period as f64, period))
        .min_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2_MOUNTS: &str = "\
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/c1 /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 /docker/c1 /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    const V1_OWN: &str = "3:cpuset:/docker/c1\n2:cpu,cpuacct:/docker/c1/app\n0::/\n";

    fn eval(own: &str, mounts: &str, files: &[(&str, &str)]) -> Cgroup {
        from_texts(own, mounts, |path| {
            files.iter().find(|(p, _)| Path::new(p) == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn v2_takes_the_narrowest_quota_on_the_way_up() {
        let found = eval(
            "0::/system.slice/app.service\n",
            V2_MOUNTS,
            &[
                ("/sys/fs/cgroup/system.slice/app.service/cpu.max", "max 100000\n"),
                ("/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
                ("/sys/fs/cgroup/system.slice/app.service/cpuset.cpus.effective", "0-3\n"),
            ],
        );
        assert_eq!(
            found,
            Cgroup {
                version: Some(2),
                cpu_quota: Some(1.5),
                quota_period_us: Some(100_000),
                cpuset: Some(vec![0, 1, 2, 3]),
            }
        );
    }

    #[test]
    fn v2_without_limits() {
        let found = eval("0::/\n", V2_MOUNTS, &[]);
        assert_eq!(found, Cgroup { version: Some(2), ..Cgroup::default() });
    }

    #[test]
    fn v1_finds_the_group_below_a_container_s_mount() {
        let found = eval(
            V1_OWN,
            V1_MOUNTS,
            &[
                ("/sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "-1\n"),
                ("/sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "100000\n"),
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
                ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "25000\n"),
                ("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "2,4\n"),
            ],
        );
        assert_eq!(
            found,
            Cgroup {
                version: Some(1),
                cpu_quota: Some(2.0),
                quota_period_us: Some(25_000),
                cpuset: Some(vec![2, 4]),
            }
        );
    }

    #[test]
    fn no_cgroups_at_all() {
        assert_eq!(eval("", "", &[]), Cgroup::default());
    }

    #[test]
    fn a_zero_period_is_no_quota() {
        let found = eval("0::/\n", V2_MOUNTS, &[("/sys/fs/cgroup/cpu.max", "1000 0\n")]);
        assert_eq!(found.cpu_quota, None);
    }
}
