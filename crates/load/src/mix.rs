//! What requests are sent: classes, their shares and their service times.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::error::{Spec, SpecError};
use crate::random::{Random, Uniform as _};
use crate::service::ServiceTime;
use crate::units;

/// More classes than anyone compares; more are a mistake, such as a trace whose second column is no
/// class.
pub(crate) const MAX_CLASSES: usize = 1024;

/// The characters of a class name, for messages.
pub(crate) const NAME_RULE: &str = "a class name of 1 to 64 letters, digits, '_', '-' and '.'";

/// A class of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name: 1 to 64 ASCII letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Its share of the requests is this divided by the sum over all classes. Not negative; with 0
    /// it is never sent.
    pub weight: f64,
    /// How long its requests take to serve; `None` when the generator need not know.
    pub service: Option<ServiceTime>,
}

/// A mix of request classes.
///
/// Parsed from a list `name[:weight][:service]`, separated by commas: `get:95,scan:5`, or
/// `short:99.5%:fixed=4us,long:0.5%:fixed=10ms`. Weights are relative, or all in percent and then
/// add up to 100. A class without a weight has weight 1. Service times are described at
/// [`ServiceTime`].
///
/// ```
/// let mix: quaver_load::Mix = "short:99.5%:fixed=4us,long:0.5%:fixed=10ms".parse().unwrap();
/// assert_eq!(mix.mean_service_ns(), Some(0.995 * 4e3 + 0.005 * 10e6));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    classes: Vec<Class>,
    /// The share of the classes up to and with this one; exactly 1 from the last one on that has a
    /// weight.
    cumulative: Vec<f64>,
}

/// Why classes do not make a mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// There is none, or too many.
    #[error("{0} classes: expected 1 to {MAX_CLASSES}")]
    Count(usize),
    /// A name has other characters or another length.
    #[error("class {0:?}: expected {NAME_RULE}")]
    Name(String),
    /// Two classes have the same name.
    #[error("class {0:?} is there twice: expected different names")]
    Twice(String),
    /// A weight is negative or no number.
    #[error("class {0:?}: expected a weight that is 0 or above, and finite")]
    Weight(String),
    /// No class has a weight.
    #[error("all weights are 0: expected one above 0")]
    NoWeight,
    /// A service time has an impossible parameter.
    #[error("class {0:?}: expected {1}")]
    Service(String, &'static str),
}

impl Mix {
    /// A mix of these classes.
    ///
    /// # Errors
    ///
    /// When there is no class or more than 1024, a name is malformed or used twice, a weight is
    /// negative or not finite, all weights are 0, or a service time is 0 or has parameters out of
    /// range.
    pub fn new(classes: Vec<Class>) -> Result<Self, MixError> {
        if classes.is_empty() || classes.len() > MAX_CLASSES {
            return Err(MixError::Count(classes.len()));
        }
        let mut names = HashSet::new();
        for Class { name, weight, service } in &classes {
            if !is_name(name) {
                return Err(MixError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(MixError::Twice(name.clone()));
            }
            if !(weight.is_finite() && *weight >= 0.0) {
                return Err(MixError::Weight(name.clone()));
            }
            if let Some(problem) = service.and_then(|s| s.problem()) {
                return Err(MixError::Service(name.clone(), problem));
            }
        }
        // Divided by the largest first, so that no sum of finite weights overflows.
        let largest = classes.iter().fold(0.0, |max, c| c.weight.max(max));
        let Some(last) = classes.iter().rposition(|c| c.weight > 0.0) else {
            return Err(MixError::NoWeight);
        };
        let total: f64 = classes.iter().map(|c| c.weight / largest).sum();
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = classes
            .iter()
            .map(|class| {
                sum += class.weight / largest;
                sum / total
            })
            .collect();
        cumulative[last..].fill(1.0);
        Ok(Self { classes, cumulative })
    }

    /// The classes, in the order of their indices.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The share of a class, from 0 to 1.
    ///
    /// # Panics
    ///
    /// When there is no such class.
    pub fn share(&self, class: usize) -> f64 {
        let before = if class == 0 { 0.0 } else { self.cumulative[class - 1] };
        self.cumulative[class] - before
    }

    /// The mean service time of a request in nanoseconds; `None` when a class that is sent has no
    /// service time.
    pub fn mean_service_ns(&self) -> Option<f64> {
        let sent = self.classes.iter().filter(|class| class.weight > 0.0);
        let (mut total, mut weights) = (0.0, 0.0);
        for class in sent {
            total += class.weight * class.service?.mean_ns();
            weights += class.weight;
        }
        Some(total / weights)
    }

    /// The rate in requests a second that keeps `workers` busy without pause: load 1.0 of a sweep.
    /// `None` as in [`mean_service_ns`](Self::mean_service_ns).
    pub fn capacity(&self, workers: usize) -> Option<f64> {
        self.mean_service_ns().map(|mean| workers as f64 * 1e9 / mean)
    }

    /// Draws a class.
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        let unit = random.unit();
        // `unit` is below 1 and the last cumulative share is 1, so there is such a class; one
        // without weight has the same cumulative share as its predecessor and is never the first
        // above `unit`.
        self.cumulative.partition_point(|&share| share <= unit)
    }
}

