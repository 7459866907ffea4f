//! The asynchronous server under test: unmodified axum, for `quaver bench net`.

use std::hint::black_box;
use std::io;

use axum::Router;
use axum::routing::get;
use axum::serve::Listener;

use crate::compute::scalar;
use crate::net::{FAST, SLOW};

/// Serves the connections of `listener`; for [`SLOW`] it computes `iterations` rounds of
/// [`scalar`].
///
/// # Errors
///
/// As [`axum::serve()`].
pub async fn serve<L>(listener: L, iterations: u64) -> io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let slow = move || async move {
        black_box(scalar(1, iterations));
        "slow"
    };
    let app = Router::new().route(FAST, get(|| async { "fast" })).route(SLOW, get(slow));
    axum::serve(listener, app).await
}
