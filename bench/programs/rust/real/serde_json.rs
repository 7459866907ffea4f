//! The crate serde_json: random documents are written, read, changed and written again.
#[path = "../common.rs"]
mod common;
use common::{Rng, at_least, fail, finish, mix, start};
use serde_json::{Map, Number, Value};

const DOCUMENTS: usize = 8;
const DEPTH: usize = 6;

/// What documents hold.
#[derive(Default, PartialEq, Debug)]
struct Held {
    integers: i64,
    fractions: u64,
    letters: usize,
    trues: usize,
    objects: usize,
}

fn random_text(rng: &mut Rng) -> String {
    const PARTS: [&str; 8] =
        ["alpha", "\"quoted\"", "tab\t", "é", "back\\slash", "\n", "7", "漢字"];
    (0..rng.below(6)).map(|_| PARTS[rng.below(8) as usize]).collect()
}

fn random(rng: &mut Rng, depth: usize, held: &mut Held) -> Value {
    match rng.below(if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => {
            let yes = rng.below(2) == 1;
            held.trues += usize::from(yes);
            Value::Bool(yes)
        }
        2 => {
            let integer = rng.next() as i32;
            held.integers += i64::from(integer);
            Value::from(integer)
        }
        3 => {
            // Of few digits: others may come back changed in their last bit.
            let fraction = f64::from(rng.below(2_000_000)) / 64.0 - 10000.0;
            held.fractions ^= fraction.to_bits();
            Number::from_f64(fraction).map_or(Value::Null, Value::Number)
        }
        4 => {
            let text = random_text(rng);
            held.letters += text.chars().count();
            Value::String(text)
        }
        5 | 6 => (0..rng.below(12)).map(|_| random(rng, depth - 1, held)).collect(),
        _ => {
            held.objects += 1;
            let mut object = Map::new();
            for i in 0..rng.below(12) {
                object.insert(format!("key {i}{}", random_text(rng)), random(rng, depth - 1, held));
            }
            Value::Object(object)
        }
    }
}

fn count(value: &Value, held: &mut Held) {
    match value {
        Value::Null => {}
        Value::Bool(yes) => held.trues += usize::from(*yes),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => held.integers += integer,
            None => held.fractions ^= number.as_f64().unwrap_or_default().to_bits(),
        },
        Value::String(text) => held.letters += text.chars().count(),
        Value::Array(values) => values.iter().for_each(|value| count(value, held)),
        Value::Object(object) => {
            held.objects += 1;
            object.values().for_each(|value| count(value, held));
        }
    }
}

fn must<T>(result: serde_json::Result<T>) -> T {
    result.unwrap_or_else(|error| fail!("serde_json: {error}"))
}

fn main() {
    let rounds = at_least(1, 30.0 * start());
    let (mut rng, mut wanted, mut sum) = (Rng(33), Held::default(), 0);
    let mut documents = Vec::new();
    for _ in 0..DOCUMENTS {
        let values = (0..20).map(|_| random(&mut rng, DEPTH, &mut wanted)).collect();
        documents.push(Value::Array(values).to_string());
    }
    for round in 0..rounds {
        let mut held = Held::default();
        for text in &mut documents {
            let value: Value = must(serde_json::from_str(text));
            count(&value, &mut held);
            let pretty = must(serde_json::to_string_pretty(&value));
            let mut again: Value = must(serde_json::from_str(&pretty));
            if again != value || value.to_string() != *text {
                fail!("round {round}: a document changed");
            }
            // The next round's documents are others.
            if let Value::Array(values) = &mut again {
                values.rotate_left(1);
            }
            *text = again.to_string();
            sum = mix(sum, text.len() as u64);
        }
        if held != wanted {
            fail!("round {round}: {held:?} instead of {wanted:?}");
        }
    }
    finish("serde_json", sum);
}
