//! The settings of a runtime as text: one table for builders, the environment, C and macro
//! arguments.
//!
//! A list of settings, as C gives it, is `NAME=VALUE` any number of times. Blanks, commas and
//! semicolons separate, in the list and inside values alike: `workers=2,
//! policy=two-queue:long=100us,max-age=1ms cpus=0,1`. A word that cannot begin a setting belongs to
//! the value before it.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use crate::share::Membership;
use crate::{Spec, SpecError, parse_duration};

/// Something that can be chosen.
#[derive(Debug)]
pub struct Setting {
    /// In lists, as a macro argument, and of the builder's method.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// Which values it can have.
    pub kind: Kind,
    /// A value as it is written.
    pub example: &'static str,
    /// What it chooses, in a line.
    pub about: &'static str,
}

/// Which values a setting can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A number from the first to the second.
    Number(u64, u64),
    /// A list of CPUs.
    Cpus,
    /// `yes` or `no`.
    Flag,
    /// A [`Spec`].
    Policy,
    /// A duration.
    Duration,
    /// A duration, or `off`.
    OrOff,
    /// As [`OrOff`](Kind::OrOff), where `0` means `off`.
    Quantum,
    /// Bytes, or a number with `k`, `m` or `g`.
    Bytes,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A [`Membership`], or `off`.
    Share,
}

/// What a text says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Of [`Kind::Number`] and [`Kind::Bytes`].
    Number(u64),
    /// Of [`Kind::Cpus`], in the order given.
    Cpus(Vec<usize>),
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of [`Kind::Policy`].
    Policy(Spec),
    /// Of the kinds of durations; `None`: `off`.
    Duration(Option<Duration>),
    /// Of [`Kind::Word`].
    Word(&'static str),
    /// Of [`Kind::Share`]; `None`: `off`.
    Share(Option<Membership>),
}

const fn setting(
    name: &'static str,
    variable: &'static str,
    kind: Kind,
    example: &'static str,
    about: &'static str,
) -> Setting {
    Setting { name, variable, kind, example, about }
}

/// All settings.
#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    setting("workers", "QUAVER_WORKERS", Kind::Number(1, 1024), "2",
        "how many user threads run at the same time"),
    setting("cpus", "QUAVER_CPUS", Kind::Cpus, "0-2,4",
        "pins the workers to these CPUs, one each"),
    setting("pin", "QUAVER_PIN", Kind::Flag, "yes",
        "pins each worker to a CPU of the affinity mask, beginning with the last"),
    setting("policy", "QUAVER_POLICY", Kind::Policy, "two-queue:long=100us",
        "which thread runs next"),
    setting("quantum", "QUAVER_QUANTUM", Kind::Quantum, "20us",
        "how long a thread may run while others wait; auto: as suits the machine"),
    setting("clock", "QUAVER_CLOCK",
        Kind::Word(&["auto", "timer-core", "timer-thread", "posix-timer", "delegated-timer"]),
        "timer-thread",
        "who keeps time"),
    setting("timer_cpu", "QUAVER_TIMER_CPU", Kind::Number(0, 8191), "3",
        "the CPU of the timer core or timer thread"),
    setting("notification", "QUAVER_NOTIFICATION",
        Kind::Word(&["auto", "signal", "probe", "user-interrupt", "emulated-user-interrupt"]),
        "signal",
        "how a worker is told to preempt"),
    setting("signal", "QUAVER_SIGNAL", Kind::Number(1, 64), "23",
        "the signal that preempts"),
    setting("resume", "QUAVER_RESUME", Kind::Word(&["auto", "sigreturn"]), "auto",
        "how preempted threads get their registers back"),
    setting("tls", "QUAVER_TLS", Kind::Word(&["private", "shared"]), "private",
        "whose thread-local variables threads have"),
    setting("stack_size", "QUAVER_STACK_SIZE", Kind::Bytes, "256k",
        "usable bytes of each stack"),
    setting("max_threads", "QUAVER_MAX_THREADS", Kind::Number(1, 1 << 24), "10000",
        "most user threads at a time"),
    setting("max_blocking", "QUAVER_MAX_BLOCKING", Kind::Number(0, u32::MAX as u64), "512",
        "most user threads that block in the kernel without occupying a worker"),
    setting("idle_spin", "QUAVER_IDLE_SPIN", Kind::Duration, "20us",
        "how long an idle worker looks for work before it sleeps"),
    setting("max_deferral", "QUAVER_MAX_DEFERRAL", Kind::OrOff, "20us",
        "how long a preemption waits for a thread to come out of libraries that have locks"),
    setting("mutex_extension", "QUAVER_MUTEX_EXTENSION", Kind::Duration, "5us",
        "how long a preemption may wait until the thread has freed its mutexes"),
    setting("fault_look", "QUAVER_FAULT_LOOK", Kind::OrOff, "200us",
        "how often to look for workers that sleep in page faults; off: seldom or never"),
    setting("monitor", "QUAVER_MONITOR", Kind::Flag, "yes",
        "gives away at once what waits at a worker that has lost its CPU; needs quaver lockd"),
    setting("tax", "QUAVER_TAX", Kind::Number(1, 100), "10",
        "percent of a worker's time that preemptions may take"),
    setting("share", "QUAVER_SHARE", Kind::Share, "be:3",
        "shares cores with other applications, latency-critical or best-effort"),
];

