//! How Quaver's servers learn that a thread is to stop, where both ways are compared.

use quaver::Notification;
use serde::{Deserialize, Serialize};

/// What stops a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// A signal.
    BySignals,
    /// A probe.
    AtProbes,
}

impl Told {
    /// What this program can be told by: it needs to be built with probes to stop at them.
    pub fn possible() -> &'static [Told] {
        let all = &[Told::BySignals, Told::AtProbes];
        if quaver::platform::facts().instrumented { all } else { &all[..1] }
    }

    /// The runtime's name of it.
    pub fn notification(self) -> Notification {
        match self {
            Told::BySignals => Notification::Signal,
            Told::AtProbes => Notification::Probe,
        }
    }

    /// What is called `name` where signals are sent.
    pub fn name(self, name: &str) -> String {
        match self {
            Told::BySignals => name.to_owned(),
            Told::AtProbes => format!("{name} probes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_not_usual() {
        assert_eq!(Told::BySignals.name("quaver auto"), "quaver auto");
        assert_eq!(Told::AtProbes.name("quaver auto"), "quaver auto probes");
        assert_eq!(Told::possible(), [Told::BySignals], "tests are not built with probes");
    }
}
