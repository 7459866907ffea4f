//! `cargo quaver`: starts cargo with this program as its wrapper of rustc.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::UNIX_EPOCH;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::job::{self, Job};
use crate::swap;

const HELP: &str = "\
Builds Rust programs with preemption probes

Usage: cargo quaver build|run|test|bench [OPTIONS] [OPTIONS OF CARGO]

Options:
  --lto          Optimise the whole program as one, so that the standard library has probes too;
                 the default for --release and bench
  --per-crate    Compile each crate by itself, the standard library stays plain: quicker;
                 the default otherwise
  --only CRATES  Probes only in these crates (names separated by commas); implies --per-crate
  -h, --help     Print help
  -V, --version  Print version

All other options are cargo's. What is built lies in target/quaver/TARGET/PROFILE. Build scripts
and procedural macros stay plain. The variables QUAVER_PROBES... say how probes are inserted.";

/// How crates become a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Whole,
    PerCrate,
    /// As the profile says.
    Profile,
}

/// The command line, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    subcommand: String,
    mode: Mode,
    only: Vec<String>,
    profile: String,
    target: Option<String>,
    target_folder: Option<PathBuf>,
    /// For cargo, up to `--`.
    arguments: Vec<OsString>,
    /// From `--` on.
    rest: Vec<OsString>,
    /// Those for `cargo metadata` as well.
    shared: Vec<OsString>,
}

impl Call {
    fn new(words: &[OsString]) -> anyhow::Result<Call> {
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let (words, rest) = words.split_at(end);
        let (mut arguments, mut shared, mut only) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lto, mut per_crate) = (false, false);
        let (mut target, mut target_folder, mut profile) = (None, None, None);
        let subcommand = match words.first().map(|word| word.to_string_lossy()).as_deref() {
            Some("build" | "b") => "build",
            Some("run" | "r") => "run",
            Some("test" | "t") => "test",
            Some("bench") => "bench",
            Some(other) if !other.starts_with('-') => {
                bail!("there is no `cargo quaver {other}`; there are build, run, test and bench")
            }
            _ => bail!("say what to do: cargo quaver build, run, test or bench"),
        };
        let mut words = words[1..].iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let (name, given) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (&*text, None),
            };
            let mut both = vec![word.clone()];
            let mut value = || match given.clone() {
                Some(value) => Ok(value),
                None => {
                    let next = words.next().with_context(|| format!("{name} needs a value"))?;
                    both.push(next.clone());
                    Ok::<_, anyhow::Error>(next.to_string_lossy().into_owned())
                }
            };
            match name {
                "--lto" => lto = true,
                "--per-crate" => per_crate = true,
                "--only" => only.extend(value()?.split(',').map(str::to_owned)),
                "--target-dir" => target_folder = Some(PathBuf::from(value()?)),
                "--target" => target = Some(value()?),
                "--release" | "-r" => {
                    profile = Some("release".to_owned());
                    arguments.push(word.clone());
                }
                "--profile" => {
                    profile = Some(value()?);
                    arguments.append(&mut both);
                }
                "--manifest-path" | "--config" | "-Z" => {
                    value()?;
                    shared.extend(both.iter().cloned());
                    arguments.append(&mut both);
                }
                "--locked" | "--offline" | "--frozen" => {
                    shared.push(word.clone());
                    arguments.push(word.clone());
                }
                _ => arguments.push(word.clone()),
            }
        }
        if lto && (per_crate || !only.is_empty()) {
            bail!("--lto makes one of all crates: it does not go with --per-crate and --only");
        }
        let bench = subcommand == "bench";
        let profile = profile.unwrap_or_else(|| match subcommand {
            "bench" => "bench".to_owned(),
            "test" => "test".to_owned(),
            _ => "dev".to_owned(),
        });
        let optimised = bench || profile == "release" || profile == "bench";
        let mode = match () {
            () if per_crate || !only.is_empty() => Mode::PerCrate,
            () if lto || optimised => Mode::Whole,
            () => Mode::Profile,
        };
        Ok(Call {
            subcommand: subcommand.to_owned(),
            mode,
            only,
            profile,
            target,
            target_folder,
            arguments,
            rest: rest.to_vec(),
            shared,
        })
    }
}

