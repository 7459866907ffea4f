//! System calls without libc.
//!
//! Two reasons to go without: the preemption handler may not touch `errno` (a TLS variable of the
//! interrupted thread) and may not call into libc, and this crate defines the C function `syscall`
//! itself (see [`crate::interpose`]). Results are the kernel's: negative values are `-errno`.

use core::sync::atomic::AtomicU32;
pub(crate) use quaver_rsb::syscall as syscall6;
use std::time::Duration;

/// As [`syscall6`], for up to three arguments.
///
/// # Safety
///
/// See [`syscall6`].
#[inline(always)]
pub(crate) unsafe fn syscall3(nr: i64, a: u64, b: u64, c: u64) -> i64 {
    // SAFETY: handed on to the caller.
    unsafe { syscall6(nr, [a, b, c, 0, 0, 0]) }
}

/// Makes a system call with the arguments of a C function: words. The result is the kernel's, a
/// negative error. Blocks as the call does.
///
/// # Safety
///
/// The call must keep its promises with these arguments: it may read and write memory.
#[inline]
pub unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    // SAFETY: handed on to the caller.
    unsafe { syscall6(number, arguments.map(|a| a as u64)) as isize }
}

pub(crate) fn timespec(d: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: d.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: i64::from(d.subsec_nanos()),
    }
}

