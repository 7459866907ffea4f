//! `quaver run`: an unmodified pthread program with its threads as user threads.
//!
//! The program is started with the shim (`crates/shim`) in `LD_PRELOAD` and the options in the
//! environment, where the shim's runtime reads them. What cannot work is refused here, with the
//! reason: [`program`] looks at the file before it runs.

pub mod program;

use crate::companion::SHIM;
use anyhow::{Context, bail};
use quaver_sched::settings;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Run an unmodified pthread program with its threads as preemptive user threads
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How long a thread may run while others wait (`20us`); with `off` only calls that block are
    /// interrupted [default: auto, what suits the machine]
    #[arg(long, value_name = "TIME", env = "QUAVER_QUANTUM")]
    quantum: Option<String>,
    /// How many threads run at the same time [default: the CPUs that the process may use]
    #[arg(long, value_name = "N", env = "QUAVER_WORKERS")]
    workers: Option<usize>,
    /// Pin the workers to these CPUs, such as `0-2,4`
    #[arg(long, value_name = "LIST", env = "QUAVER_CPUS")]
    cpus: Option<String>,
    /// Which thread runs next, such as `two-queue:long=100us`
    #[arg(long, value_name = "POLICY", env = "QUAVER_POLICY")]
    policy: Option<String>,
    /// Who keeps time: auto, timer-core, timer-thread, posix-timer
    #[arg(long, value_name = "CLOCK", env = "QUAVER_CLOCK")]
    clock: Option<String>,
    /// How threads are told to stop: auto, signal, probe (programs built by `quaver cc`)
    #[arg(long, value_name = "NOTIFICATION", env = "QUAVER_NOTIFICATION")]
    notification: Option<String>,
    /// How much of a worker's time preemptions may take, in percent; then quanta become longer
    /// [default: 2, and 100 with a quantum]
    #[arg(long, value_name = "PERCENT", env = "QUAVER_TAX")]
    tax: Option<u32>,
    /// Stack of a thread that does not ask for a size, such as `8m` [default: as ulimit -s]
    #[arg(long, value_name = "SIZE", env = "QUAVER_STACK_SIZE")]
    stack_size: Option<String>,
    /// Serve the program's sockets by a stack in user space, on this network:
    /// tap:NAME,address=A/P or afxdp:IFACE,address=A/P, with ,queues=N and ,gateway=G if need be
    #[arg(long, value_name = "NETWORK", env = "QUAVER_NET")]
    net: Option<quaver_net::spec::Spec>,
    /// Share cores with other applications, by `quaver share`: lc, be or be:WEIGHT, with @SOCKET if
    /// need be
    #[arg(long, value_name = "ROLE", env = "QUAVER_SHARE")]
    share: Option<String>,
    /// Any other setting of the runtime, as `monitor=yes`; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Say at the end how often threads were switched and preempted
    #[arg(long)]
    stats: bool,
    /// Write all counters to FILE at the end: one line, a JSON object, for each process
    #[arg(long, value_name = "FILE")]
    stats_json: Option<PathBuf>,
    /// Run the programs that this one starts in the same way
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    program: Words,
}

/// What is run, as the user has written it.
#[derive(clap::Args, Debug)]
pub(crate) struct Words {
    /// The program and its arguments, after --
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

impl Words {
    /// The command that runs it, if libraries can be preloaded into it; or why not, and the exit
    /// code. `cannot` says what is not possible then.
    pub(crate) fn command(&self, cannot: &str) -> Result<Command, (u8, anyhow::Error)> {
        let command = self.any()?;
        let path = Path::new(command.get_program());
        program::check_for(path, cannot).map_err(|error| (exit::CANNOT_RUN, error))?;
        Ok(command)
    }

