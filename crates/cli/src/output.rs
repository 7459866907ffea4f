//! Where results go: standard output or a file that is never half-written.
//!
//! A file is written beside its place under a temporary name and then renamed, so a full disk or a
//! kill leaves the old content or none. The temporary file disappears with an error; one that a
//! `kill -9` left behind is removed by the next write into the same directory. [`Target::check`]
//! and [`Directory::prepare`] find out *before* a long measurement whether its result can be
//! written.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// The temporary files' names begin with this.
const PREFIX: &str = ".quaver-unfinished-";

/// A temporary file of this age belongs to no running command.
const STALE: Duration = Duration::from_secs(600);

/// A place for a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// Standard output: `-`.
    Stdout,
    /// A file, replaced as a whole.
    File(PathBuf),
}

impl FromStr for Target {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" { Target::Stdout } else { Target::File(text.into()) })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Stdout => f.write_str("standard output"),
            Target::File(path) => path.display().fmt(f),
        }
    }
}

impl Target {
    /// Finds out whether a document can be written here.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the place.
    pub fn check(&self) -> Result<()> {
        let Target::File(path) = self else { return Ok(()) };
        if path.is_dir() {
            anyhow::bail!("cannot write {self}: it is a directory");
        }
        if is_special(path) {
            return Ok(());
        }
        temporary_beside(path).map(drop).with_context(|| format!("cannot write {self}"))
    }

    /// Writes `value` as indented JSON.
    ///
    /// # Errors
    ///
    /// It cannot be written; a file then keeps its old content.
    pub fn write_json(&self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string_pretty(value).context("cannot express as JSON")?;
        text.push('\n');
        self.write(&text)
    }

    /// Writes a document.
    ///
    /// # Errors
    ///
    /// It cannot be written; a file then keeps its old content.
    pub fn write(&self, text: &str) -> Result<()> {
        match self {
            Target::Stdout => print(text),
            Target::File(path) => write_file(path, text.as_bytes()),
        }
    }
}

/// Writes text to standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
///
/// Standard output refuses the text for another reason, such as a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write standard output"),
    }
}

/// Writes a whole file, or leaves it as it was.
///
/// # Errors
///
/// Names the file and the reason.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        if is_special(path) {
            return std::fs::OpenOptions::new().write(true).open(path)?.write_all(content);
        }
        let mut file = temporary_beside(path)?;
        file.write_all(content)?;
        // A disk that is full may say so only here.
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A directory for results.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// It was not there before.
    made: bool,
}

impl Directory {
    /// Makes the directory, if need be, and finds out whether files can be made in it.
    ///
    /// # Errors
    ///
    /// Names the directory and the reason.
    pub fn prepare(path: &Path) -> Result<Directory> {
        let made = !path.exists();
        std::fs::create_dir_all(path)
            .and_then(|()| temporary_beside(&path.join("any")).map(drop))
            .with_context(|| format!("cannot write into {}", path.display()))?;
        Ok(Directory { path: path.to_owned(), made })
    }

    /// The path of a file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes the directory again if it was made for nothing.
    pub fn discard(self) {
        if self.made {
            // It stays if somebody has put something into it meanwhile.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// A device or pipe, which is written to and not replaced.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

fn temporary_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;

    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    remove_stale(directory);
    tempfile::Builder::new()
        .prefix(PREFIX)
        // The umask still applies, as for any other file.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
}

fn remove_stale(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if ours && age().is_some_and(|age| age > STALE) {
            // Whoever made it may have removed it meanwhile; nothing depends on this.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_and_nothing_else_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        std::fs::write(&path, "old and longer").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(names(directory.path()), ["a.json"]);
    }

    #[test]
    fn a_full_disk_is_reported_with_the_file_s_name() {
        let error = format!("{:#}", write_file(Path::new("/dev/full"), b"text").unwrap_err());
        assert!(error.contains("/dev/full") && error.contains("space"), "{error}");
    }

    #[test]
    fn a_missing_directory_is_found_before_the_measurement() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::File(directory.path().join("no/such/file"));
        let error = format!("{:#}", target.check().unwrap_err());
        assert!(error.contains("no/such/file"), "{error}");
        assert!(Target::File(directory.path().to_owned()).check().is_err());
    }

    #[test]
    fn checking_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        Target::File(directory.path().join("result.json")).check().unwrap();
        Directory::prepare(&directory.path().join("a/b")).unwrap();
        assert_eq!(names(directory.path()), ["a"]);
        assert!(names(&directory.path().join("a/b")).is_empty());
    }

    #[test]
    fn a_file_in_the_way_of_a_directory_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = format!("{:#}", Directory::prepare(&file.join("out")).unwrap_err());
        assert!(error.contains("file/out"), "{error}");
    }

    #[test]
    fn only_a_directory_made_for_nothing_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("new");
        Directory::prepare(&path).unwrap().discard();
        assert!(!path.exists());

        Directory::prepare(parent.path()).unwrap().discard();
        assert!(parent.path().exists());

        let used = Directory::prepare(&path).unwrap();
        write_file(&used.join("a"), b"").unwrap();
        used.discard();
        assert!(path.join("a").exists());
    }

    #[test]
    fn stale_temporary_files_go_and_fresh_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join(format!("{PREFIX}old"));
        let file = std::fs::File::create(&old).unwrap();
        file.set_modified(std::time::SystemTime::now() - 2 * STALE).unwrap();
        std::fs::write(directory.path().join(format!("{PREFIX}fresh")), "").unwrap();
        write_file(&directory.path().join("a"), b"").unwrap();
        let mut left = names(directory.path());
        left.sort();
        assert_eq!(left, [format!("{PREFIX}fresh"), "a".to_owned()]);
    }
}
