//! Settings as text: from the environment, from C, from macro arguments. Which there are, and how
//! they are written, is in [`quaver_sched::settings`].

use super::{BuildError, Builder, Quantum};
use crate::policy::PolicyChoice;
use core::fmt;
use core::str::FromStr;
use quaver_sched::settings::{self, SETTINGS, Setting, Value};
use std::sync::Once;

/// What is wrong with a text.
#[derive(Clone, Debug)]
pub(super) enum TextError {
    Value { name: String, value: String, reason: String },
    Name(String),
}

impl From<TextError> for BuildError {
    fn from(error: TextError) -> BuildError {
        match error {
            TextError::Value { name, value, reason } => BuildError::Setting { name, value, reason },
            TextError::Name(message) => BuildError::UnknownSetting(message),
        }
    }
}

/// Variables of other parts of the project.
const OTHERS: &[&str] = &[
    "QUAVER_AS",
    "QUAVER_BENCH_PEERS",
    "QUAVER_GO",
    "QUAVER_LOCKD",
    "QUAVER_LOCK_MONITOR",
    "QUAVER_LOCK_PID",
    "QUAVER_LOCK_PRELOAD",
    "QUAVER_NET",
    "QUAVER_NO_FSGSBASE",
    "QUAVER_PROBES",
    "QUAVER_PROBES_ASSEMBLER",
    "QUAVER_PROBES_ENTRIES",
    "QUAVER_PROBES_REASSEMBLE",
    "QUAVER_PROBES_REPLICATE",
    "QUAVER_PROBES_REPORT",
    "QUAVER_PROBES_TARGET",
    "QUAVER_PROBES_TRUST",
    "QUAVER_PROBES_VECTORS",
    "QUAVER_PROBES_VERBOSE",
    "QUAVER_SHARE_SOCKET",
    "QUAVER_SHIM",
    "QUAVER_SHIM_ALLOW",
    "QUAVER_SHIM_FOLLOW",
    "QUAVER_SHIM_STATS",
    "QUAVER_SHIM_STATS_JSON",
    "QUAVER_TEST_FULL",
];

impl Builder {
    /// Defaults, changed by environment variables: `QUAVER_` and the name of a [setting](SETTINGS)
    /// in capitals, such as `QUAVER_WORKERS=2`, `QUAVER_QUANTUM=20us`. A value that cannot be read
    /// is an error at `build`. A variable that looks like a misspelt one is reported on standard
    /// error.
    pub fn from_env() -> Builder {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            for (given, meant) in
                misspelt(std::env::vars_os().filter_map(|(n, _)| n.into_string().ok()))
            {
                eprintln!(
                    "quaver: the environment variable {given} is not known; did you mean {meant}?"
                );
            }
        });
        SETTINGS.iter().fold(Builder::new(), |b, setting| match std::env::var(setting.variable) {
            Ok(value) => b.set_as(setting, setting.variable, &value),
            Err(_) => b,
        })
    }

    /// Makes a [setting](SETTINGS) by its name: `set("quantum", "20us")`. A name or value that
    /// cannot be used is an error at `build`.
    pub fn set(self, name: &str, value: &str) -> Builder {
        match Setting::named(name) {
            Some(setting) => self.set_as(setting, name, value),
            None => self.wrong(TextError::Name(settings::unknown(name))),
        }
    }

    /// Makes several settings: `settings("workers=2, quantum=20us")`. Blanks, commas and semicolons
    /// separate them. A name or value that cannot be used is an error at `build`.
    ///
    /// ```
    /// let settings = "workers=1 policy=two-queue:long=1ms,max-age=5ms";
    /// let rt = quaver::Builder::new().settings(settings).build()?;
    /// # Ok::<(), quaver::BuildError>(())
    /// ```
    pub fn settings(self, list: &str) -> Builder {
        match settings::parse_list(list) {
            Ok(all) => all.iter().fold(self, |b, (s, value)| b.set_as(s, s.name, value)),
            Err(message) => self.wrong(TextError::Name(message)),
        }
    }

    /// Makes a setting that the user knows as `name`.
    fn set_as(mut self, setting: &Setting, name: &str, value: &str) -> Builder {
        match setting.parse(value).and_then(|value| self.apply(setting.name, value)) {
            Ok(()) => self,
            Err(reason) => {
                self.wrong(TextError::Value { name: name.into(), value: value.into(), reason })
            }
        }
    }

    fn wrong(mut self, error: TextError) -> Builder {
        self.error.get_or_insert(error);
        self
    }

    fn apply(&mut self, name: &str, value: Value) -> Result<(), String> {
        match (name, value) {
            ("workers", Value::Number(n)) => self.workers = Some(number(n)?),
            ("cpus", Value::Cpus(cpus)) => self.cpus = Some(cpus),
            ("pin", Value::Flag(pin)) => self.pin = pin,
            ("policy", Value::Policy(spec)) => self.policy = PolicyChoice::BuiltIn(spec),
            ("quantum", Value::Duration(quantum)) => self.quantum = Quantum::Given(quantum),
            ("quantum", Value::Word(_)) => self.quantum = Quantum::Auto,
            ("clock", Value::Word(word)) => self.clock = one_of(word)?,
            ("timer_cpu", Value::Number(n)) => self.timer_cpu = Some(number(n)?),
            ("notification", Value::Word(word)) => self.notification = one_of(word)?,
            ("signal", Value::Number(n)) => self.signal = number(n)?,
            ("resume", Value::Word(word)) => self.resume = one_of(word)?,
            ("tls", Value::Word(word)) => self.tls = one_of(word)?,
            ("stack_size", Value::Number(n)) => self.stack_size = number(n)?,
            ("max_threads", Value::Number(n)) => self.max_threads = number(n)?,
            ("max_blocking", Value::Number(n)) => self.max_blocking = number(n)?,
            ("idle_spin", Value::Duration(Some(spin))) => self.idle_spin = spin,
            ("max_deferral", Value::Duration(limit)) => self.max_deferral = limit,
            ("mutex_extension", Value::Duration(Some(bound))) => self.mutex_extension = bound,
            ("fault_look", Value::Duration(every)) => self.fault_look = every,
            ("monitor", Value::Flag(on)) => self.monitor = on,
            ("share", Value::Share(membership)) => self.share = membership,
            ("tax", Value::Number(n)) => self.tax = Some(number(n)?),
            (name, value) => return Err(format!("nothing takes {value:?} as {name}")),
        }
        Ok(())
    }
}