/// Sleeps while `*word == expected`, at most `timeout`. May return early for no reason.
///
/// # Errors
///
/// `EAGAIN` if the word differed, `EINTR`, `ETIMEDOUT`.
pub(crate) fn futex_wait(
    word: &AtomicU32,
    expected: u32,
    timeout: Option<Duration>,
) -> Result<(), i32> {
    let ts = timeout.map(timespec);
    let tsp = ts.as_ref().map_or(0, |t| t as *const _ as u64);
    // SAFETY: `word` and `ts` live across the call; FUTEX_WAIT reads both and writes nothing.
    let r = unsafe {
        syscall6(
            libc::SYS_futex,
            [
                word as *const _ as u64,
                (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64,
                u64::from(expected),
                tsp,
                0,
                0,
            ],
        )
    };
    if r < 0 { Err(-r as i32) } else { Ok(()) }
}

/// Wakes up to `n` sleepers on `word`; returns how many.
///
/// The word is only named: it may be gone by now.
pub(crate) fn futex_wake(word: *const AtomicU32, n: u32) -> usize {
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    let r = unsafe {
        syscall3(
            libc::SYS_futex,
            word as u64,
            (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64,
            u64::from(n),
        )
    };
    r.max(0) as usize
}

/// As [`futex_wake`], for sleepers of any process.
pub(crate) fn futex_wake_shared(word: *const AtomicU32, n: u32) {
    // SAFETY: as there.
    unsafe {
        syscall3(libc::SYS_futex, word as u64, libc::FUTEX_WAKE as u64, u64::from(n));
    }
}

/// Sends `signal` to one kernel thread of this process. `ESRCH` if it has ended.
pub(crate) fn tgkill(pid: i32, tid: i32, signal: i32) -> Result<(), i32> {
    // SAFETY: no memory is involved.
    let r = unsafe { syscall3(libc::SYS_tgkill, pid as u64, tid as u64, signal as u64) };
    if r < 0 { Err(-r as i32) } else { Ok(()) }
}

/// Waits for the events of `files`, for `time` at most, or for `signal`, which is blocked otherwise
/// and pending or sent.
pub(crate) fn ppoll(
    files: &mut [libc::pollfd],
    time: Option<Duration>,
    signal: i32,
) -> Result<(), i32> {
    let ts = time.map(timespec);
    let tsp = ts.as_ref().map_or(0, |t| core::ptr::from_ref(t) as u64);
    let mask = !(1u64 << (signal - 1));
    let args = [
        files.as_mut_ptr() as u64,
        files.len() as u64,
        tsp,
        &raw const mask as u64,
        size_of_val(&mask) as u64,
        0,
    ];
    // SAFETY: the entries are written during the call; `ts` and `mask` live across it.
    let r = unsafe { syscall6(libc::SYS_ppoll, args) };
    if r < 0 { Err(-r as i32) } else { Ok(()) }
}

/// Waits for events of a file, for `time` at most; which there are.
pub(crate) fn poll(fd: i32, events: i16, time: Option<Duration>) -> Result<i16, i32> {
    let mut file = libc::pollfd { fd, events, revents: 0 };
    let ts = time.map(timespec);
    let tsp = ts.as_ref().map_or(0, |t| core::ptr::from_ref(t) as u64);
    // SAFETY: the entry is written during the call; `ts` lives across it.
    let r = unsafe { syscall6(libc::SYS_ppoll, [&raw mut file as u64, 1, tsp, 0, 0, 0]) };
    if r < 0 { Err(-r as i32) } else { Ok(file.revents) }
}

/// Waits for events of some files, for `time` at most.
pub(crate) fn poll_all(files: &mut [libc::pollfd], time: Option<Duration>) -> Result<(), i32> {
    let ts = time.map(timespec);
    let tsp = ts.as_ref().map_or(0, |t| core::ptr::from_ref(t) as u64);
    let args = [files.as_mut_ptr() as u64, files.len() as u64, tsp, 0, 0, 0];
    // SAFETY: the entries are written during the call; `ts` lives across it.
    let r = unsafe { syscall6(libc::SYS_ppoll, args) };
    if r < 0 { Err(-r as i32) } else { Ok(()) }
}

/// A file that wakes who waits for it.
pub(crate) fn eventfd() -> Result<i32, i32> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    // SAFETY: no memory is involved.
    let r = unsafe { syscall6(libc::SYS_eventfd2, [0, flags as u64, 0, 0, 0, 0]) };
    if r < 0 { Err(-r as i32) } else { Ok(r as i32) }
}

/// Makes an [`eventfd`] readable.
pub(crate) fn signal_eventfd(eventfd: i32) {
    let one = 1u64;
    // SAFETY: the kernel reads `one`. The only error is that it is readable already, to the brim.
    unsafe {
        syscall6(libc::SYS_write, [eventfd as u64, &raw const one as u64, 8, 0, 0, 0]);
    }
}

/// Programs choose no descriptors from here on for their own, and the kernel gives smaller ones.
pub(crate) const OUT_OF_THE_WAY: i32 = 512;

/// Lets the process's table of descriptors grow beyond [`OUT_OF_THE_WAY`] while that takes no time.
/// Where several kernel threads have the table in common, who makes it grow waits for the kernel's
/// RCU, which takes tens of milliseconds: it would be a worker, at the first wait for a file.
pub(crate) fn make_room_for_descriptors() {
    use std::os::unix::fs::MetadataExt;
    // A folder for each thread, `.` and `..`; glibc's `__libc_single_threaded` stays false where a
    // thread has ended.
    let links = std::fs::metadata("/proc/self/task").map(|tasks| tasks.nlink());
    if !links.is_ok_and(|links| links == 3) {
        return;
    }
    if let Ok(low) = eventfd() {
        if let Ok(high) = duplicate(low, OUT_OF_THE_WAY) {
            close(high);
        }
        close(low);
    }
}

/// Closes a descriptor of this crate's, which nobody uses any more.
pub(crate) fn close(fd: i32) {
    // SAFETY: no memory is involved.
    unsafe { syscall3(libc::SYS_close, fd as u64, 0, 0) };
}

/// Another descriptor of the same file, not below `least`.
pub(crate) fn duplicate(fd: i32, least: i32) -> Result<i32, i32> {
    // SAFETY: no memory is involved.
    let r =
        unsafe { syscall3(libc::SYS_fcntl, fd as u64, libc::F_DUPFD_CLOEXEC as u64, least as u64) };
    if r < 0 { Err(-r as i32) } else { Ok(r as i32) }
}

/// Do calls on this file return instead of waiting? Also if there is none.
pub fn is_nonblocking(fd: i32) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { syscall3(libc::SYS_fcntl, fd as u64, libc::F_GETFL as u64, 0) };
    flags < 0 || flags as i32 & libc::O_NONBLOCK != 0
}

/// Is this a socket on which calls wait for a limited time?
pub(crate) fn has_timeout(fd: i32) -> bool {
    [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO].into_iter().any(|o| timeout_of(fd, o).is_some())
}

