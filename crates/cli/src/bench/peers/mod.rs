//! Finding the programs of other thread libraries.

mod go;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use crate::companion::PEERS;

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
        let missing = |error| format!("pthread, tokio, may left out: {error:#}");
        let found = PEERS.find().map_err(missing);
        match found.and_then(|path| list(&path)) {
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
