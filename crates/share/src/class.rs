//! The kernel's scheduling classes, which decide who runs on a core.

use std::cmp::Ordering;
use std::io;

/// The class of a kernel thread, and its rank in it. The higher one runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// `SCHED_IDLE`: runs when nobody else wants to.
    Idle,
    /// `SCHED_OTHER` with this nice value.
    Other(i8),
    /// `SCHED_FIFO` with this priority, 1 to 99: runs before everything of lower rank.
    Fifo(u8),
}

impl Ord for Class {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |class: &Class| match *class {
            Class::Idle => (0, 0),
            // The lower nice value is the higher rank.
            Class::Other(nice) => (1, -i32::from(nice)),
            Class::Fifo(priority) => (2, priority.into()),
        };
        rank(self).cmp(&rank(other))
    }
}

impl PartialOrd for Class {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a thread has that nobody ranks.
pub(crate) const USUAL: Class = Class::Other(0);

impl Class {
    /// Puts a thread of any process into this class; 0: the calling thread. Threads and processes
    /// that it starts begin there, unless [`set_alone`](Self::set_alone) has said otherwise.
    ///
    /// # Errors
    ///
    /// `EPERM`: that takes `CAP_SYS_NICE`, or for the caller's own threads a limit that allows it
    /// (`RLIMIT_RTPRIO`, `RLIMIT_NICE`). `ESRCH`: there is no such thread.
    pub fn set(self, tid: i32) -> io::Result<()> {
        self.put(tid, 0)
    }

    /// The same, but what the thread starts from now on begins below what ranks above others: in
    /// the usual class.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn set_alone(self, tid: i32) -> io::Result<()> {
        self.put(tid, libc::SCHED_RESET_ON_FORK)
    }

    fn put(self, tid: i32, flag: i32) -> io::Result<()> {
        // SAFETY: no memory is involved.
        let before = unsafe { libc::sched_getscheduler(tid) };
        done(before.min(0))?;
        let (policy, priority) = match self {
            Class::Idle => (libc::SCHED_IDLE, 0),
            Class::Other(_) => (libc::SCHED_OTHER, 0),
            Class::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        };
        // It takes rights to take the flag away.
        let policy = policy | flag | before & libc::SCHED_RESET_ON_FORK;
        let param = libc::sched_param { sched_priority: priority };
        // SAFETY: `param` lives across the call.
        done(unsafe { libc::sched_setscheduler(tid, policy, &param) })?;
        if let Class::Other(nice) = self {
            // SAFETY: no memory is involved.
            done(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as u32, nice.into()) })?;
        }
        Ok(())
    }

    /// May this process put its threads into this class? Tried with one that ends with that, for
    /// which this waits.
    pub fn is_allowed(self) -> bool {
        std::thread::spawn(move || self.set(0).is_ok()).join().unwrap_or(false)
    }

    /// The class of a thread; 0: of the calling one. Others than these three count as
    /// `SCHED_OTHER`.
    ///
    /// # Errors
    ///
    /// `ESRCH`: there is no such thread.
    pub fn of(tid: i32) -> io::Result<Class> {
        // SAFETY: no memory is involved.
        let policy = unsafe { libc::sched_getscheduler(tid) };
        done(policy.min(0))?;
        Ok(match policy & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_IDLE => Class::Idle,
            libc::SCHED_FIFO => {
                let mut param = libc::sched_param { sched_priority: 0 };
                // SAFETY: `param` lives across the call.
                done(unsafe { libc::sched_getparam(tid, &mut param) })?;
                Class::Fifo(param.sched_priority as u8)
            }
            _ => {
                // SAFETY: no memory is involved. -1 is a value, too; the thread was there just now.
                let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, tid as u32) };
                Class::Other(nice as i8)
            }
        })
    }

    /// As words of a message.
    #[cfg(any(feature = "broker", test))]
    pub(crate) fn to_words(self) -> (u32, u32) {
        match self {
            Class::Idle => (0, 0),
            Class::Other(nice) => (1, nice as i32 as u32),
            Class::Fifo(priority) => (2, priority.into()),
        }
    }

    /// From words of a message.
    pub(crate) fn from_words(kind: u32, value: u32) -> Option<Class> {
        match kind {
            0 => Some(Class::Idle),
            1 => Some(Class::Other((value as i32).clamp(-20, 19) as i8)),
            2 => u8::try_from(value).ok().map(Class::Fifo),
            _ => None,
        }
    }
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the calling thread run on this CPU only.
///
/// # Errors
///
/// There is no such CPU, or the process may not use it.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_tell_classes() {
        for class in [Class::Idle, Class::Other(-20), Class::Other(19), Class::Fifo(1)] {
            let (kind, value) = class.to_words();
            assert_eq!(Class::from_words(kind, value), Some(class));
        }
        assert_eq!(Class::from_words(3, 0), None);
        assert_eq!(Class::from_words(2, 1000), None);
    }

    #[test]
    fn ranks_are_ordered() {
        assert!(Class::Fifo(1) > Class::Other(0) && Class::Other(0) > Class::Idle);
    }

    #[test]
    fn what_a_thread_alone_has_its_children_have_not() {
        let high = [Class::Other(-5), Class::Fifo(1)];
        for class in high.into_iter().filter(|class| class.is_allowed()) {
            let child = || std::thread::spawn(|| Class::of(0).unwrap()).join().unwrap();
            std::thread::spawn(move || {
                class.set(0).unwrap();
                assert_eq!(child(), class);
                class.set_alone(0).unwrap();
                assert_eq!((Class::of(0).unwrap(), child()), (class, USUAL));
                // For good.
                class.set(0).unwrap();
                assert_eq!((Class::of(0).unwrap(), child()), (class, USUAL));
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_thread_may_always_lower_itself() {
        std::thread::spawn(|| {
            Class::Idle.set(0).unwrap();
            assert_eq!(Class::of(0).unwrap(), Class::Idle);
        })
        .join()
        .unwrap();
        assert_eq!(Class::Idle.set(i32::MAX).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