/// May this be the name of a class?
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, class) in self.classes.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", class.name, class.weight)?;
            if let Some(service) = class.service {
                write!(f, ":{service}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Mix {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let spec = Spec::new("request mix", text);
        let mut classes = Vec::new();
        let mut names = HashSet::new();
        let mut in_percent = None;
        for piece in text.split(',').map(str::trim) {
            let mut parts = piece.splitn(3, ':');
            let name = parts.next().unwrap_or_default();
            if !is_name(name) {
                return Err(spec.error(name, NAME_RULE));
            }
            if !names.insert(name) {
                return Err(spec.error(name, "a name that no other class has"));
            }
            let (weight, service) = match (parts.next(), parts.next()) {
                (Some(service), None) if service.contains('=') => (None, Some(service)),
                (weight, service) => (weight, service),
            };
            let percent = weight.is_some_and(|weight| weight.ends_with('%'));
            if *in_percent.get_or_insert(percent) != percent {
                let expected = "weights that are all in percent or all without";
                return Err(spec.error(weight.unwrap_or(name), expected));
            }
            let weight = match weight {
                Some(weight) => {
                    let digits = weight.strip_suffix('%').unwrap_or(weight);
                    units::number(&spec, digits, "a weight such as 95 or 99.5%")?
                }
                None => 1.0,
            };
            let service = service.map(|piece| ServiceTime::parse(&spec, piece)).transpose()?;
            classes.push(Class { name: name.to_owned(), weight, service });
        }
        let total: f64 = classes.iter().map(|class| class.weight).sum();
        if in_percent == Some(true) && (total - 100.0).abs() > 0.01 {
            let expected = "percentages that add up to 100";
            return Err(spec.error_found(text, expected, format!("a sum of {total}")));
        }
        // What is left to go wrong concerns the whole list.
        Self::new(classes).map_err(|error| {
            spec.error_found(text, "a usable list of classes", format!("a problem: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn texts_are_understood() {
        let mix: Mix = "short:99.5%:fixed=4us, long:0.5%:fixed=10ms".parse().unwrap();
        assert_eq!(mix.classes()[0].name, "short");
        assert_eq!(mix.classes()[0].weight, 99.5);
        assert_eq!(mix.classes()[1].service, Some(ServiceTime::Fixed { ns: 10_000_000 }));
        assert!((mix.share(1) - 0.005).abs() < 1e-12);

        let mix: Mix = "get:95,scan:5".parse().unwrap();
        assert_eq!(mix.mean_service_ns(), None);
        let mix: Mix = "only".parse().unwrap();
        assert_eq!(mix.share(0), 1.0);

        let text = "a:1:fixed=1us,b:2:exp=2us,c:3:lognormal=3us/1.5,d:4:uniform=1us..9us,\
                    e:0.5:bimodal=99.5%/500ns/500us";
        let mix: Mix = text.parse().unwrap();
        assert_eq!(mix.to_string(), text);
        let mix: Mix = "a:exp=2us".parse().unwrap();
        assert_eq!(mix.classes()[0].service, Some(ServiceTime::Exponential { mean_ns: 2_000 }));
    }

    #[test]
    fn errors_point_at_the_piece() {
        for (text, column, part) in [
            ("", 1, "class name"),
            ("get:95,", 8, "class name"),
            ("get:95,sc an:5", 8, "class name"),
            ("get:95,scan:x", 13, "a weight such as 95"),
            ("get:95,scan:", 13, "a weight such as 95"),
            ("get:-95", 5, "a weight such as 95"),
            ("get:nan", 5, "a weight such as 95"),
            ("get:95,get:5", 8, "no other class"),
            ("get:95%,scan:5", 14, "all in percent"),
            ("get:95%,scan", 9, "all in percent"),
            ("get:95%,scan:6%", 1, "sum of 101"),
            ("get:0,scan:0", 1, "all weights are 0"),
            ("get:1:gauss=4us", 7, "lognormal=MEAN/SIGMA"),
            ("get:1:fixed", 7, "duration"),
            ("get:1:fixed=", 13, "duration"),
            ("get:1:fixed=0us", 13, "above 0"),
            ("get:1:lognormal=4us", 17, "MEAN/SIGMA"),
            ("get:1:lognormal=4us/11", 17, "0 to 10"),
            ("get:1:uniform=9us..1us", 15, "not below"),
            ("get:1:bimodal=99.5/1us/2us", 15, "SHARE%"),
            ("get:1:bimodal=101%/1us/2us", 15, "0% to 100%"),
        ] {
            let error = text.parse::<Mix>().expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
            if text != "get:1:fixed" {
                assert_eq!(error.column(), column, "{error}");
            }
        }
    }

    #[test]
    fn classes_in_code_are_checked_too() {
        let class = |name: &str, weight| Class { name: name.to_owned(), weight, service: None };
        assert_eq!(Mix::new(vec![]), Err(MixError::Count(0)));
        assert_eq!(Mix::new(vec![class("", 1.0)]), Err(MixError::Name(String::new())));
        assert_eq!(Mix::new(vec![class("a", f64::NAN)]), Err(MixError::Weight("a".to_owned())));
        assert_eq!(
            Mix::new(vec![class("a", 1.0), class("a", 1.0)]),
            Err(MixError::Twice("a".to_owned()))
        );
        let service = Some(ServiceTime::Lognormal { mean_ns: 1, sigma: f64::NAN });
        let odd = Class { service, ..class("a", 1.0) };
        assert!(matches!(Mix::new(vec![odd]), Err(MixError::Service(..))));
    }

    #[test]
    fn a_class_without_weight_is_never_picked_and_huge_weights_do_not_overflow() {
        let mix: Mix = "a:0,b:1,c:0,d:1,e:0".parse().unwrap();
        let mut random = Random::new(1, Stream::Class);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            counts[mix.pick(&mut random)] += 1;
        }
        assert_eq!([counts[0], counts[2], counts[4]], [0, 0, 0]);
        assert!(counts[1] > 4_500 && counts[3] > 4_500, "{counts:?}");

        let class = |name: &str| Class { name: name.to_owned(), weight: f64::MAX, service: None };
        let mix = Mix::new(vec![class("a"), class("b")]).unwrap();
        assert_eq!(mix.share(0), 0.5);
    }
}
