//! Values as they are read, each with an error that says what was expected.

use std::fmt;
use std::str::FromStr;

use quaver_load::Slo;
use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::{Named, Noise, entry};
use crate::costs::{Costs, Mechanism, System};

pub(super) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

pub(super) fn maybe_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    text(deserializer).map(Some)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = quaver_sched::parse_duration(&text).map_err(de::Error::custom)?;
    u64::try_from(duration.as_nanos()).map_err(de::Error::custom)
}

pub(super) fn maybe_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    duration(deserializer).map(Some)
}

/// One table, or an array of them.
pub(super) fn one_or_several<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Noise>, D::Error> {
    struct Tables;
    impl<'de> de::Visitor<'de> for Tables {
        type Value = Vec<Noise>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table with `every` and `lasts`, or several")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Vec<Noise>, A::Error> {
            Noise::deserialize(de::value::MapAccessDeserializer::new(map)).map(|noise| vec![noise])
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Vec<Noise>, A::Error> {
            Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))
        }
    }
    deserializer.deserialize_any(Tables)
}

pub(super) fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    allowed: impl Fn(f64) -> bool,
    what: &str,
) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if !value.is_finite() || !allowed(value) {
        return Err(de::Error::custom(format!("{value} is not {what}")));
    }
    Ok(value)
}

pub(super) fn positive<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    number(deserializer, |value| value > 0.0, "a number above 0").map(Some)
}

pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, |value| (0.0..=0.9).contains(&value), "a share from 0 to 0.9").map(Some)
}

pub(super) fn whole<'de, D: Deserializer<'de>>(
    deserializer: D,
    most: i64,
) -> Result<u64, D::Error> {
    let value = i64::deserialize(deserializer)?;
    if !(1..=most).contains(&value) {
        return Err(de::Error::custom(format!("{value} is not a whole number from 1 to {most}")));
    }
    Ok(value as u64)
}

pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole(deserializer, 10_000_000_000).map(Some)
}

pub(super) fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole(deserializer, 100).map(Some)
}

pub(super) fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    whole(deserializer, 100_000).map(|workers| workers as usize)
}

pub(super) fn objectives<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slo>, D::Error> {
    let slo: Vec<Slo> = texts(deserializer)?;
    if slo.is_empty() {
        return Err(de::Error::custom("at least one objective is needed, such as p99<=200us"));
    }
    Ok(slo)
}

/// One text, or a list of them.
pub(super) fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    };
    texts.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

pub(super) fn durations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| match quaver_sched::parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err(de::Error::custom("a quantum of 0")),
        Ok(duration) => u64::try_from(duration.as_nanos()).map_err(de::Error::custom),
        Err(error) => Err(de::Error::custom(error)),
    };
    texts.iter().map(parse).collect()
}

pub(super) fn mechanisms<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Named<Mechanism>>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names
        .iter()
        .map(|name| entry(&Costs::built_in().mechanism, name).map_err(de::Error::custom))
        .collect()
}

pub(super) fn mechanism<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Named<Mechanism>, D::Error> {
    let name = String::deserialize(deserializer)?;
    entry(&Costs::built_in().mechanism, &name).map_err(de::Error::custom)
}

pub(super) fn system<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Named<System>, D::Error> {
    let name = String::deserialize(deserializer)?;
    entry(&Costs::built_in().system, &name).map_err(de::Error::custom)
}
