//! The programs of `bench/programs`, carried along: an installed `quaver` has no checkout.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::real::{self, Real};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which is the first word that it prints.
    pub name: &'static str,
    /// In C.
    pub c: Option<&'static str>,
    /// In Rust; where there are both, they print the same.
    pub rust: Option<&'static str>,
    /// What it runs, if that is no work of its own.
    pub real: Option<Real>,
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        /// All of ours, by name.
        pub const ALL: &[Program] = &[$(Program {
            name: stringify!($name),
            c: Some(include_str!(concat!(
                "../../../../../bench/programs/", stringify!($name), ".c"
            ))),
            rust: Some(include_str!(concat!(
                "../../../../../bench/programs/rust/", stringify!($name), ".rs"
            ))),
            real: None,
        }),*];
    };
}

programs!(
    blackscholes,
    canneal,
    cholesky,
    fft,
    fluidanimate,
    fmm,
    histogram,
    kmeans,
    kvstore,
    linear_regression,
    lu,
    matrix_multiply,
    ocean,
    pca,
    radiosity,
    radix,
    raytrace,
    reverse_index,
    streamcluster,
    string_match,
    swaptions,
    volrend,
    water,
    word_count,
);

/// Those of others, which take minutes to compile.
pub const OTHERS: [Program; 5] = [
    Program {
        name: "zstd",
        c: Some(include_str!("../../../../probes/tests/real/zstd.c")),
        rust: None,
        real: Some(real::ZSTD),
    },
    Program {
        name: "sqlite",
        c: Some(include_str!("../../../../probes/tests/real/sqlite.c")),
        rust: None,
        real: Some(real::SQLITE),
    },
    Program {
        name: "redb",
        c: None,
        rust: Some(include_str!("../../../../../bench/programs/rust/real/redb.rs")),
        real: Some(real::REDB),
    },
    Program {
        name: "regex",
        c: None,
        rust: Some(include_str!("../../../../../bench/programs/rust/real/regex.rs")),
        real: Some(real::REGEX),
    },
    Program {
        name: "serde_json",
        c: None,
        rust: Some(include_str!("../../../../../bench/programs/rust/real/serde_json.rs")),
        real: Some(real::SERDE_JSON),
    },
];

/// For a look: loops of all kinds, trees, recursion, calls through pointers.
pub const FEW: [&str; 6] = ["fft", "kmeans", "kvstore", "lu", "pca", "word_count"];

/// What is linked around `main`.
pub const HOST: &str = "host.c";
/// Runs two copies of a program.
pub const PAIR: &str = "pair.c";

/// The folder of programs in Rust, that of those of others in it, and a crate that holds the
/// standard library alone.
pub const RUST: &str = "rust";
pub const REAL: &str = "real";
pub const EMPTY: &str = "empty.rs";

const MORE: [(&str, &str); 5] = [
    ("rust/common.rs", include_str!("../../../../../bench/programs/rust/common.rs")),
    ("rust/empty.rs", "pub fn nothing() {}\n"),
    ("common.h", include_str!("../../../../../bench/programs/common.h")),
    (HOST, include_str!("host.c")),
    (PAIR, include_str!("pair.c")),
];

/// Writes all sources into `folder`.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    let real = folder.join(RUST).join(REAL);
    fs::create_dir_all(&real).with_context(|| format!("cannot make {}", real.display()))?;
    let put = |path: &Path, text: &str| {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for program in ALL.iter().chain(&OTHERS) {
        if let Some(text) = program.c {
            put(&folder.join(format!("{}.c", program.name)), text)?;
        }
        if let Some(text) = program.rust {
            put(&folder.join(program.path_in_rust()), text)?;
        }
    }
    MORE.iter().try_for_each(|(name, text)| put(&folder.join(name), text))?;
    real::write_manifest(&real, &OTHERS)
}

impl Program {
    /// Where its source in Rust is put.
    pub fn path_in_rust(&self) -> PathBuf {
        let folder = Path::new(RUST);
        let folder = if self.real.is_some() { folder.join(REAL) } else { folder.into() };
        folder.join(format!("{}.rs", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_are_carried_along() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs");
        let found = |folder: &Path, ending: &str| {
            let mut found: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .filter_map(|entry| {
                    let name = entry.unwrap().file_name().into_string().unwrap();
                    name.strip_suffix(ending).map(String::from)
                })
                .collect();
            found.sort();
            found
        };
        assert_eq!(
            ALL.iter().map(|program| program.name).collect::<Vec<_>>(),
            found(&folder, ".c")
        );
        let mut in_rust = found(&folder.join(RUST), ".rs");
        in_rust.retain(|name| name != "common");
        assert_eq!(ALL.iter().map(|program| program.name).collect::<Vec<_>>(), in_rust);
        let crates = OTHERS.iter().filter(|program| program.rust.is_some());
        let real = found(&folder.join(RUST).join(REAL), ".rs");
        assert_eq!(crates.map(|program| program.name).collect::<Vec<_>>(), real);
        assert!(FEW.iter().all(|name| ALL.iter().any(|program| program.name == *name)));
    }
}
