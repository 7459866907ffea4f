//! The mix of request classes, in percent: `95/5` is 95 % GETs and 5 % SCANs.

use std::fmt;
use std::str::FromStr;

/// How many of the requests are GETs; all others are SCANs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    get: f64,
}

impl Mix {
    /// The share of GETs, 0 to 1.
    pub fn get_share(self) -> f64 {
        self.get / 100.0
    }

    /// The share of SCANs, 0 to 1.
    pub fn scan_share(self) -> f64 {
        1.0 - self.get_share()
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no mix; write the percentages of GETs and SCANs like 95/5 or \
                 99.5/0.5, together 100"
            )
        };
        let (get, scan) = text.split_once('/').ok_or_else(wrong)?;
        let get = get.trim().parse::<f64>().map_err(|_| wrong())?;
        let scan = scan.trim().parse::<f64>().map_err(|_| wrong())?;
        let valid = get >= 0.0 && scan >= 0.0 && (get + scan - 100.0).abs() < 1e-6;
        valid.then_some(Mix { get }).ok_or_else(wrong)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Six decimals hide what binary fractions add (100 - 99.9), and trailing zeros go.
        let scan = format!("{:.6}", 100.0 - self.get);
        write!(f, "{}/{}", self.get, scan.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_percentages() {
        for text in ["95/5", "99.5/0.5", "99.9/0.1", "100/0", "0/100"] {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
        }
        assert!(("99.5/0.5".parse::<Mix>().unwrap().scan_share() - 0.005).abs() < 1e-9);
    }

    #[test]
    fn refuses_what_is_not_100_together() {
        for text in ["95", "95/10", "105/-5", "a/b", "nan/nan", "/", ""] {
            assert!(text.parse::<Mix>().unwrap_err().contains("95/5"), "{text:?}");
        }
    }
}
