//! jemalloc as the program's allocator, linked into it: see [`support`].

#[path = "support/allocator.rs"]
mod support;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[test]
fn blocks_are_whole_under_preemption() {
    support::blocks_are_whole_under_preemption();
}
