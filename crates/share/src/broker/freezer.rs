//! Plain programs that raise their own rank are frozen by cgroup v2 while they are lowered again,
//! and for good when they do it over and over. Only they are in a cgroup of the broker's, and only
//! for that time; it is made the first time, which takes longer than all else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Before the broker's process and the member's, in the name of a cgroup.
const NAME: &str = "quaver-share-";

/// Freezes the processes of one member. Dropped, they go on in the cgroups where they were.
#[derive(Debug)]
pub struct Freezer {
    /// A cgroup in which everything stands still.
    folder: PathBuf,
    /// Where each process was; its children go where the first one was.
    homes: Vec<(i32, PathBuf)>,
}

/// Where cgroups of version 2 are.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|m| m.get(2) == Some(&"cgroup2")).map(|m| m[1].into())
}

fn home(root: &Path, pid: i32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(root.join(path))
}

fn put(pid: i32, group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), pid.to_string())
}

impl Freezer {
    /// For what belongs to this process, which is alive or frozen.
    ///
    /// # Errors
    ///
    /// There is no cgroup v2, or this process may not make one.
    pub fn new(process: i32) -> io::Result<Freezer> {
        let root = root().ok_or(io::ErrorKind::Unsupported)?;
        let folder = root.join(format!("{NAME}{}-{process}", std::process::id()));
        fs::create_dir(&folder)?;
        let freezer = Freezer { folder, homes: Vec::new() };
        fs::write(freezer.folder.join("cgroup.freeze"), "1")?;
        Ok(freezer)
    }

    /// Freezes these processes, and what they start meanwhile. Does not wait until they stand
    /// still.
    ///
    /// # Errors
    ///
    /// This process may not move them.
    pub fn freeze(&mut self, processes: &[i32]) -> io::Result<()> {
        let root = self.folder.parent().ok_or(io::ErrorKind::NotFound)?;
        for &pid in processes {
            // One that has ended needs no home.
            let Some(home) = home(root, pid) else { continue };
            self.homes.push((pid, home));
            put(pid, &self.folder)?;
        }
        Ok(())
    }

    /// Whether all stand still.
    pub fn is_complete(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "frozen 1"))
    }

    /// All that are frozen.
    pub fn processes(&self) -> Vec<i32> {
        let all = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        all.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Lets all go on.
    pub fn thaw(&mut self) {
        let first = self.homes.first().map(|(_, home)| home);
        for pid in self.processes() {
            let own = self.homes.iter().find(|(other, _)| *other == pid);
            if let Some(home) = own.map(|(_, home)| home).or(first) {
                let _ = put(pid, home);
            }
        }
        self.homes.clear();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        let _ = fs::write(self.folder.join("cgroup.freeze"), "0");
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Lets go what brokers have frozen that were killed.
pub(super) fn clear() {
    let Some(root) = root() else { return };
    let groups = fs::read_dir(&root).into_iter().flatten().flatten();
    for group in groups {
        let name = group.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        let dead = |pid: &&str| !Path::new(&format!("/proc/{pid}")).exists();
        if pid.filter(dead).is_some() {
            let folder = group.path();
            drop(Freezer { homes: vec![(0, root.clone())], folder });
        }
    }
}
