//! All threads of a process, and putting them into a class.

use crate::class::Class;
use std::fs;

/// The threads of a process; none if it has ended.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Puts all threads of these processes into `class`, as far as that is allowed.
pub(crate) fn put_all(processes: &[i32], class: Class) {
    // Threads that are made meanwhile have the class of their maker: look until there is none.
    for _ in 0..8 {
        let all = processes.iter().flat_map(|&process| threads(process));
        let wrong: Vec<i32> =
            all.filter(|&tid| Class::of(tid).is_ok_and(|found| found != class)).collect();
        let mut put = 0;
        for tid in wrong {
            put += usize::from(class.set(tid).is_ok());
        }
        if put == 0 {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_lowered_and_one_that_has_ended_is_nobody_s_affair() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id() as i32;
        put_all(&[pid], Class::Idle);
        let found = threads(pid).into_iter().map(|tid| Class::of(tid).unwrap()).collect::<Vec<_>>();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [Class::Idle]);
        assert!(threads(pid).is_empty());
        put_all(&[pid], Class::Other(0));
    }
}