fn number<T: TryFrom<u64>>(n: u64) -> Result<T, String> {
    n.try_into().map_err(|_| "the number is too large".into())
}

fn one_of<T: FromStr<Err: fmt::Display>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|e: T::Err| e.to_string())
}

/// Those of the names that look like variables of ours and are none, each with the one that may
/// have been meant.
fn misspelt(names: impl Iterator<Item = String>) -> Vec<(String, &'static str)> {
    let known = || SETTINGS.iter().map(|s| s.variable).chain(OTHERS.iter().copied());
    let short = |name: &'static str| name.trim_start_matches("QUAVER_");
    let near = |name: &str| {
        let meant = settings::nearest(name.strip_prefix("QUAVER_")?, known().map(short))?;
        known().find(|known| short(known) == meant && *known != name)
    };
    names
        .filter(|name| known().all(|known| known != name))
        .filter_map(|name| near(&name).map(|meant| (name, meant)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(b: Builder) -> String {
        b.check().unwrap_err().to_string()
    }

    #[test]
    fn every_setting_is_made() {
        for s in SETTINGS {
            let value = s.parse(s.example).unwrap();
            assert_eq!(Builder::new().apply(s.name, value), Ok(()), "{}", s.name);
        }
        assert!(Builder::new().apply("workers", Value::Flag(true)).is_err());
    }

    #[test]
    fn bad_texts_are_named() {
        let e = error(Builder::new().quantum_str("soon"));
        assert!(e.contains("quantum") && e.contains("soon"), "{e}");
        assert!(error(Builder::new().policy_str("best")).contains("best"));
        assert!(error(Builder::new().clock_str("sundial")).contains("sundial"));
        let e = error(Builder::new().set("wokers", "2").set("quantum", "soon"));
        assert!(e.contains("`wokers`; did you mean `workers`?"), "the first counts: {e}");
        let e = error(Builder::new().settings("workers=2, max_blocking=few"));
        assert!(e.contains("max_blocking: `few` cannot be used"), "{e}");
    }

    #[test]
    fn a_list_sets_all() {
        let b = Builder::new().settings("workers=2,quantum=50us;max_blocking=7 stack_size=1g");
        let config = b.check().unwrap();
        assert_eq!((config.workers, config.max_blocking, config.stack_size), (2, 7, 1 << 30));
    }

    #[test]
    fn misspelt_variables_are_found() {
        let check = |names: &[&str]| misspelt(names.iter().map(|name| format!("QUAVER_{name}")));
        for (given, meant) in [
            ("WORKER", "QUAVER_WORKERS"),
            ("MAXBLOCKING", "QUAVER_MAX_BLOCKING"),
            ("SHIM_STAT", "QUAVER_SHIM_STATS"),
        ] {
            assert_eq!(check(&["TAX", given]), [(format!("QUAVER_{given}"), meant)]);
        }
        assert_eq!(check(&["WORKERS", "SHIM", "MY_OWN_THING", "TEST_ROLE"]), []);
        assert_eq!(misspelt(["WORKER", "PATH"].map(String::from).into_iter()), []);
    }
}
