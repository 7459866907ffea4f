//! Ends the process when a test hangs.
//!
//! It decides no test: a test that is merely slow never gets near the limit. It turns a lost
//! wake-up, which would otherwise hold up everything for ever, into a failure with a name and the
//! runtime's counters.

use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);

static WATCHED: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// Until it is dropped, the calling test has [`LIMIT`].
pub struct Watched;

/// Watches the calling test.
pub fn watch() -> Watched {
    static START: Once = Once::new();
    START.call_once(|| {
        let _ = std::thread::Builder::new().name("watchdog".into()).spawn(look);
    });
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), name));
    Watched
}

impl Drop for Watched {
    fn drop(&mut self) {
        *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn look() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, name)) = &*watched
            && since.elapsed() > LIMIT
        {
            let stats = quaver::Handle::current().map(|h| h.stats());
            eprintln!("\n{name} hangs; the runtime's counters: {stats:#?}");
            std::process::abort();
        }
    }
}
