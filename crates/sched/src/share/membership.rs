//! What an application asks of the broker, as text.

use crate::Service;
use alloc::{
    format,
    string::{String, ToString},
};
use core::fmt;
use core::str::FromStr;

/// The largest weight of an application.
pub const MAX_SHARE_WEIGHT: u32 = 1000;

/// What an application asks of the broker: `lc` or `be`, or `be:WEIGHT`, or `queue`; each with
/// `@SOCKET` where the broker listens at another path than usual.
///
/// ```
/// use quaver_sched::{Service, share::Membership};
///
/// let m: Membership = "be:3@/run/q.sock".parse()?;
/// assert_eq!((m.service, m.weight), (Service::BestEffort, 3));
/// assert_eq!(m.socket.as_deref(), Some("/run/q.sock"));
/// assert_eq!(m.to_string(), "be:3@/run/q.sock");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Latency-critical or best-effort.
    pub service: Service,
    /// The part of what is left that a best-effort application gets, beside the weights of others.
    /// A latency-critical one's counts where the broker shares everything by weights.
    pub weight: u32,
    /// Instead of the above: its threads are in the run queue that applications of one owner have
    /// in common.
    pub common: bool,
    /// Where the broker listens; `None`: at the usual path.
    pub socket: Option<String>,
}

impl Membership {
    /// Latency-critical, at the usual broker.
    pub fn critical() -> Membership {
        Membership { service: Service::LatencyCritical, weight: 1, common: false, socket: None }
    }

    /// Best-effort with this weight, at the usual broker.
    pub fn best_effort(weight: u32) -> Membership {
        Membership { service: Service::BestEffort, weight, common: false, socket: None }
    }

    /// In the common run queue of the usual broker.
    pub fn common() -> Membership {
        Membership { common: true, ..Membership::critical() }
    }

    /// The same at the broker that listens at `socket`.
    pub fn at(self, socket: impl Into<String>) -> Membership {
        Membership { socket: Some(socket.into()), ..self }
    }
}

impl FromStr for Membership {
    type Err = String;

    fn from_str(text: &str) -> Result<Membership, String> {
        let (role, socket) = match text.split_once('@') {
            Some((_, "")) => return Err("expected the broker's socket after @".into()),
            Some((role, socket)) => (role, Some(socket.to_string())),
            None => (text, None),
        };
        if role == "queue" {
            return Ok(Membership { socket, ..Membership::common() });
        }
        let (role, weight) = match role.split_once(':') {
            Some((role, weight)) => (role, Some(weight)),
            None => (role, None),
        };
        let weight = match weight {
            None => 1,
            Some(weight) => match weight.parse() {
                Ok(weight) if (1..=MAX_SHARE_WEIGHT).contains(&weight) => weight,
                _ => return Err(format!("expected a weight from 1 to {MAX_SHARE_WEIGHT}")),
            },
        };
        let service = match role {
            "lc" => Service::LatencyCritical,
            "be" => Service::BestEffort,
            _ => return Err("expected lc or be, :WEIGHT and @SOCKET if need be; or queue".into()),
        };
        Ok(Membership { service, weight, common: false, socket })
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            _ if self.common => f.write_str("queue")?,
            Service::LatencyCritical => f.write_str("lc")?,
            Service::BestEffort => f.write_str("be")?,
        }
        if self.weight != 1 {
            write!(f, ":{}", self.weight)?;
        }
        self.socket.iter().try_for_each(|socket| write!(f, "@{socket}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for text in [
            "lc",
            "lc:2",
            "be",
            "be:3",
            "lc@/run/x.sock",
            "be:1000@a@b",
            "be@:",
            "queue",
            "queue@/x",
        ] {
            assert_eq!(text.parse::<Membership>().unwrap().to_string(), text);
        }
        let m = Membership::best_effort(3).at("/x");
        assert_eq!("be:3@/x".parse(), Ok(m));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Membership>().unwrap_err();
        assert!(error("").contains("lc or be"));
        assert!(error("vip").contains("lc or be"));
        assert!(error("queue:2").contains("queue"));
        assert!(error("be:0").contains("1 to 1000"));
        assert!(error("be:1001").contains("1 to 1000"));
        assert!(error("be:x").contains("weight"));
        assert!(error("lc@").contains("socket"));
    }
}
