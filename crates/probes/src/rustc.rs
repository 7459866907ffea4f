//! rustc's assembly text, for GNU as.
//!
//! LLVM names the file of line numbers as a folder and a file in it, which GNU as takes only where
//! the numbers are of DWARF 5:
//!
//! ```text
//!   .file 1 "/rustc/1234" "library/alloc/src/vec.rs"
//!   .file 1 "/rustc/1234/library/alloc/src/vec.rs"
//! ```

use std::borrow::Cow;

/// The text as GNU as takes it.
pub fn for_gnu(text: &str) -> Cow<'_, str> {
    // A file 0 is what DWARF 5 has.
    let is_file = |line: &str| line.starts_with("\t.file\t");
    if text.contains("\n\t.file\t0 ") || !text.lines().any(is_file) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match joined(line) {
            Some(line) => result.push_str(&line),
            None => result.push_str(line),
        }
    }
    Cow::Owned(result)
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
}