/// How long calls on a socket wait, if not for ever: `SO_RCVTIMEO` or `SO_SNDTIMEO`.
pub(crate) fn timeout_of(fd: i32, option: i32) -> Option<Duration> {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let limited = get_option(fd, option, &mut time) && (time.tv_sec, time.tv_usec) != (0, 0);
    limited.then(|| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000))
}

/// The type of a socket, say `SOCK_STREAM`; `None` for other files.
pub(crate) fn type_of_socket(fd: i32) -> Option<i32> {
    let mut value = 0i32;
    get_option(fd, libc::SO_TYPE, &mut value).then_some(value)
}

/// The domain of a socket, say `AF_INET`; `None` for other files.
pub(crate) fn domain_of_socket(fd: i32) -> Option<i32> {
    let mut value = 0i32;
    get_option(fd, libc::SO_DOMAIN, &mut value).then_some(value)
}

/// The protocol of a socket, say `IPPROTO_TCP`; `None` for other files.
pub(crate) fn protocol_of_socket(fd: i32) -> Option<i32> {
    let mut value = 0i32;
    get_option(fd, libc::SO_PROTOCOL, &mut value).then_some(value)
}

fn get_option<T>(fd: i32, option: i32, value: &mut T) -> bool {
    let mut size = size_of::<T>() as libc::socklen_t;
    let args = [
        fd as u64,
        libc::SOL_SOCKET as u64,
        option as u64,
        core::ptr::from_mut(value) as u64,
        &raw mut size as u64,
        0,
    ];
    // SAFETY: the kernel writes at most the value, and its size; or fails.
    unsafe { syscall6(libc::SYS_getsockopt, args) == 0 }
}

/// Changes the calling kernel thread's signal mask as `how` says; without `set` only reads it.
///
/// # Safety
///
/// What the kernel thread blocks is the caller's to say.
pub(crate) unsafe fn change_signal_mask(
    how: i32,
    set: Option<&libc::sigset_t>,
    old: Option<&mut libc::sigset_t>,
) {
    let set = set.map_or(0, |s| core::ptr::from_ref(s) as u64);
    let old = old.map_or(0, |s| core::ptr::from_mut(s) as u64);
    // SAFETY: the kernel's sets are the first eight bytes of the C library's.
    unsafe { syscall6(libc::SYS_rt_sigprocmask, [how as u64, set, old, 8, 0, 0]) };
}

/// Is the instruction at `address` that of a system call?
///
/// # Safety
///
/// It can be read, as where a thread was interrupted: the next page need not be there.
#[inline]
pub unsafe fn is_syscall(address: usize) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: two bytes, unless the second lies on another page.
    address & 0xfff != 0xfff && unsafe { (address as *const [u8; 2]).read_volatile() } == SYSCALL
}

/// The calling kernel thread's number.
pub fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall3(libc::SYS_gettid, 0, 0, 0) as i32 }
}

/// Gives up the CPU of the kernel thread.
pub(crate) fn sched_yield() {
    // SAFETY: no arguments.
    unsafe { syscall3(libc::SYS_sched_yield, 0, 0, 0) };
}

/// Sets a POSIX timer to fire once after `after`; zero disarms it.
pub(crate) fn timer_settime_once(timer: i32, after: Duration) -> Result<(), i32> {
    timer_settime(timer, after, Duration::ZERO)
}

/// Sets a POSIX timer to fire after each `period`.
pub(crate) fn timer_settime_periodic(timer: i32, period: Duration) -> Result<(), i32> {
    timer_settime(timer, period, period)
}

fn timer_settime(timer: i32, after: Duration, period: Duration) -> Result<(), i32> {
    let spec = libc::itimerspec { it_interval: timespec(period), it_value: timespec(after) };
    // SAFETY: `spec` lives across the call, which reads it.
    let r = unsafe {
        syscall6(libc::SYS_timer_settime, [timer as u64, 0, &spec as *const _ as u64, 0, 0, 0])
    };
    if r < 0 { Err(-r as i32) } else { Ok(()) }
}

/// What the signals of [`timer_create`]'s timers say, and those of no other's.
#[inline]
pub(crate) fn timer_mark() -> *mut libc::c_void {
    static MARK: u8 = 0;
    (&raw const MARK).cast_mut().cast()
}

