//! Waiting for one of several objects.

use crate::sync::CancelToken;
pub use crate::sync::watch::{Watched, wait};

/// Is woken when the token is cancelled.
pub fn token(token: &CancelToken) -> &Watched {
    crate::sync::watched(token)
}
