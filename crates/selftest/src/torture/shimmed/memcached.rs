//! A server under load: many connections on a few threads that wait for events.

use super::load::{self, Load};
use super::{Launcher, Program};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) struct Memcached;

const LOAD: Load = Load { connections: 16, requests: 400 };
/// For the server to listen.
const PATIENCE: Duration = Duration::from_secs(60);

impl Program for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn needs(&self) -> (&'static [&'static str], &'static str) {
        (&["memcached"], "memcached")
    }

    fn prepare(&self, directory: &Path, seed: u64) -> std::io::Result<()> {
        std::fs::write(directory.join("seed"), seed.to_string())
    }

    fn run(&self, launcher: &Launcher, directory: &Path) -> Result<Vec<u8>, String> {
        let seed = std::fs::read_to_string(directory.join("seed")).ok();
        let seed = seed.and_then(|text| text.parse().ok()).unwrap_or_default();
        let socket = directory.join("socket");
        // Of the run before.
        let _ = std::fs::remove_file(&socket);
        let name = socket.to_string_lossy().into_owned();
        let mut arguments = vec!["-s", &name, "-t", "4"];
        // SAFETY: no requirements.
        if unsafe { libc::geteuid() } == 0 {
            arguments.extend(["-u", "root"]);
        }
        let mut server = launcher.start("memcached", &arguments, None)?;
        let begin = Instant::now();
        while !load::answers(&socket) {
            if server.has_ended() || begin.elapsed() > PATIENCE {
                let why = server.terminate().err().unwrap_or_default();
                return Err(format!("memcached does not listen: {why}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let begin = Instant::now();
        let said = LOAD.run(&socket, seed);
        // It takes its time to end.
        launcher.work_took(begin.elapsed());
        server.terminate()?;
        said.map(String::into_bytes)
    }
}
