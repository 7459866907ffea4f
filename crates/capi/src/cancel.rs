//! Tokens that ask threads to stop.

use crate::report;
use crate::runtime::timeout;
use crate::status::{Failure, Status};
use core::ffi::c_int;
use quaver::sync::CancelToken;

/// # Safety
///
/// `token` is null or valid.
unsafe fn valid<'a>(token: *const CancelToken, function: &str) -> Result<&'a CancelToken, Failure> {
    // SAFETY: the caller's contract.
    let token = unsafe { token.as_ref() };
    token.ok_or_else(|| Failure::new(Status::Invalid, format!("{function}: the token is null")))
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_cancel_token_new() -> *mut CancelToken {
    Box::into_raw(Box::new(CancelToken::new()))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `token` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_cancel_token_cancel(token: *const CancelToken) -> c_int {
    // SAFETY: the caller's contract.
    report(unsafe { valid(token, "quaver_cancel_token_cancel") }.map(CancelToken::cancel))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `token` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_cancel_token_is_cancelled(token: *const CancelToken) -> bool {
    // SAFETY: the caller's contract.
    unsafe { token.as_ref() }.is_some_and(CancelToken::is_cancelled)
}

/// See `quaver.h`.
///
/// # Safety
///
/// `token` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_cancel_token_sleep(
    token: *const CancelToken,
    nanoseconds: i64,
) -> c_int {
    // SAFETY: the caller's contract.
    report(unsafe { valid(token, "quaver_cancel_token_sleep") }.and_then(|token| {
        match timeout(nanoseconds) {
            Some(duration) => token.sleep(duration).map_err(|_| Status::Cancelled.into()),
            None => {
                token.wait();
                Err(Status::Cancelled.into())
            }
        }
    }))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `token` is null, or came from `quaver_cancel_token_new` and nobody uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_cancel_token_free(token: *mut CancelToken) {
    if !token.is_null() {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(token) });
    }
}
