//! Finding the programs of other thread libraries.

mod go;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that has the peers written in Rust.
const PROGRAM: &str = "quaver-bench-peers";

/// Names the program above when it is somewhere else.
const VARIABLE: &str = "QUAVER_BENCH_PEERS";

/// A thread library to compare with.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// The name in rows.
    pub name: String,
    /// The program and its first arguments; a spec in JSON is the last one.
    pub command: Vec<OsString>,
}

/// The peers that are here, and notes about those that are not.
#[derive(Debug, Default)]
pub struct Peers {
    /// In the order of the tables.
    pub found: Vec<Peer>,
    /// What is not here and how to get it; and versions.
    pub notes: Vec<String>,
}

impl Peers {
    /// Looks for peers, and builds the Go program when there is a Go tool chain. `say` is told what
    /// takes long.
    pub fn find(say: impl Fn(&str)) -> Self {
        let mut peers = Self::default();
        match find_program().and_then(|path| list(&path)) {
            Ok(found) => peers.found.extend(found),
            Err(note) => peers.notes.push(note),
        }
        say("building the Go program");
        match go::build() {
            Ok(go::Built { program, version }) => {
                peers.found.push(Peer { name: "go".into(), command: vec![program.into()] });
                peers.notes.push(format!("go is {version}"));
            }
            Err(why) => peers.notes.push(format!("go left out: {why:#}")),
        }
        peers
    }

    /// The peer of this name, if it is here.
    pub fn get(&self, name: &str) -> Option<&Peer> {
        self.found.iter().find(|peer| peer.name == name)
    }
}

/// The program with the Rust peers: where the environment says, beside this executable, or in
/// `PATH`.
fn find_program() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return if Path::new(&path).is_file() {
            Ok(path.into())
        } else {
            Err(format!("pthread, tokio, may left out: {VARIABLE} is {path:?}, which is no file"))
        };
    }
    let me = std::env::current_exe().unwrap_or_default();
    let beside = me.parent().into_iter().map(Path::to_owned);
    // Tests run one directory below the programs.
    let above = me.parent().and_then(Path::parent).into_iter().map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(beside.chain(above).chain(std::env::split_paths(&path)), PROGRAM).ok_or_else(|| {
        format!(
            "pthread, tokio, may left out: no {PROGRAM} beside this program or in PATH; build it \
             with `cargo build --release -p {PROGRAM}`, or name it in {VARIABLE}"
        )
    })
}

fn find_in(mut directories: impl Iterator<Item = PathBuf>, program: &str) -> Option<PathBuf> {
    directories.find_map(|directory| Some(directory.join(program)).filter(|path| path.is_file()))
}

/// Asks the program for its implementations.
fn list(program: &Path) -> Result<Vec<Peer>, String> {
    let failed =
        |why: String| format!("pthread, tokio, may left out: {} list: {why}", program.display());
    let output =
        Command::new(program).arg("list").output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(names.lines().map(|name| peer(program, name)).collect())
}

fn peer(program: &Path, name: &str) -> Peer {
    Peer {
        name: name.to_owned(),
        command: [program.as_os_str(), OsStr::new(name)].map(Into::into).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_with_the_program_wins() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directories = || [&first, &second].into_iter().map(|dir| dir.path().to_owned());
        assert_eq!(find_in(directories(), PROGRAM), None);
        std::fs::write(second.path().join(PROGRAM), "").unwrap();
        assert_eq!(find_in(directories(), PROGRAM), Some(second.path().join(PROGRAM)));
        std::fs::write(first.path().join(PROGRAM), "").unwrap();
        assert_eq!(find_in(directories(), PROGRAM), Some(first.path().join(PROGRAM)));
    }

    #[test]
    fn implementations_are_those_that_the_program_lists() {
        // `echo list` lists "list".
        let echo = Path::new("/bin/echo");
        let command = vec!["/bin/echo".into(), "list".into()];
        assert_eq!(list(echo), Ok(vec![Peer { name: "list".into(), command }]));
        assert_eq!(list(Path::new("/bin/true")), Ok(vec![]));
        let missing = list(Path::new("/nonexistent/peers")).unwrap_err();
        assert!(missing.contains("left out") && missing.contains("/nonexistent/peers"));
        assert!(list(Path::new("/bin/false")).unwrap_err().contains("exit status: 1"));
    }
}
