//! What Debian's servers cost under `quaver run`: CPU time for each request of a closed loop,
//! beside the same natively.
//!
//! Closed loops, so that a server always has something to do and the client waits for it: the CPU
//! time of the server is what is compared, and the faster of two servers must not be asked for
//! more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use quaver_bench_common::{Outcome, Sample, affinity};
use quaver_load::net::{Protocol, fill};
use serde::{Deserialize, Serialize};

use super::programs::{memcached_command, text, under_quaver};
use crate::bench::child::Work;
use crate::bench::context::{Context, Task};
use crate::bench::net::dialogue::{self, Dialogue};
use crate::bench::net::measure::{BOTH_NS, Loop, PER_S, SERVER_NS, closed_loop};
use crate::bench::net::server::Server;
use crate::bench::plan::{Aim, Bound, Group, Job, Plan, Reading};
use crate::run::find_shim;
use crate::slice;

/// What user threads may cost programs that know nothing of them.
const AIM: Bound = Bound::AtMost(1.3);
const NATIVE: &str = "native";
const CONNECTIONS: usize = 32;
/// Keys in a store that is asked for one.
const KEYS: u64 = 100;
/// Bytes of a page.
const PAGE: usize = 1024;

/// A server of Debian's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Native {
    /// memcached, four threads.
    Memcached,
    /// Redis, which has one thread that serves.
    Redis,
    /// nginx, one process.
    Nginx,
}

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NativeSpec {
    native: Native,
    program: String,
    /// This executable, if it is to run under it; the quantum.
    under: Option<(String, String)>,
    server_cpus: Vec<usize>,
    client_cpus: Vec<usize>,
    warmup_ms: u64,
    measure_ms: u64,
}

impl Native {
    const ALL: [Native; 3] = [Native::Memcached, Native::Redis, Native::Nginx];

    /// The file of the program.
    fn file(self) -> &'static str {
        match self {
            Native::Memcached => "memcached",
            Native::Redis => "redis-server",
            Native::Nginx => "nginx",
        }
    }

    fn dialogue(self) -> Dialogue {
        match self {
            Native::Memcached => Dialogue::Memcached,
            Native::Redis => Dialogue::Redis,
            Native::Nginx => Dialogue::Page("/page"),
        }
    }

    /// Its command in this folder, where it listens at `port`.
    fn command(self, program: &str, folder: &Path, port: u16) -> anyhow::Result<Vec<String>> {
        let folder_text = text(folder).context("the path of a temporary folder is no UTF-8")?;
        Ok(match self {
            Native::Memcached => memcached_command(program, &port.to_string()),
            Native::Redis => {
                let quiet = ["--loglevel", "warning", "--save", "", "--dir", &folder_text];
                let words = [program, "--bind", "127.0.0.1", "--port", &port.to_string()];
                words.into_iter().chain(quiet).map(Into::into).collect()
            }
            Native::Nginx => {
                std::fs::create_dir_all(folder.join("www"))?;
                std::fs::write(folder.join("www/page"), "x".repeat(PAGE))?;
                let file = folder.join("nginx.conf");
                std::fs::write(&file, nginx_conf(&folder_text, port))?;
                let file = text(&file).context("the path of a temporary folder is no UTF-8")?;
                [program, "-c", &file].map(Into::into).into()
            }
        })
    }
}

fn nginx_conf(folder: &str, port: u16) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|what| format!("    {what}_temp_path {folder}/{what};\n"));
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log /dev/null;\n\
         events {{ worker_connections 256; }}\nhttp {{\n    access_log off;\n\
         \x20   keepalive_requests 1000000000;\n{}\
         \x20   server {{ listen 127.0.0.1:{port}; root {folder}/www; }}\n}}\n",
        temporary.concat()
    )
}

/// Where a program is: servers are not in the PATH of ordinary users.
pub fn find(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file()).and_then(|p| text(&p))
}

/// The groups.
pub fn plan(context: &Context) -> Plan {
    let mut plan = Plan::default();
    let shim = find_shim();
    if let Err(why) = &shim {
        plan.notes.push(format!("servers: quaver run left out: {why:#}"));
    }
    for native in Native::ALL {
        let Some(program) = find(native.file()) else {
            let file = native.file();
            plan.notes.push(format!("servers: {file} left out: it is not installed"));
            continue;
        };
        for cpus in [1, 2].into_iter().filter(|&n| n <= context.place.all.len()) {
            plan.groups.push(group(context, native, &program, cpus, shim.is_ok()));
        }
    }
    plan
}

