//! A lockd in the test process, which also reads its counter.

use quaver_lock::monitor::{self, Server, ServerError};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static SOCKET: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Its socket; `None`, which it has said: this machine or user cannot have one.
pub fn lockd() -> Option<&'static Path> {
    SOCKET.get_or_init(start).as_deref()
}

fn start() -> Option<PathBuf> {
    let name = format!("lockd-{}.sock", std::env::current_exe().ok()?.file_name()?.display());
    let socket = std::env::temp_dir().join(name);
    let mut server = match Server::bind(&socket) {
        Ok(server) => server,
        Err(ServerError::Monitor(why)) => {
            eprintln!("half skipped: {why}");
            return None;
        }
        Err(why) => panic!("{why}"),
    };
    std::thread::spawn(move || server.run(|| false).expect("it serves"));
    // SAFETY: tests read the environment by std only, which locks it.
    unsafe { std::env::set_var("QUAVER_LOCKD", &socket) };
    monitor::attach_to_lockd().expect("it answers");
    // SAFETY: `remove` is a function of this program.
    unsafe { libc::atexit(remove) };
    Some(socket)
}

/// The server goes on to the end of the process, so nobody drops it.
extern "C" fn remove() {
    if let Some(Some(socket)) = SOCKET.get() {
        let _ = std::fs::remove_file(socket);
        let _ = std::fs::remove_file(format!("{}.lock", socket.display()));
    }
}
