//! The loads of a sweep, in percent: `10..95:5`, `1,5,20..80:20`.

/// The lowest and the highest load that is accepted, in percent of the workers' capacity.
pub const RANGE: std::ops::RangeInclusive<f64> = 0.1..=200.0;

/// More points than this in one sweep are taken for a slip.
const MAX_POINTS: usize = 200;

/// Reads numbers and ranges `first..last:step` (both ends included), sorted and without duplicates.
///
/// # Errors
///
/// A message that names the part and the accepted range.
pub fn parse(text: &str) -> Result<Vec<f64>, String> {
    let mut loads = Vec::new();
    for part in text.split(',') {
        let Some((first, rest)) = part.split_once("..") else {
            loads.push(percent(part, part)?);
            continue;
        };
        let (last, step) = rest
            .split_once(':')
            .ok_or_else(|| format!("'{part}' has no step; write it like 10..95:5"))?;
        let (first, last) = (percent(first, part)?, percent(last, part)?);
        let step = step.trim().parse::<f64>().ok().filter(|s| *s >= 0.1).ok_or_else(|| {
            format!("'{part}': the step must be a number of percent, at least 0.1")
        })?;
        if first > last {
            return Err(format!("'{part}' runs backwards"));
        }
        let count = ((last - first) / step + 1e-9).floor() as usize;
        loads.extend((0..=count.min(MAX_POINTS)).map(|i| first + step * i as f64));
    }
    // A tenth of a percent is the finest difference that the range admits.
    loads.iter_mut().for_each(|load| *load = (*load * 10.0).round() / 10.0);
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    if loads.len() > MAX_POINTS {
        return Err(format!("more than {MAX_POINTS} loads in one sweep"));
    }
    Ok(loads)
}

fn percent(text: &str, part: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').parse::<f64>();
    number.ok().filter(|load| RANGE.contains(load)).ok_or_else(|| {
        format!(
            "'{part}': a load is a percentage of the workers' capacity, {} to {}",
            RANGE.start(),
            RANGE.end()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ranges_with_both_ends_and_single_loads() {
        assert_eq!(parse("10..30:10").unwrap(), [10.0, 20.0, 30.0]);
        assert_eq!(parse("10..94:40").unwrap(), [10.0, 50.0, 90.0]);
        assert_eq!(parse("50,1,0.5%").unwrap(), [0.5, 1.0, 50.0]);
        assert_eq!(parse("1..2:0.5,2").unwrap(), [1.0, 1.5, 2.0]);
        assert_eq!(parse("0.1..0.3:0.1").unwrap(), [0.1, 0.2, 0.3]);
    }

    #[test]
    fn names_the_part_that_is_wrong() {
        for (text, word) in [
            ("0", "0.1 to 200"),
            ("201", "0.1 to 200"),
            ("nan", "0.1 to 200"),
            ("10..95", "step"),
            ("10..95:0", "step"),
            ("10..95:nan", "step"),
            ("95..10:5", "backwards"),
            ("", "percentage"),
            ("0.1..200:0.1", "200 loads"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }
}
