//! Analyses of a price history, as in Aspen's second benchmark (4.1.2): two short kinds of
//! requests, a medium one and two long ones, each a fifth of the load.
//!
//! | kind | request | what it computes | on Aspen's machine |
//! |---|---|---|---|
//! | 1 | `decay` | exponentially decaying average of the closing price | 5 µs |
//! | 2 | `ad` | accumulation and distribution of the volume | 7 µs |
//! | 3 | `rmv` | rolling mid value: half of highest and lowest price in a window | 28 µs |
//! | 4 | `ppo` | percentage price oscillator with its signal line | 75 µs |
//! | 5 | `kmeans` | clusters of the days by price and volume | 250 µs |
//!
//! Each is a plain loop over columns. [`calibrate`](calibrate()) finds out over how many rows it
//! takes as long here as there. There are no threads, and no C functions are replaced: any server
//! can do this work, Quaver's and those that it is compared with.

mod calibrate;
mod history;
mod kernels;

use std::fmt;
use std::str::FromStr;

pub use calibrate::calibrate;
use history::History;

/// How many kinds of requests there are.
pub const KINDS: usize = 5;

/// Their names, in the order of their numbers.
pub const NAMES: [&str; KINDS] = ["decay", "ad", "rmv", "ppo", "kmeans"];

/// How long each takes, in microseconds.
pub const MICROSECONDS: [u64; KINDS] = [5, 7, 28, 75, 250];

/// Over how many rows each request computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows(pub [usize; KINDS]);

/// Rows that there are.
pub const MAX_ROWS: usize = 1 << 20;

/// A text is no list of rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} are no rows: expected five numbers from 16 to {MAX_ROWS} for decay, ad, rmv, ppo and \
     kmeans, separated by commas"
)]
pub struct NoRows(String);

impl FromStr for Rows {
    type Err = NoRows;

    fn from_str(text: &str) -> Result<Rows, NoRows> {
        let wrong = || NoRows(text.to_owned());
        let parsed: Vec<usize> = text
            .split(',')
            .map(|part| part.trim().parse().ok().filter(|rows| (16..=MAX_ROWS).contains(rows)))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        parsed.try_into().map(Rows).map_err(|_| wrong())
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rows) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{rows}")?;
        }
        Ok(())
    }
}

/// A history, and how much of it each request reads.
pub struct Analytics {
    history: History,
    rows: Rows,
}

impl Analytics {
    /// Over a history that is the same everywhere.
    pub fn new(rows: Rows) -> Analytics {
        let most = rows.0.iter().copied().max().unwrap_or_default();
        Analytics { history: History::new(most), rows }
    }

    /// Requests take as long as on Aspen's machine. Measures for a tenth of a second.
    pub fn calibrated() -> Analytics {
        Analytics::new(calibrate())
    }

    /// Over how many rows each request computes.
    pub fn rows(&self) -> Rows {
        self.rows
    }

    /// Computes the analysis of this kind, from 0: a number that depends on all its results.
    pub fn compute(&self, kind: usize) -> Option<f64> {
        let rows = *self.rows.0.get(kind)?;
        Some(kernels::KERNELS[kind](&self.history, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_five_analyses() {
        let analytics = Analytics::new(Rows([64; KINDS]));
        assert!((0..KINDS).all(|kind| analytics.compute(kind).is_some()));
        assert_eq!(analytics.compute(KINDS), None);
    }

    #[test]
    fn rows_are_five_numbers() {
        let rows: Rows = "100,200, 300,400,500".parse().unwrap();
        assert_eq!(rows, Rows([100, 200, 300, 400, 500]));
        assert_eq!(rows.to_string().parse(), Ok(rows));
        for text in ["", "1,2,3,4,5", "100,200,300,400", "100,100,100,100,100,100", "a,b,c,d,e"] {
            let error = text.parse::<Rows>().unwrap_err().to_string();
            assert!(error.contains("five numbers"), "{error}");
        }
    }
}
