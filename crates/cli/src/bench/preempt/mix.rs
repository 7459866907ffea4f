//! Which threads are preempted: so many of each kind, as in `get*8+scan*8`.

use std::fmt;
use std::str::FromStr;

use quaver_bench_common::compute::Loop;
use serde::{Deserialize, Serialize};

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A compute loop.
    Loop(Loop),
    /// One lookup after another in the key-value store.
    Get,
    /// One scan after another.
    Scan,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Loop(Loop::Scalar), Kind::Loop(Loop::Avx), Kind::Get, Kind::Scan];

    fn name(self) -> &'static str {
        match self {
            Kind::Loop(work) => work.name(),
            Kind::Get => "get",
            Kind::Scan => "scan",
        }
    }

    /// Can this processor do it?
    pub fn available(self) -> bool {
        match self {
            Kind::Loop(work) => work.available(),
            Kind::Get | Kind::Scan => true,
        }
    }
}

/// The threads of one measurement. As text: kinds with their numbers, joined by `+`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix(Vec<(Kind, usize)>);

/// More would be no test of preemption, but of memory.
const MOST: usize = 1000;

impl Mix {
    /// Two threads with this loop.
    pub fn two(work: Loop) -> Self {
        Mix(vec![(Kind::Loop(work), 2)])
    }

    /// What each thread does.
    pub fn threads(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().flat_map(|&(kind, number)| std::iter::repeat_n(kind, number))
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split('+').map(|part| {
            let (name, number) = part.split_once('*').unwrap_or((part, "1"));
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name.trim());
            let kind = kind.ok_or_else(|| {
                let names = Kind::ALL.map(Kind::name).join(", ");
                format!("{:?} is no kind of thread; these are: {names}", name.trim())
            })?;
            let number = number.trim();
            let wrong = |_| format!("{number:?} in {part:?} is no number of threads");
            Ok((kind, number.parse::<usize>().map_err(wrong)?))
        });
        let parts = parts.collect::<Result<Vec<_>, String>>()?;
        let threads: usize = parts.iter().fold(0, |sum, part| sum.saturating_add(part.1));
        if !(2..=MOST).contains(&threads) {
            return Err(format!(
                "{threads} threads: from 2 to {MOST} can be preempted in favour of one another"
            ));
        }
        Ok(Mix(parts))
    }
}

impl fmt::Display for Mix {
    /// Two of a kind go by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(kind, 2)] = self.0[..] {
            return f.write_str(kind.name());
        }
        for (i, (kind, number)) in self.0.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            write!(f, "{plus}{}*{number}", kind.name())?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Mix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> String {
        let part = |&(kind, number): &(Kind, usize)| format!("{}*{number}", kind.name());
        mix.0.iter().map(part).collect::<Vec<_>>().join("+")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_mixes() {
        let mix: Mix = "get*2 + scan".parse().unwrap();
        assert_eq!(mix.threads().collect::<Vec<_>>(), [Kind::Get, Kind::Get, Kind::Scan]);
        assert_eq!(mix.to_string(), "get*2+scan*1");
        let two = Mix::two(Loop::Scalar);
        assert_eq!(two.to_string(), "scalar");
        for mix in [mix, two] {
            assert_eq!(String::from(mix.clone()).parse(), Ok(mix));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("put*8", "\"put\" is no kind of thread; these are: scalar, avx, get, scan"),
            ("get*x+scan", "\"x\" in \"get*x\" is no number"),
            ("get", "1 threads: from 2 to 1000"),
            ("get*0+scan*0", "0 threads"),
            ("get*18446744073709551615+scan*9", "threads: from 2 to 1000"),
            ("", "\"\" is no kind"),
        ] {
            let error = text.parse::<Mix>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