/// Becomes cargo. Returns only if that fails, or where only help was asked for.
///
/// # Errors
///
/// The arguments make no sense, or cargo cannot be run.
pub fn run(words: &[OsString]) -> anyhow::Result<ExitCode> {
    let first = words.first().map(|word| word.to_string_lossy());
    let before = words.iter().take_while(|word| *word != "--");
    if first.as_deref() == Some("help") || before.clone().any(|w| w == "--help" || w == "-h") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    if matches!(first.as_deref(), Some("--version" | "-V")) {
        println!("cargo-quaver {}", env!("CARGO_PKG_VERSION"));
        return Ok(ExitCode::SUCCESS);
    }
    let call = Call::new(words)?;
    let settings = swap::settings()?;
    let target = target(&call)?;
    let metadata = Metadata::ask(&call, &target)?;
    let only = metadata.crates(&call.only)?;
    let folder = call.target_folder.clone().unwrap_or(metadata.target_directory);
    // cargo must not take us for the wrapper around us.
    let wrapper = env::var_os("RUSTC_WRAPPER").filter(|path| !path.is_empty());
    let exe = env::current_exe().context("cannot find this program's own file")?;
    let job = Job {
        stamp: stamp(&exe, &format!("{only:?} {settings:?}"))?,
        only,
        wrapper: wrapper.map(PathBuf::from).filter(|path| *path != exe),
    };

    let mut command = Command::new(cargo());
    command.arg(&call.subcommand).args(["--target", &target, "--target-dir"]);
    command.arg(folder.join("quaver")).args(&call.arguments).args(&call.rest);
    command.env("RUSTC_WRAPPER", &exe);
    command.env(job::VARIABLE, serde_json::to_string(&job)?);
    // Where the version says what the result depends on, it must be asked for each time.
    command.env("CARGO_CACHE_RUSTC_INFO", "0");
    let lto = match call.mode {
        Mode::Whole => Some("fat"),
        Mode::PerCrate => Some("off"),
        Mode::Profile => None,
    };
    if let Some(lto) = lto {
        let profile = match &*call.profile {
            "test" => "DEV".to_owned(),
            other => other.to_uppercase().replace('-', "_"),
        };
        command.env(format!("CARGO_PROFILE_{profile}_LTO"), lto);
        if call.profile == "test" {
            command.env("CARGO_PROFILE_TEST_LTO", lto);
        }
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", cargo().display()))
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The target that was asked for, or that of the compiler itself.
fn target(call: &Call) -> anyhow::Result<String> {
    let named = call.target.clone().or_else(|| env::var("CARGO_BUILD_TARGET").ok());
    let target = match named {
        Some(target) => target,
        None => host()?,
    };
    if !target.starts_with("x86_64-") || !target.ends_with("-linux-gnu") {
        bail!("probes are for x86_64-unknown-linux-gnu, not for {target}");
    }
    Ok(target)
}

fn host() -> anyhow::Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("-vV").output();
    let output = output.with_context(|| format!("cannot run {}", rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.with_context(|| format!("{} -vV names no host", rustc.display()))?.to_owned())
}

/// What `cargo metadata` says.
#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Metadata {
    fn ask(call: &Call, target: &str) -> anyhow::Result<Metadata> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1"]).args(&call.shared);
        if call.only.is_empty() {
            command.arg("--no-deps");
        } else {
            command.args(["--filter-platform", target]);
        }
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot run {}", cargo().display()))?;
        if !output.status.success() {
            bail!("cargo metadata failed");
        }
        serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata says")
    }

    /// The crates of these packages or crates, as rustc knows them.
    fn crates(&self, only: &[String]) -> anyhow::Result<Vec<String>> {
        let mut crates = Vec::new();
        for name in only {
            let before = crates.len();
            let plain = name.replace('-', "_");
            for package in &self.packages {
                let plain_ones = ["custom-build", "proc-macro"];
                let ours = |target: &&Target| {
                    !target.kind.iter().any(|kind| plain_ones.contains(&&**kind))
                };
                for target in package.targets.iter().filter(ours) {
                    let target = target.name.replace('-', "_");
                    if package.name == *name || target == plain {
                        crates.push(target);
                    }
                }
            }
            if crates.len() == before {
                bail!(
                    "--only {name}: there is no such crate among those that may have probes \
                     (build scripts and procedural macros may not)"
                );
            }
        }
        crates.sort();
        crates.dedup();
        Ok(crates)
    }
}

/// What a build depends on and cargo does not know of: this program, and `settings`.
fn stamp(exe: &Path, settings: &str) -> anyhow::Result<String> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let about = fs::metadata(exe)?;
    let mut hasher = DefaultHasher::new();
    settings.hash(&mut hasher);
    (about.len(), about.modified()?.duration_since(UNIX_EPOCH)?).hash(&mut hasher);
    Ok(format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> anyhow::Result<Call> {
        Call::new(&text.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_told_apart() {
        let call = call("run --only a,b-c --bin x --target-dir=/t --offline -- --only d").unwrap();
        assert_eq!((call.mode, call.profile.as_str()), (Mode::PerCrate, "dev"));
        assert_eq!(call.only, ["a", "b-c"]);
        assert_eq!(call.arguments, ["--bin", "x", "--offline"]);
        assert_eq!(call.rest, ["--", "--only", "d"]);
        assert_eq!(call.shared, ["--offline"]);
        assert_eq!(call.target_folder, Some("/t".into()));
    }

    #[test]
    fn releases_are_whole() {
        for (text, mode) in [
            ("build", Mode::Profile),
            ("build --release", Mode::Whole),
            ("test", Mode::Profile),
            ("bench", Mode::Whole),
            ("b --lto", Mode::Whole),
            ("r -r --per-crate", Mode::PerCrate),
            ("test --profile fast", Mode::Profile),
        ] {
            assert_eq!(call(text).unwrap().mode, mode, "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, why) in [
            ("check", "no `cargo quaver check`"),
            ("--release", "say what to do"),
            ("build --lto --only a", "does not go with"),
            ("build --only", "--only needs a value"),
        ] {
            let error = call(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(target(&call("build --target aarch64-unknown-linux-gnu").unwrap()).is_err());
    }
}
