//! rustc's assembly text, for GNU as.
//!
//! LLVM names the file of line numbers as a folder and a file in it, which GNU as takes only where
//! the numbers are of DWARF 5. From version 22 it has a directive of its own for the alignment of
//! functions:
//!
//! ```text
//!   .file 1 "/rustc/1234" "library/alloc/src/vec.rs"     .prefalign 4, .Lfunc_end0, nop
//!   .file 1 "/rustc/1234/library/alloc/src/vec.rs"       .p2align 4
//! ```

use std::borrow::Cow;

/// The text as GNU as takes it.
pub fn for_gnu(text: &str) -> Cow<'_, str> {
    // A file 0 is what DWARF 5 has.
    let joins = !text.contains("\n\t.file\t0 ");
    let translated = |line: &str| joins.then(|| joined(line)).flatten().or_else(|| aligned(line));
    if !text.lines().any(|line| line.starts_with("\t.file\t") || line.starts_with(PREFERRED)) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match translated(line) {
            Some(line) => result.push_str(&line),
            None => result.push_str(line),
        }
    }
    Cow::Owned(result)
}

/// LLVM's directive for an alignment that a short function does without.
const PREFERRED: &str = "\t.prefalign\t";

/// It as what all assemblers know; none for another line.
fn aligned(line: &str) -> Option<String> {
    let log2 = line.strip_prefix(PREFERRED)?.split(',').next()?.trim();
    log2.parse::<u32>().ok()?;
    Some(format!("\t.p2align\t{log2}\n"))
}

/// A directive with folder and file as one with a path; none where it is not of that form.
fn joined(line: &str) -> Option<String> {
    let rest = line.strip_prefix("\t.file\t")?;
    let (number, names) = rest.trim_end().split_once(' ')?;
    let (folder, file) = names.strip_prefix('"')?.strip_suffix('"')?.split_once("\" \"")?;
    number.parse::<u32>().ok()?;
    let path = if file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") };
    Some(format!("\t.file\t{number} \"{path}\"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_are_joined() {
        let given = "\t.file\t\"a.1-cgu.0\"\n\t.file\t1 \"/r\" \"a/b c.rs\"\n\t.file\t2 \"/r\" \
                     \"/x.rs\"\n\t.file\t3 \"y.rs\"\n\tret\n";
        let wanted = "\t.file\t\"a.1-cgu.0\"\n\t.file\t1 \"/r/a/b c.rs\"\n\t.file\t2 \"/x.rs\"\n\
                      \t.file\t3 \"y.rs\"\n\tret\n";
        assert_eq!(for_gnu(given), wanted);
        let dwarf5 = "\n\t.file\t0 \"/r\" \"a.rs\" md5 0x12\n\t.file\t1 \"/r\" \"b.rs\" md5 0x3\n";
        assert_eq!(for_gnu(dwarf5), dwarf5);
    }

    #[test]
    fn functions_are_aligned_by_what_gnu_as_knows() {
        let dwarf5 = "\n\t.file\t0 \"/r\" \"a.rs\" md5 0x12\n";
        let given = format!("{dwarf5}\t.prefalign\t4, .Lend, nop\nf:\n\t.prefalign\tx\n");
        let wanted = format!("{dwarf5}\t.p2align\t4\nf:\n\t.prefalign\tx\n");
        assert_eq!(for_gnu(&given), wanted);
        assert_eq!(for_gnu("\tret\n"), "\tret\n");
    }
}
