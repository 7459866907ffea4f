//! Lists of CPU numbers as the kernel writes them into its files: `0-3,8,10-11`, or nothing.

pub use quaver::platform::format_cpu_list as format;

/// Reads a CPU list as the kernel writes it: a newline may follow, and the empty text is the empty
/// list.
///
/// # Errors
///
/// A message that says which part is no number or range.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    match text.trim() {
        "" => Ok(Vec::new()),
        list => quaver::platform::parse_cpu_list(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(parse("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("\n").unwrap(), [0usize; 0]);
        assert!(parse("0,x").unwrap_err().contains('x'));
    }

    #[test]
    fn format_is_the_inverse_of_parse() {
        for text in ["", "0", "0-1", "0-3,8,10-11", "1,3,5"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
    }
}
