//! The answer of a child: one line of JSON on its standard output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Elapsed;

/// One measurement.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Operations done.
    #[serde(default)]
    pub ops: u64,
    /// CPU time of the whole process for them, in ns.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Time on the wall for them, in ns.
    #[serde(default)]
    pub wall_ns: u64,
    /// What was measured, by name; the unit is part of the name.
    pub metrics: BTreeMap<String, f64>,
    /// What a reader of the numbers must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The name of the metric "CPU time of the process for one operation".
pub const CPU_NS_PER_OP: &str = "cpu_ns_per_op";
/// The name of the metric "time on the wall for one operation".
pub const WALL_NS_PER_OP: &str = "wall_ns_per_op";

impl Sample {
    /// A measurement of `ops` operations, with the metrics [`CPU_NS_PER_OP`] and
    /// [`WALL_NS_PER_OP`].
    ///
    /// # Panics
    ///
    /// If `ops` is 0.
    pub fn of_ops(ops: u64, elapsed: Elapsed) -> Self {
        assert!(ops > 0, "a measurement of no operations");
        let Elapsed { cpu_ns, wall_ns } = elapsed;
        Self { ops, cpu_ns, wall_ns, ..Self::default() }
            .with(CPU_NS_PER_OP, cpu_ns as f64 / ops as f64)
            .with(WALL_NS_PER_OP, wall_ns as f64 / ops as f64)
    }

    /// Adds a metric. A value that is no number is left out: JSON could not carry it.
    pub fn with(mut self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.metrics.insert(name.to_owned(), value);
        }
        self
    }

    /// Adds a note.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// What a child has to say.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It measured.
    Sample(Sample),
    /// This implementation cannot do that, and why. No error.
    Unsupported {
        /// The reason, for people.
        unsupported: String,
    },
    /// It tried and failed.
    Failed {
        /// The reason, for people.
        error: String,
    },
}

impl Outcome {
    /// The implementation does not offer what was asked.
    pub fn unsupported(why: impl Into<String>) -> Self {
        Self::Unsupported { unsupported: why.into() }
    }

    /// The measurement failed.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed { error: why.into() }
    }

    /// Prints the outcome as the child's answer.
    pub fn print(&self) {
        // Numbers are finite and keys are strings, so this cannot fail.
        println!("{}", serde_json::to_string(self).expect("an outcome is valid JSON"));
    }

    /// Reads a child's standard output: its last line that is not empty.
    ///
    /// # Errors
    ///
    /// Says what was found instead of an outcome.
    pub fn parse(output: &str) -> Result<Self, String> {
        let line = output.lines().rev().find(|line| !line.trim().is_empty());
        let line = line.ok_or("it printed nothing")?;
        serde_json::from_str(line)
            .map_err(|error| format!("it printed {line:?}, which is no outcome ({error})"))
    }
}

impl From<Sample> for Outcome {
    fn from(sample: Sample) -> Self {
        Self::Sample(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        Sample::of_ops(4, Elapsed { cpu_ns: 100, wall_ns: 200 }).note("two clocks")
    }

    #[test]
    fn outcomes_survive_the_trip() {
        for outcome in
            [sample().into(), Outcome::unsupported("no such thing"), Outcome::failed("it broke")]
        {
            let line = serde_json::to_string(&outcome).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(Outcome::parse(&format!("noise\n{line}\n\n")).unwrap(), outcome);
        }
    }

    #[test]
    fn per_op_metrics_are_quotients() {
        assert_eq!(sample().metrics[CPU_NS_PER_OP], 25.0);
        assert_eq!(sample().metrics[WALL_NS_PER_OP], 50.0);
    }

    #[test]
    fn values_that_json_cannot_carry_are_left_out() {
        let sample = Sample::default().with("bad", f64::NAN).with("good", 1.0);
        assert_eq!(sample.metrics.keys().collect::<Vec<_>>(), ["good"]);
    }

    #[test]
    fn short_answers_are_accepted() {
        let outcome = Outcome::parse(r#"{"metrics":{"x":1.5}}"#).unwrap();
        assert_eq!(outcome, Sample::default().with("x", 1.5).into());
    }

    #[test]
    fn other_output_is_an_error_that_shows_it() {
        assert!(Outcome::parse("").unwrap_err().contains("nothing"));
        assert!(Outcome::parse("panic!\n").unwrap_err().contains("panic!"));
        assert!(Outcome::parse("{}").unwrap_err().contains("{}"));
    }
}
