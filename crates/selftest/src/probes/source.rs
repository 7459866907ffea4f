//! The programs.

use std::borrow::Cow;

/// In what language a program is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
}

/// A program of one file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, without an extension.
    pub name: String,
    /// Its text.
    pub text: Cow<'static, str>,
    /// Its language.
    pub language: Language,
    /// What the compiler is told, beside the level of optimisation.
    pub flags: Vec<String>,
    /// Whether its only argument is the scale of its work.
    pub scaled: bool,
}

/// What the programs of `bench/programs` include.
pub const HEADER: (&str, &str) = ("common.h", include_str!("../../../../bench/programs/common.h"));

macro_rules! of_the_benchmark {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../../../../bench/programs/", $name, ".c")))),*]
    };
}

/// Names and texts.
const BENCHMARK: [(&str, &str); 24] = of_the_benchmark![
    "blackscholes",
    "canneal",
    "cholesky",
    "fft",
    "fluidanimate",
    "fmm",
    "histogram",
    "kmeans",
    "kvstore",
    "linear_regression",
    "lu",
    "matrix_multiply",
    "ocean",
    "pca",
    "radiosity",
    "radix",
    "raytrace",
    "reverse_index",
    "streamcluster",
    "string_match",
    "swaptions",
    "volrend",
    "water",
    "word_count"
];

/// Programs of this crate in C++.
const OWN: [(&str, &str); 2] = [
    ("objects", include_str!("programs/objects.cpp")),
    ("threads", include_str!("programs/threads.cpp")),
];

/// All programs.
pub fn all() -> Vec<Source> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let c = BENCHMARK.iter().map(|&(name, text)| Source {
        name: name.into(),
        text: text.into(),
        language: Language::C,
        flags: words(&["-std=c11", "-ffp-contract=off"]),
        scaled: true,
    });
    let cpp = OWN.iter().map(|&(name, text)| Source {
        name: name.into(),
        text: text.into(),
        language: Language::Cpp,
        flags: words(&["-std=c++17"]),
        scaled: false,
    });
    c.chain(cpp).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn every_program_of_the_benchmark_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/programs");
        let names = std::fs::read_dir(folder).unwrap().flatten().map(|file| file.file_name());
        let is_program =
            |name: &std::ffi::OsString| Path::new(name).extension() == Some("c".as_ref());
        assert_eq!(names.filter(is_program).count(), super::BENCHMARK.len());
    }
}
