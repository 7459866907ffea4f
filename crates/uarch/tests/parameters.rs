//! The shipped parameters: each has a source, none is fitted to a program, and what is wrong with
//! one is said by its name.

use quaver_uarch::core::{Parameters, SHIPPED};

/// A source without its comments and its unit tests.
fn code_of(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// All files with this extension in a folder, and in those below.
fn files(folder: &std::path::Path, extension: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn neither_parameters_nor_the_model_know_a_program() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let workloads = [files(&here.join("workloads"), "c"), files(&here.join("workloads"), "rs")];
    let names: Vec<String> = workloads
        .iter()
        .flatten()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(names.len() >= 13 && names.contains(&"server".to_owned()), "{names:?}");
    let words = |text: &str, name: &str| {
        text.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case(name))
    };
    let sources = files(&here.join("src"), "rs");
    assert!(sources.len() > 40, "{sources:?}");
    for name in &names {
        assert!(!words(SHIPPED, name), "parameters.toml names {name}");
        // One is called what the architecture is.
        for path in sources.iter().filter(|_| name != "uintr") {
            // These build the programs.
            if path.ends_with("src/workload.rs") || path.ends_with("src/workload/rust.rs") {
                continue;
            }
            let code = code_of(&std::fs::read_to_string(path).unwrap());
            assert!(!words(&code, name), "{} names {name}", path.display());
        }
    }
}

#[test]
fn each_parameter_has_a_source() {
    // The file's own list of them: a line for each, or for two with a comma.
    let legend = SHIPPED.lines().filter_map(|line| line.strip_prefix("#   ")).filter_map(|line| {
        let (name, rest) = line.split_once("  ")?;
        (!name.is_empty() && !rest.is_empty()).then_some(name)
    });
    let sources: Vec<&str> = legend.flat_map(|names| names.split(", ")).collect();
    assert!(sources.len() >= 11 && sources.contains(&"ours"), "{sources:?}");
    let (mut above, mut entries, mut depth) = (String::new(), 0, 0_i32);
    for line in SHIPPED.lines() {
        let (code, comment) = line.split_once('#').unwrap_or((line, ""));
        if code.trim().is_empty() || code.starts_with('[') {
            above = if comment.is_empty() { String::new() } else { above + comment };
            continue;
        }
        if depth == 0 {
            let name = code.split('=').next().unwrap().trim();
            let said = format!("{above} {comment}");
            let has = |source: &&str| {
                said.split(|c: char| !c.is_alphanumeric()).any(|word| word == *source)
            };
            assert!(sources.iter().any(has), "parameters.toml says no source of {name}");
            entries += 1;
            above.clear();
        }
        depth += code.matches('[').count() as i32 - code.matches(']').count() as i32;
    }
    let table: toml::Table = toml::from_str(SHIPPED).unwrap();
    let count = |value: &toml::Value| value.as_table().map_or(1, toml::Table::len);
    assert_eq!(entries, table.values().map(count).sum::<usize>());
}

#[test]
fn a_parameter_that_cannot_work_is_named() {
    for (from, to, what) in [
        ("retire = 10", "retire = 0", "window.retire"),
        ("base = 8192", "base = 8191", "predictor.base"),
        ("size = 32768, ways = 8, latency = 5", "size = 32768, ways = 7, latency = 5", "data"),
        ("op = \"store\", count = 4", "op = \"store\", count = 3", "delivery"),
        ("queue = 144", "", "queue"),
    ] {
        assert!(SHIPPED.contains(from), "{from}");
        let error = Parameters::load(&SHIPPED.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_parameter_can_be_changed_by_its_name() {
    let change = |text: &str| Parameters::load_with(SHIPPED, &[text.to_owned()]);
    let p = change("interrupt.remote_line=40").unwrap();
    assert_eq!(p.interrupt.remote_line, 40);
    assert_eq!(change(" units.alu.ports = [0, 1]").unwrap().units.alu.ports, [0, 1]);
    let same = Parameters::load_with(SHIPPED, &[]).unwrap();
    assert_eq!(same, Parameters::default());
    for (wrong, what) in [
        ("interrupt.remote_line", "NAME=VALUE"),
        ("interrupt.remote_line=forty", "NAME=VALUE"),
        ("interrupt.remoteline=40", "no such parameter"),
        ("nothing.at.all=1", "no such parameter"),
        ("=1", "no such parameter"),
        ("interrupt.remote_line=true", "remote_line"),
        ("window.retire=0", "window.retire"),
    ] {
        let error = change(wrong).unwrap_err().to_string();
        assert!(error.contains(what), "{wrong}: {error}");
    }
}
