//! The programs of `bench/programs`, carried along: an installed `quaver` has no checkout.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which is the first word that it prints.
    pub name: &'static str,
    source: &'static str,
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        /// All, by name.
        pub const ALL: &[Program] = &[$(Program {
            name: stringify!($name),
            source: include_str!(concat!(
                "../../../../../bench/programs/", stringify!($name), ".c"
            )),
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

/// For a look: loops of all kinds, trees, recursion, calls through pointers.
pub const FEW: [&str; 6] = ["fft", "kmeans", "kvstore", "lu", "pca", "word_count"];

/// What is linked around `main`.
pub const HOST: &str = "host.c";
/// Runs two copies of a program.
pub const PAIR: &str = "pair.c";

const OTHERS: [(&str, &str); 3] = [
    ("common.h", include_str!("../../../../../bench/programs/common.h")),
    (HOST, include_str!("host.c")),
    (PAIR, include_str!("pair.c")),
];

/// Writes all sources into `folder`.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    let programs = ALL.iter().map(|program| (format!("{}.c", program.name), program.source));
    let others = OTHERS.iter().map(|&(name, source)| (name.to_owned(), source));
    for (name, source) in programs.chain(others) {
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
        let mut found: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".c").map(String::from)
            })
            .collect();
        found.sort();
        assert_eq!(ALL.iter().map(|program| program.name).collect::<Vec<_>>(), found);
        assert!(FEW.iter().all(|name| ALL.iter().any(|program| program.name == *name)));
    }
}