impl Setting {
    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// Says what is accepted.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        Ok(match self.kind {
            Kind::Number(least, most) => match text.parse() {
                Ok(n) if (least..=most).contains(&n) => Value::Number(n),
                _ => return Err(format!("expected a number from {least} to {most}")),
            },
            Kind::Bytes => Value::Number(parse_bytes(text)?),
            Kind::Cpus => Value::Cpus(parse_cpu_list(text)?),
            Kind::Flag => match text {
                "yes" | "true" | "on" | "1" => Value::Flag(true),
                "no" | "false" | "off" | "0" => Value::Flag(false),
                _ => return Err("expected yes or no".into()),
            },
            Kind::Policy => {
                let spec = words(text).collect::<Vec<_>>().join(",");
                Value::Policy(spec.parse().map_err(|e: SpecError| e.to_string())?)
            }
            Kind::Quantum if text == "0" => Value::Duration(None),
            Kind::Quantum if text == "auto" => Value::Word("auto"),
            Kind::Quantum | Kind::OrOff if matches!(text, "off" | "none") => Value::Duration(None),
            Kind::Quantum | Kind::OrOff | Kind::Duration => {
                Value::Duration(Some(parse_duration(text).map_err(|e| e.to_string())?))
            }
            Kind::Share if text == "off" => Value::Share(None),
            Kind::Share => Value::Share(Some(text.parse()?)),
            Kind::Word(allowed) => match allowed.iter().find(|word| **word == text) {
                Some(word) => Value::Word(word),
                None => return Err(format!("`{text}` is not one of {}", allowed.join(", "))),
            },
        })
    }
}

/// The parts of a text between separators.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';'))
        .filter(|word| !word.is_empty())
}

/// Reads a list of settings: each with its value, which is not checked.
///
/// # Errors
///
/// Names the word that belongs to no setting, and the name that may have been meant.
pub fn parse_list(text: &str) -> Result<Vec<(&'static Setting, String)>, String> {
    let mut found: Vec<(&'static Setting, String)> = Vec::new();
    for word in words(text) {
        let assigned = word.split_once('=');
        let begun = assigned.and_then(|(name, value)| Some((Setting::named(name)?, value)));
        match (begun, found.last_mut()) {
            (Some((setting, value)), _) => found.push((setting, value.into())),
            // A policy has parts with and without a sign, a list of CPUs only the latter.
            (None, Some((Setting { kind: Kind::Policy, .. }, value))) => {
                *value = format!("{value},{word}");
            }
            (None, Some((Setting { kind: Kind::Cpus, .. }, value))) if assigned.is_none() => {
                *value = format!("{value},{word}");
            }
            (None, _) => {
                return Err(match assigned {
                    Some((name, _)) => unknown(name),
                    None => format!("`{word}` is not of the form name=value"),
                });
            }
        }
    }
    Ok(found)
}

/// Says that there is no such setting, and which one may have been meant.
pub fn unknown(name: &str) -> String {
    match nearest(name, SETTINGS.iter().map(|setting| setting.name)) {
        Some(near) => format!("there is no setting `{name}`; did you mean `{near}`?"),
        None => {
            let all: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
            format!("there is no setting `{name}`; there are {}", all.join(", "))
        }
    }
}

/// Which of the names `given` may be a misspelling of: the one with the fewest letters to add, drop
/// or change, if these are at most about a quarter of it.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = names.map(|name| (distance(given, name), name)).min()?;
    (distance <= ((name.len() + 2) / 4).max(1)).then_some(name)
}

/// The distance of Levenshtein.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Reads bytes: a number, or one with `k`, `m` or `g`.
///
/// # Errors
///
/// Says what is expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_suffix("ib").or(lower.strip_suffix('b')).unwrap_or(&lower);
    let (digits, shift) = [('k', 10), ('m', 20), ('g', 30)]
        .into_iter()
        .find_map(|(unit, shift)| Some((number.strip_suffix(unit)?, shift)))
        .unwrap_or((number, 0));
    let bytes = digits.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| "expected bytes, or a number with k, m or g".into())
}

