//! Where this command keeps what it would otherwise make again each time.

use std::env;
use std::path::PathBuf;

/// `quaver` in the user's cache.
pub fn folder() -> PathBuf {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    env::var_os("XDG_CACHE_HOME")
        .and_then(|path| absolute(path.into()))
        .or_else(|| absolute(env::home_dir()?.join(".cache")))
        .unwrap_or_else(env::temp_dir)
        .join("quaver")
}
