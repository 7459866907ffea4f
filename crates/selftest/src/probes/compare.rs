//! Running programs, and comparing what they print.

use std::fs::File;
use std::io::Result;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a program has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Its exit status, or by what it was killed.
    pub status: String,
    /// That was zero.
    pub succeeded: bool,
    /// Its standard output.
    pub output: Vec<u8>,
    /// Its standard error.
    pub errors: String,
}

/// One unwinding in so many hits: an odd number, so that loops do not always meet it at the same
/// probe.
const VISIT: &str = "1009";

/// Runs a program in `place`. None: it did not end in time, or was to stop, and is killed.
///
/// # Errors
///
/// It cannot be started.
pub fn run(
    program: &Path,
    arguments: &[String],
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Printed>> {
    let [output, errors] = ["stdout", "stderr"].map(|name| program.with_extension(name));
    let mut command = Command::new(program);
    command.args(arguments).env("TORTURE_VISIT", VISIT).process_group(0);
    command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&errors)?);
    crate::torture::shimmed::launch::end_with_parent(&mut command);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let mut pause = Duration::from_micros(500);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() >= patience || stop() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(20));
    };
    let errors = String::from_utf8_lossy(&std::fs::read(errors)?).into_owned();
    Ok(Some(Printed {
        status: status.to_string(),
        succeeded: status.success(),
        output: std::fs::read(output)?,
        errors,
    }))
}

/// How `found` differs from what a plain program has printed.
pub fn difference(plain: &Printed, found: &Printed) -> Option<String> {
    if plain.output != found.output {
        let mut lines = [&plain.output, &found.output].map(|text| text.split(|&b| b == b'\n'));
        for number in 1.. {
            let [a, b] = lines.each_mut().map(Iterator::next);
            if a == b && a.is_some() {
                continue;
            }
            let shown = |line: Option<&[u8]>| {
                line.map_or("nothing".into(), |line| format!("{:?}", String::from_utf8_lossy(line)))
            };
            return Some(format!(
                "line {number}: {} instead of {}{}",
                shown(b),
                shown(a),
                ending(plain, found)
            ));
        }
    }
    let ending = ending(plain, found);
    (!ending.is_empty()).then(|| format!("the same output{ending}"))
}

/// How they end, if not in the same way.
fn ending(plain: &Printed, found: &Printed) -> String {
    if plain.status == found.status {
        return String::new();
    }
    let words = found.errors.lines().last().unwrap_or_default();
    format!("; it ends with {} instead of {} {words}", found.status, plain.status).trim_end().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(output: &str, status: &str) -> Printed {
        let succeeded = status.ends_with('0');
        Printed { status: status.into(), succeeded, output: output.into(), errors: "bad\n".into() }
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let plain = printed("a\nb\nc\n", "exit status: 0");
        assert_eq!(difference(&plain, &plain), None);
        let other = difference(&plain, &printed("a\nx\nc\n", "exit status: 0"));
        assert_eq!(other.as_deref(), Some("line 2: \"x\" instead of \"b\""));
        let short = difference(&plain, &printed("a\nb\n", "signal: 11")).unwrap();
        assert!(short.starts_with("line 3: \"\" instead of \"c\"; it ends with signal: 11"));
        let crash = difference(&plain, &printed("a\nb\nc\n", "signal: 11")).unwrap();
        assert_eq!(crash, "the same output; it ends with signal: 11 instead of exit status: 0 bad");
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("cat");
        std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
        let run = |patience, stop: bool| {
            run(&link, &["60".to_owned()], Duration::from_secs(patience), &|| stop).unwrap()
        };
        assert_eq!((run(0, false), run(50, true)), (None, None));
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/bin/echo", &link).unwrap();
        assert_eq!(run(50, false).unwrap().output, b"60\n");
    }
}
