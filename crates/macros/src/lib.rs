//! The attribute macros of Quaver, re-exported by the `quaver` crate: `#[quaver::main]` and
//! `#[quaver::test]`.
//!
//! Both turn an ordinary function into one whose body runs on a user thread of a runtime of its
//! own. Their arguments are the runtime's settings, by the names of the environment variables in
//! small letters: `workers = 2`, `quantum = "20us"`, `pin = true`, `stack_size = "1m"`. Numbers are
//! integers, `pin` is a boolean, all others are strings. Values are checked when the program is
//! compiled.
//!
//! What is not given comes from the environment (`QUAVER_WORKERS` and so on), else from the
//! defaults. An argument in the source wins over the environment.

use proc_macro::TokenStream;

mod args;
mod expand;

/// Runs `main` on a user thread.
///
/// The runtime is built when the program starts; if that fails, the reason is printed and the
/// program exits with status 2. `main` may return anything that an ordinary `main` may (`()`, a
/// `Result`, an [`ExitCode`](std::process::ExitCode)), and need not be `Send`. When it returns, the
/// runtime is shut down, as when a `Runtime` is dropped.
///
/// # Examples
///
/// ```ignore
/// #[quaver::main(workers = 2, quantum = "50us")]
/// fn main() {
///     let answer = quaver::spawn(|| 6 * 7);
///     println!("{}", answer.join().unwrap());
/// }
/// ```
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::main(args.into(), item.into()).into()
}

/// Makes a test that runs on a user thread.
///
/// Replaces `#[test]`; `#[should_panic]` and `#[ignore]` work as usual. Each test has a runtime of
/// its own, and tests in one process take turns, because there is one runtime in a process at a
/// time. The test fails if its runtime cannot be built.
///
/// The harness captures what its own threads print, by a variable of each thread that only `std`
/// can set. So what user threads print, panics among it, appears at once, as with `--nocapture`.
///
/// # Examples
///
/// ```ignore
/// #[quaver::test(workers = 1)]
/// fn threads_take_turns() {
///     let other = quaver::spawn(|| 1);
///     quaver::yield_now();
///     assert_eq!(other.join().unwrap(), 1);
/// }
/// ```
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::test(args.into(), item.into()).into()
}
