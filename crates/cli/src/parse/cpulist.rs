//! Lists of CPU numbers as the kernel writes them: `0-3,8,10-11`.

/// CPUs beyond this number are refused: it is far above what Linux can be built for (8192).
const MAX_CPU: usize = 65_535;

/// Reads a CPU list; the result is sorted and has no duplicates.
///
/// The empty string is the empty list, as in the kernel's files.
///
/// # Errors
///
/// A message that says which part is no number or range.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    let text = text.trim();
    if text.is_empty() {
        return Ok(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first, part)?, number(last, part)?);
        if first > last {
            return Err(format!("'{part}' runs backwards; write '{last}-{first}'"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn number(text: &str, part: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
        Ok(_) => Err(format!("'{part}': CPU numbers end at {MAX_CPU}")),
        Err(_) => Err(format!("'{part}' is no CPU number or range; write a list like 0-3,8")),
    }
}

/// Writes a sorted list the way [`parse`] reads it, with ranges.
pub fn format(cpus: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let [first, ..] = rest {
        let run = rest.iter().enumerate().take_while(|&(i, cpu)| *cpu == first + i).count();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if run > 1 {
            text.push_str(&format!("-{}", rest[run - 1]));
        }
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_ranges_and_the_kernels_newline() {
        assert_eq!(parse("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("5").unwrap(), [5]);
        assert_eq!(parse("").unwrap(), [0usize; 0]);
    }

    #[test]
    fn sorts_and_merges() {
        assert_eq!(parse("3,1-2,2").unwrap(), [1, 2, 3]);
    }

    #[test]
    fn names_the_part_that_is_wrong() {
        assert!(parse("0,x").unwrap_err().contains("'x'"));
        assert!(parse("3-1").unwrap_err().contains("1-3"));
        assert!(parse("0-").unwrap_err().contains("'0-'"));
        assert!(parse("0-99999999999").unwrap_err().contains("65535"));
    }

    #[test]
    fn format_is_the_inverse_of_parse() {
        for text in ["", "0", "0-1", "0-3,8,10-11", "1,3,5"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
    }
}