/// Creates a monotonic timer that sends `signal` to kernel thread `tid` of this process.
pub(crate) fn timer_create(tid: i32, signal: i32) -> Result<i32, i32> {
    // SAFETY: all-zero is a valid sigevent.
    let mut ev: libc::sigevent = unsafe { core::mem::zeroed() };
    ev.sigev_notify = libc::SIGEV_THREAD_ID;
    ev.sigev_signo = signal;
    ev.sigev_value.sival_ptr = timer_mark();
    ev.sigev_notify_thread_id = tid;
    let mut id: i32 = 0;
    // SAFETY: `ev` is read and `id` (the kernel's timer_t, an int) written during the call.
    let r = unsafe {
        syscall3(
            libc::SYS_timer_create,
            libc::CLOCK_MONOTONIC as u64,
            &mut ev as *mut _ as u64,
            &mut id as *mut _ as u64,
        )
    };
    if r < 0 { Err(-r as i32) } else { Ok(id) }
}

/// Deletes a timer made by [`timer_create`].
pub(crate) fn timer_delete(timer: i32) {
    // SAFETY: no memory is involved.
    unsafe { syscall3(libc::SYS_timer_delete, timer as u64, 0, 0) };
}

/// Lets the calling kernel thread's sleeps end on time instead of up to 50 µs late.
pub(crate) fn set_minimal_timer_slack() {
    // SAFETY: no memory is involved.
    unsafe { syscall3(libc::SYS_prctl, libc::PR_SET_TIMERSLACK as u64, 1, 0) };
}

/// Confines the calling kernel thread to these CPUs.
pub(crate) fn pin_to_cpus(cpus: &[usize]) -> Result<(), i32> {
    let mut mask = [0u64; 128];
    for &cpu in cpus {
        *mask.get_mut(cpu / 64).ok_or(libc::EINVAL)? |= 1 << (cpu % 64);
    }
    // SAFETY: `mask` is read during the call.
    let r = unsafe {
        syscall3(
            libc::SYS_sched_setaffinity,
            0,
            core::mem::size_of_val(&mask) as u64,
            mask.as_ptr() as u64,
        )
    };
    if r < 0 { Err(-r as i32) } else { Ok(()) }
}

/// CPU time that the calling kernel thread has used.
pub(crate) fn cpu_time_of_this_thread() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `t`.
    unsafe {
        let clock = libc::CLOCK_THREAD_CPUTIME_ID as u64;
        syscall3(libc::SYS_clock_gettime, clock, &raw mut t as u64, 0);
    }
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// What a kernel thread of this process has used; `None` if there is no such thread.
pub(crate) fn cpu_time_of(tid: i32) -> Option<Duration> {
    /// The kernel's numbers of threads' clocks: the scheduler's, of one thread.
    const CLOCK: i32 = 2 | 4;
    let clock = (!tid << 3) | CLOCK;
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `t`.
    let r = unsafe { syscall3(libc::SYS_clock_gettime, clock as i64 as u64, &raw mut t as u64, 0) };
    (tid > 0 && r == 0).then(|| Duration::new(t.tv_sec as u64, t.tv_nsec as u32))
}

/// CPUs on which the calling kernel thread may run, in ascending order.
pub(crate) fn affinity() -> Vec<usize> {
    let mut mask = [0u64; 128];
    // SAFETY: `mask` is written during the call.
    let r = unsafe {
        syscall3(
            libc::SYS_sched_getaffinity,
            0,
            core::mem::size_of_val(&mask) as u64,
            mask.as_mut_ptr() as u64,
        )
    };
    if r < 0 {
        return vec![0];
    }
    (0..mask.len() * 64).filter(|c| mask[c / 64] >> (c % 64) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futex_reports_a_changed_word() {
        let w = AtomicU32::new(1);
        assert_eq!(futex_wait(&w, 0, None), Err(libc::EAGAIN));
        assert_eq!(futex_wake(&w, 1), 0);
    }

    #[test]
    fn futex_times_out() {
        let w = AtomicU32::new(1);
        assert_eq!(futex_wait(&w, 1, Some(Duration::from_millis(1))), Err(libc::ETIMEDOUT));
    }

    #[test]
    fn affinity_is_not_empty() {
        assert!(!affinity().is_empty());
    }
}