    /// The command that runs it, whatever kind of program it is; or why there is none, and the exit
    /// code.
    pub(crate) fn any(&self) -> Result<Command, (u8, anyhow::Error)> {
        let (name, rest) = self.command.split_first().expect("clap asks for one word at least");
        let mut command = Command::new(target(name)?);
        command.arg0(name).args(rest);
        Ok(command)
    }
}

/// Exit codes where the program does not run; otherwise there is the program's. As those of `env`,
/// `nohup` and shells.
pub(crate) mod exit {
    /// An option or setting cannot be used, or `quaver run` itself fails.
    pub(crate) const SETTINGS: u8 = 125;
    /// The program cannot be executed, or not on user threads.
    pub(crate) const CANNOT_RUN: u8 = 126;
    /// There is no such program.
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// Replaces this process by the program. Returns only if that fails, which it has said.
pub fn run(args: Args) -> ExitCode {
    become_it(prepare(&args))
}

/// Replaces this process by a program; or says why not.
pub(crate) fn become_it(prepared: Result<Command, (u8, anyhow::Error)>) -> ExitCode {
    let (code, error) = match prepared {
        Err((code, error)) => (code, error),
        Ok(mut command) => {
            let error = command.exec();
            let path = Path::new(command.get_program()).display();
            (exit::CANNOT_RUN, anyhow::Error::new(error).context(format!("cannot run {path}")))
        }
    };
    eprintln!("quaver: {error:#}");
    code.into()
}

/// The command that becomes of this process; or why not, and the exit code.
fn prepare(args: &Args) -> Result<Command, (u8, anyhow::Error)> {
    let with = |code| move |error| (code, error);
    check_options(args).map_err(with(exit::SETTINGS))?;
    let shim = find_shim().map_err(with(exit::SETTINGS))?;
    let mut command = args.program.command("cannot run on user threads")?;
    configure(args, &mut command, shim).map_err(with(exit::SETTINGS))?;
    Ok(command)
}

/// The program of this name; or why there is none, and the exit code.
fn target(name: &OsStr) -> Result<PathBuf, (u8, anyhow::Error)> {
    if name.as_encoded_bytes().starts_with(b"-") {
        let name = name.display();
        return Err((
            exit::SETTINGS,
            anyhow::anyhow!("there is no option {name}; --help lists them"),
        ));
    }
    program::find(name).map_err(|e| match e {
        program::NotFound::Nowhere(_) => (exit::NOT_FOUND, e.into()),
        program::NotFound::NoProgram(_) => (exit::CANNOT_RUN, e.into()),
    })
}

/// Puts `library` in front of what is preloaded already.
pub(crate) fn preload(command: &mut Command, library: PathBuf) {
    let mut all = library.into_os_string();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        all.push(":");
        all.push(more);
    }
    command.env("LD_PRELOAD", all);
}

fn configure(args: &Args, command: &mut Command, shim: PathBuf) -> anyhow::Result<()> {
    preload(command, shim);
    let workers = args.workers.map(|n| n.to_string());
    let tax = args.tax.map(|n| n.to_string());
    for (name, value) in [
        ("QUAVER_QUANTUM", args.quantum.clone()),
        ("QUAVER_WORKERS", workers),
        ("QUAVER_CPUS", args.cpus.clone()),
        ("QUAVER_POLICY", args.policy.clone()),
        ("QUAVER_CLOCK", args.clock.clone()),
        ("QUAVER_NOTIFICATION", args.notification.clone()),
        ("QUAVER_TAX", tax),
        ("QUAVER_STACK_SIZE", args.stack_size.clone()),
        ("QUAVER_SHARE", args.share.clone()),
        ("QUAVER_NET", args.net.as_ref().map(ToString::to_string)),
    ] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    for list in &args.settings {
        let all = settings::parse_list(list).map_err(anyhow::Error::msg)?;
        command.envs(all.into_iter().map(|(setting, value)| (setting.variable, value)));
    }
    if let Some(file) = &args.stats_json {
        command.env("QUAVER_SHIM_STATS_JSON", fresh(file)?);
    }
    for (name, wanted) in [("QUAVER_SHIM_STATS", args.stats), ("QUAVER_SHIM_FOLLOW", args.follow)] {
        if wanted {
            command.env(name, "1");
        }
    }
    Ok(())
}

/// Reports a mistake in the options here and not in the program. Starts no runtime: the program's
/// own start takes long enough.
fn check_options(args: &Args) -> anyhow::Result<()> {
    let mut b = quaver::Builder::new();
    if let Some(n) = args.workers {
        b = b.workers(n);
    }
    if let Some(policy) = &args.policy {
        b = b.policy_str(policy);
    }
    if let Some(clock) = &args.clock {
        b = b.clock_str(clock);
    }
    if let Some(notification) = &args.notification {
        b = b.set("notification", notification);
    }
    if let Some(share) = &args.share {
        b = b.share_str(share);
    }
    if let Some(tax) = args.tax {
        b = b.tax(tax);
    }
    if let Some(quantum) = &args.quantum {
        b = b.quantum_str(quantum);
    }
    b = args.settings.iter().fold(b, |b, list| b.settings(list));
    Ok(b.validate()?)
}

/// Empties the file for statistics, or makes it, and says where it is whatever directory the
/// program goes to.
fn fresh(file: &Path) -> anyhow::Result<PathBuf> {
    std::fs::File::create(file)
        .and_then(|_| file.canonicalize())
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The shim, as the dynamic loader can be told of it.
///
/// # Errors
///
/// It is nowhere, or in a place whose name the loader would take for several.
pub fn find_shim() -> anyhow::Result<PathBuf> {
    loadable(SHIM.find()?)
}

/// A path that the dynamic loader does not take for several.
pub(crate) fn loadable(path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.to_string_lossy().contains([':', ' ']) {
        bail!("{} cannot be preloaded: its path contains a colon or a blank", path.display());
    }
    Ok(path)
}