/// Reads a list of CPUs such as `0-2,4`.
///
/// # Errors
///
/// Says which part is wrong.
pub fn parse_cpu_list(text: &str) -> Result<Vec<usize>, String> {
    const FORM: &str = "expected a list such as 0-2,4";
    let mut cpus = Vec::new();
    for part in words(text) {
        let number = |s: &str| {
            s.parse::<usize>()
                .ok()
                .filter(|&n| n < 8192)
                .ok_or_else(|| format!("`{part}` is not a CPU number or range ({FORM})"))
        };
        let range = match part.split_once('-') {
            Some((a, b)) => number(a)?..=number(b)?,
            None => number(part)?..=number(part)?,
        };
        if range.is_empty() {
            return Err(format!("the range `{part}` is empty"));
        }
        if let Some(twice) = range.clone().find(|cpu| cpus.contains(cpu)) {
            return Err(format!("CPU {twice} is named twice"));
        }
        cpus.extend(range);
    }
    if cpus.is_empty() {
        return Err(format!("no CPU is named ({FORM})"));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn parse(name: &str, text: &str) -> Result<Value, String> {
        Setting::named(name).unwrap().parse(text)
    }

    fn list(text: &str) -> Vec<(&'static str, String)> {
        parse_list(text).unwrap().into_iter().map(|(s, value)| (s.name, value)).collect()
    }

    #[test]
    fn the_table_is_in_order() {
        for s in SETTINGS {
            assert_eq!(s.variable, format!("QUAVER_{}", s.name.to_ascii_uppercase()));
            assert!(s.parse(s.example).is_ok(), "{}", s.name);
            assert!(s.parse("?").is_err(), "{}", s.name);
        }
    }

    #[test]
    fn values_are_read() {
        assert_eq!(parse("workers", " 3 "), Ok(Value::Number(3)));
        assert!(parse("workers", "0").unwrap_err().contains("from 1 to 1024"));
        assert_eq!(parse("pin", "no"), Ok(Value::Flag(false)));
        for off in ["0", "off", "none"] {
            assert_eq!(parse("quantum", off), Ok(Value::Duration(None)));
        }
        assert!(parse("idle_spin", "off").is_err());
        let zero = Some(Duration::ZERO);
        assert_eq!(parse("max_deferral", "0us"), Ok(Value::Duration(zero)));
        assert_eq!(parse("clock", "timer-core"), Ok(Value::Word("timer-core")));
        assert!(parse("clock", "sundial").unwrap_err().contains("posix-timer"));
        let same = parse("policy", "two-queue:quantum=5us,long=9us").unwrap();
        assert_eq!(parse("policy", "two-queue:quantum=5us; long=9us"), Ok(same));
    }

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("65536", 1 << 16), ("64k", 1 << 16), ("1 MiB", 1 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(parse("stack_size", text), Ok(Value::Number(bytes)));
        }
        for bad in ["big", "99999999999999999999", "k", "99999999999g", "-1"] {
            assert!(parse("stack_size", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cpu_lists() {
        for (text, cpus) in
            [("0", vec![0]), ("0-2,4", vec![0, 1, 2, 4]), (" 7 ; 1-2", vec![7, 1, 2])]
        {
            assert_eq!(parse_cpu_list(text), Ok(cpus));
        }
        for bad in ["", "a", "1-", "3-1", "1,1", "1-3,2", "99999999"] {
            assert!(parse_cpu_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_takes_any_separator() {
        let expected = [("workers", "2".into()), ("quantum", "50us".into())];
        for text in
            ["workers=2 quantum=50us", "workers=2,quantum=50us", " workers=2;\n, quantum=50us,"]
        {
            assert_eq!(list(text), expected, "{text}");
        }
        assert_eq!(list(" ,; "), []);
        assert_eq!(
            list("cpus=0,2-3,policy=two-queue:long=1ms,max-age=9ms,tax=5"),
            [
                ("cpus", "0,2-3".into()),
                ("policy", "two-queue:long=1ms,max-age=9ms".into()),
                ("tax", "5".into()),
            ]
        );
    }

    #[test]
    fn a_misspelt_name_is_told_from_a_value() {
        let error = |text| parse_list(text).unwrap_err();
        assert!(error("workers=2,quantm=5us").contains("`quantm`; did you mean `quantum`?"));
        assert!(error("cpus=1,2,wokers=3").contains("did you mean `workers`?"));
        assert!(error("colour=red").contains("there are workers, cpus"));
        assert!(error("workers=2 3").contains("`3` is not of the form name=value"));
        assert!(error("fast").contains("name=value"));
    }

    #[test]
    fn misspellings_have_a_nearest_name() {
        let near = |given| nearest(given, SETTINGS.iter().map(|s| s.name));
        assert_eq!(near("worker"), Some("workers"));
        assert_eq!(near("max_thread"), Some("max_threads"));
        assert_eq!(near("maxblocking"), Some("max_blocking"));
        assert_eq!(near("x"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
