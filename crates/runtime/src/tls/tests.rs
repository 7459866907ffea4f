//! Tests of thread-local storage.

use super::*;

#[test]
fn layout_is_found_and_covers_static_tls() {
    let l = layout().unwrap();
    assert!(l.below >= 64 && l.above >= 512, "{} {}", l.below, l.above);
    assert!(l.tid_offset > 512 && l.tid_offset < l.above);
    for i in &l.images {
        assert!(i.below_tp <= l.below && i.size <= i.below_tp + l.align);
    }
    let (tp, base) = l.place(1 << 20);
    assert!(tp % 64 == 0 && base >= (1 << 20) - l.size());
}

#[test]
fn values_of_pthread_keys_are_found() {
    assert!(layout().unwrap().keys.is_some());
}

#[test]
fn the_tid_offset_is_right() {
    let l = layout().unwrap();
    // SAFETY: within the calling thread's struct pthread.
    let tid = unsafe { ((segment::fs_base() + l.tid_offset) as *const i32).read() };
    assert_eq!(tid, crate::sys::gettid());
}

/// A block that libc allocates by itself begins as far below the thread pointer as ours do.
#[test]
fn static_tls_is_as_long_as_in_libcs_own_blocks() {
    let l = layout().unwrap();
    // SAFETY: libc allocates a block, writes behind its descriptor where the allocation begins, and
    // frees it.
    let below = unsafe {
        let tp = (l.allocate)(core::ptr::null_mut());
        assert!(!tp.is_null());
        let descriptor = pthread_size().unwrap();
        let begin = tp.byte_add(descriptor).cast::<usize>().read();
        (l.deallocate)(tp, true);
        tp as usize - begin
    };
    assert!((l.below..=l.below + l.align).contains(&below), "{below}, not {}", l.below);
}
