//! The numbers of user threads, told from those of kernel threads.

/// The numbers of kernel threads are below this (`PID_MAX_LIMIT`).
const KERNEL_NUMBERS: u32 = 1 << 22;
/// How many user threads share the last 22 bits of their numbers: the word of a mutex has room for
/// 30.
const SHARING: u32 = (1 << 8) - 1;

/// The number of the user thread `handle` of the process `pid`, for `tid`.
///
/// Mutexes that processes share know their owners by it. The last 22 bits are those of a process,
/// so the first 255 threads of any two processes differ. Further ones borrow from processes as far
/// from their own and from each other as possible (multiples of the golden ratio): those of two
/// processes can only be equal if each has thousands of threads or their numbers are far apart.
pub(super) fn number(pid: u32, handle: u32) -> u32 {
    /// 2^22 divided by the golden ratio, made odd: no two blocks of a process are the same.
    const STEP: u32 = 2_592_223;
    let block = handle / SHARING;
    let low = pid.wrapping_add(block.wrapping_mul(STEP)) % KERNEL_NUMBERS;
    (handle % SHARING + 1) * KERNEL_NUMBERS + low
}

/// Is it one of [`number`]'s?
pub(super) fn is_user(tid: i32) -> bool {
    tid >= KERNEL_NUMBERS as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_unique_in_a_process_and_between_neighbours() {
        let (mut of_one, mut of_many) = (HashSet::new(), HashSet::new());
        for handle in 0..200_000 {
            let n = number(4_194_303, handle);
            assert!(of_one.insert(n) && is_user(n as i32) && n <= libc::FUTEX_TID_MASK, "{handle}");
        }
        for pid in 1000..1100 {
            for handle in 0..10_000 {
                assert!(of_many.insert(number(pid, handle)), "{pid} {handle}");
            }
        }
        assert!(!is_user(KERNEL_NUMBERS as i32 - 1));
    }

    #[test]
    fn the_first_threads_of_any_two_processes_differ() {
        for (a, b) in [(1, 2), (1, 4_194_303), (77_777, 3_000_000)] {
            let first = |pid| (0..SHARING).map(move |h| number(pid, h));
            let of_a: HashSet<u32> = first(a).collect();
            assert!(first(b).all(|n| !of_a.contains(&n)), "{a} {b}");
        }
    }
}
