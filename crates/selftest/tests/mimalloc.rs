//! mimalloc as the program's allocator, linked into it: see [`support`].

#[path = "support/allocator.rs"]
mod support;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[test]
fn blocks_are_whole_under_preemption() {
    support::blocks_are_whole_under_preemption();
}
