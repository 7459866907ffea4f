//! `quaver report`: one page of the demonstration, the papers' figures and the benchmarks.
//!
//! `figure` reads what a figure of a paper is, `curves` simulates it, `counterpart` sets one
//! real worker beside its simulation, and `drawing` draws and records them in `figures/`.
//! `page` shows what was recorded, with the demonstration's verdict and `benchmarks`. What
//! there is no file of is left out.

mod bars;
mod benchmarks;
mod counterpart;
mod curves;
mod drawing;
mod figure;
mod go;
mod locks;
mod page;
mod probes;
mod share;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use self::benchmarks::Bench;
use self::drawing::{Drawn, Sources};
use crate::output::{self, Directory, Target};

/// Make a page with charts of the demonstration, the benchmarks and the papers' figures
///
/// A figure is simulated and drawn beside the paper's curves and one real worker; figures of Go
/// programs and of locks are drawn from measurements. Without --quick
/// all figures take half an hour.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Only these figures, such as skyloft-06; none: all of them
    #[arg(value_name = "FIGURE", conflicts_with = "keep_figures")]
    pub names: Vec<String>,
    /// The directory for index.html and figures/
    #[arg(long, value_name = "DIR", default_value = "quaver-report")]
    pub out: PathBuf,
    /// What `quaver bench --json` wrote
    #[arg(long, value_name = "FILE", default_value = "bench-results.json")]
    pub bench: PathBuf,
    /// What `go/bench/run --json` wrote, for the figures of Go programs
    #[arg(long, value_name = "FILE", default_value = "go-bench-results.json")]
    pub go: PathBuf,
    /// What `quaver demo` wrote; default: report.json in the directory
    #[arg(long, value_name = "FILE")]
    pub demo: Option<PathBuf>,
    /// A folder with a figure.toml for each figure, beside the papers' numbers in ../reference
    #[arg(long, value_name = "DIR", default_value = "bench/figures")]
    pub figures: PathBuf,
    /// Simulate nothing: show the figures that were drawn into the directory before
    #[arg(long)]
    pub keep_figures: bool,
    /// Simulate few requests: a look, no result
    #[arg(long, conflicts_with = "keep_figures")]
    pub quick: bool,
}

/// Runs the command.
///
/// # Errors
///
/// A file is there and cannot be used, a figure is unknown, or the results cannot be written;
/// messages name the file, the figure and its curve.
pub fn run(args: &Args) -> Result<()> {
    let bench: Option<Bench> = read(&args.bench)?;
    let demo_path = args.demo.clone().unwrap_or_else(|| args.out.join("report.json"));
    let demo: Option<page::Demo> = read(&demo_path)?;
    let go: go::Results = read(&args.go)?.unwrap_or_default();
    let names = if args.keep_figures { Vec::new() } else { figures(args)? };
    let figures_out = args.out.join("figures");
    Directory::prepare(&args.out)?;
    Directory::prepare(&figures_out)?;

    let results = figures_out.join("results.json");
    let drawn: Option<Vec<Drawn>> = if args.keep_figures {
        read(&results)?
    } else if names.is_empty() {
        None
    } else {
        let mut drawn = Vec::new();
        for name in &names {
            let (folder, bench) = (args.figures.as_path(), bench.as_ref());
            let sources = Sources { folder, bench, go: &go, quick: args.quick };
            let one = sources.draw(name, &figures_out).with_context(|| format!("figure {name}"))?;
            output::print(&format!("{}\n", one.line()))?;
            drawn.push(one);
        }
        Target::File(results).write_json(&drawn)?;
        Some(drawn)
    };

    let linked = args.out.join("report.html").exists();
    let reference = args.figures.join("../reference");
    let bench = bench.as_ref().map(|bench| bench.section(&reference)).transpose()?;
    let page = page::render(demo.as_ref(), linked, drawn.as_deref(), bench.as_deref());
    let index = args.out.join("index.html");
    output::write_file(&index, page.as_bytes())?;
    output::print(&format!("the page is {}\n", index.display()))
}

/// The figures to draw, by name.
fn figures(args: &Args) -> Result<Vec<String>> {
    let mut known = Vec::new();
    if let Ok(entries) = std::fs::read_dir(&args.figures) {
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", args.figures.display()))?;
            if entry.path().join("figure.toml").exists() {
                known.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    known.sort();
    if let Some(unknown) = args.names.iter().find(|name| !known.contains(name)) {
        let folder = args.figures.display();
        bail!("there is no figure {unknown} in {folder}; known are: {}", known.join(", "));
    }
    Ok(if args.names.is_empty() { known } else { args.names.clone() })
}

/// The JSON document, or `None` if there is no such file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not what was expected", path.display()))?;
    Ok(Some(value))
}
