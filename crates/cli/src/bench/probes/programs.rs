//! The programs of `bench/programs`, carried along: an installed `quaver` has no checkout.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::real::{self, Real};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which is the first word that it prints.
    pub name: &'static str,
    source: &'static str,
    /// The same in Rust, which prints the same.
    pub rust: Option<&'static str>,
    /// What it runs, if that is no work of its own.
    pub real: Option<Real>,
}

macro_rules! in_rust {
    ($name:ident, rust) => {
        Some(include_str!(concat!("../../../../../bench/programs/rust/", stringify!($name), ".rs")))
    };
    ($name:ident) => {
        None
    };
}

macro_rules! programs {
    ($($name:ident $(+ $rust:ident)?),* $(,)?) => {
        /// All, by name.
        pub const ALL: &[Program] = &[$(Program {
            name: stringify!($name),
            source: include_str!(concat!(
                "../../../../../bench/programs/", stringify!($name), ".c"
            )),
            rust: in_rust!($name $(, $rust)?),
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
    histogram + rust,
    kmeans + rust,
    kvstore + rust,
    linear_regression + rust,
    lu + rust,
    matrix_multiply + rust,
    ocean,
    pca,
    radiosity,
    radix + rust,
    raytrace,
    reverse_index,
    streamcluster,
    string_match + rust,
    swaptions,
    volrend,
    water,
    word_count,
);

/// Those of others, which take minutes to compile.
pub const OTHERS: [Program; 2] = [
    Program {
        name: "zstd",
        source: include_str!("../../../../probes/tests/real/zstd.c"),
        rust: None,
        real: Some(real::ZSTD),
    },
    Program {
        name: "sqlite",
        source: include_str!("../../../../probes/tests/real/sqlite.c"),
        rust: None,
        real: Some(real::SQLITE),
    },
];

/// For a look: loops of all kinds, trees, recursion, calls through pointers.
pub const FEW: [&str; 6] = ["fft", "kmeans", "kvstore", "lu", "pca", "word_count"];

/// What is linked around `main`.
pub const HOST: &str = "host.c";
/// Runs two copies of a program.
pub const PAIR: &str = "pair.c";

/// The folder of programs in Rust, and a crate that holds the standard library alone.
pub const RUST: &str = "rust";
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
    let rust = folder.join(RUST);
    fs::create_dir(&rust).with_context(|| format!("cannot make {}", rust.display()))?;
    let programs = ALL.iter().chain(&OTHERS);
    let programs = programs.map(|program| (format!("{}.c", program.name), program.source));
    let in_rust = ALL
        .iter()
        .filter_map(|program| Some((format!("{RUST}/{}.rs", program.name), program.rust?)));
    let others = MORE.iter().map(|&(name, source)| (name.to_owned(), source));
    for (name, source) in programs.chain(in_rust).chain(others) {
        let path = folder.join(name);
        fs::write(&path, source).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
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
        let carried = ALL.iter().filter(|program| program.rust.is_some());
        assert_eq!(carried.map(|program| program.name).collect::<Vec<_>>(), in_rust);
        assert!(FEW.iter().all(|name| ALL.iter().any(|program| program.name == *name)));
    }
}