fn group(context: &Context, native: Native, program: &str, cpus: usize, shim: bool) -> Group {
    let place = &context.place;
    let workers = if cpus == 1 { "1 worker" } else { "2 workers" };
    let title = format!("{}, {workers}", native.file());
    let spec = |under| NativeSpec {
        native,
        program: program.to_owned(),
        under,
        server_cpus: place.all[..cpus].to_vec(),
        client_cpus: place.helper.into_iter().collect(),
        warmup_ms: context.effort.pick(50, 300),
        measure_ms: context.effort.pick(200, 1000),
    };
    let readings = vec![
        Reading::new(format!("{title}: server CPU"), SERVER_NS, "ns"),
        Reading::new(format!("{title}: server and client CPU"), BOTH_NS, "ns"),
        Reading::new(format!("{title}: requests"), PER_S, "/s"),
    ];
    let task = Task { cpus: place.all.clone(), expected: Duration::from_secs(2), readings };
    let job = |name: &str, under| task.job(name, context.child(&Work::ServersNative(spec(under))));
    let mut jobs = vec![job(NATIVE, None)];
    let quanta = context.effort.pick(&["auto"][..], &["auto", "off"]);
    for quantum in quanta.iter().filter(|_| shim) {
        let me = text(context.program()).map(|me| (me, (*quantum).to_owned()));
        let aims = [("server CPU", SERVER_NS), ("server and client CPU", BOTH_NS)];
        let aim =
            |(what, metric)| Aim::new(format!("{title}: {what} / native"), metric, AIM, &[NATIVE]);
        jobs.push(Job { aims: aims.map(aim).into(), ..job(&format!("quaver run {quantum}"), me) });
    }
    Group { title, jobs }
}

/// Measures.
///
/// # Errors
///
/// A [`Crash`](crate::process::Crash) when the server dies; or it answers wrongly.
pub fn run(spec: &NativeSpec) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let server = Server::start_foreign(
        |address| {
            let command = spec.native.command(&spec.program, folder.path(), address.port())?;
            Ok(match &spec.under {
                None => command,
                Some((me, quantum)) => under_quaver(me, &spec.server_cpus, quantum, command),
            })
        },
        &spec.server_cpus,
    )?;
    affinity::pin(&spec.client_cpus).context("the client's CPU")?;
    slice::set(Duration::from_micros(100));
    match measure(spec, &server) {
        Ok(sample) => {
            server.stop()?;
            Ok(sample.into())
        }
        Err(error) => Err(server.blamed(error)),
    }
}

fn measure(spec: &NativeSpec, server: &Server) -> anyhow::Result<Sample> {
    let protocol = match spec.native {
        Native::Memcached => Some(Protocol::Memcached),
        Native::Redis => Some(Protocol::Resp),
        Native::Nginx => None,
    };
    if let Some(protocol) = protocol {
        fill(protocol, server.address, KEYS, dialogue::VALUE)?;
    }
    closed_loop(
        server,
        &Loop {
            dialogue: spec.native.dialogue(),
            connections: CONNECTIONS,
            warmup_ms: spec.warmup_ms,
            measure_ms: spec.measure_ms,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_servers_answer() {
        let cpus = crate::doctor::detect::cpus::allowed();
        for native in Native::ALL {
            let Some(program) = find(native.file()) else { continue };
            let spec = NativeSpec {
                native,
                program,
                under: None,
                server_cpus: cpus.clone(),
                client_cpus: cpus.clone(),
                warmup_ms: 1,
                measure_ms: 20,
            };
            // The affinity of the test's own thread is left as it is.
            let outcome = std::thread::spawn(move || run(&spec)).join().unwrap().unwrap();
            let Outcome::Sample(sample) = outcome else { panic!("{outcome:?}") };
            assert!(sample.metrics[SERVER_NS] > 0.0, "{sample:?}");
            assert!(sample.metrics[BOTH_NS] > sample.metrics[SERVER_NS], "{sample:?}");
        }
    }

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find("sh").is_some_and(|path| path.ends_with("/sh")));
        assert_eq!(find("no-such-server"), None);
    }
}
