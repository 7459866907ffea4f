//! What `quaver bench probes` measured beside Aspen's Figs. 1 and 2 and Table 2.
//!
//! The paper's programs are others after the same algorithms, on another machine. User interrupts
//! are the paper's only: this machine may have none.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::benchmarks::Row;
use crate::chart::{Chart, Curve, Line, number};
use crate::html::escape;

/// The paper's numbers.
const FILE: &str = "aspen_fig1_slowdown_percent.json";
/// Our names of programs that the paper calls otherwise.
const NAMES: [(&str, &str); 3] =
    [("water", "water-nsquared"), ("ocean", "ocean-cp"), ("lu", "lu-c")];
/// Table 2's quanta.
const QUANTA: [u64; 3] = [50, 20, 5];
/// Of the paper, in its order: names in the file, and in words.
const MECHANISMS: [(&str, &str); 3] =
    [("uintr", "user interrupts"), ("concord", "Concord"), ("signal", "signals")];
/// Ours by how they are told.
const OURS: [(&str, &str); 2] = [("word", "probes"), ("signal", "signals")];
/// Of places for probes: what it is called, and in words.
const PLACES: [(&str, &str); 3] = [
    ("concord", "entries and loops, as Concord"),
    ("loops", "in each loop"),
    ("placed", "16 to 256 instructions"),
];
/// What axes say.
const QUANTUM: &str = "quantum, µs";
const DEVIATION: &str = "standard deviation of the intervals, µs";
pub const SLOWDOWN: &str = "slowdown, %";
/// What has to be run first.
pub const COMMAND: &str = "quaver bench probes --json bench-results.json";
/// The paper's curves go beyond what is shown.
const SHOWN_US: RangeInclusive<u64> = 5..=50;

/// What a row of the benchmark says beside its numbers.
#[derive(Deserialize)]
pub struct Labels {
    section: String,
    program: String,
    compiler: String,
    variant: String,
    quantum_us: Option<u64>,
    instructions: Option<u64>,
}

#[derive(Deserialize)]
struct Published {
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    program: String,
    #[serde(flatten)]
    mechanisms: BTreeMap<String, serde_json::Value>,
}

/// Slowdown in percent by quantum in µs.
type Slowdowns = BTreeMap<u64, f64>;

/// By program and mechanism.
type Paper = BTreeMap<String, BTreeMap<String, Slowdowns>>;

/// The section of the page. `reference`: the folder of the papers' numbers.
pub fn section(rows: &[Row], reference: &Path) -> Result<String> {
    let paper = published(&reference.join(FILE))?;
    let mut page = String::new();
    let compilers = distinct(rows, |labels| &labels.compiler);
    let programs = distinct(rows, |labels| &labels.program);
    page.push_str(&tax(rows, &compilers));
    let clocked = rows.iter().filter_map(|row| row.labels.as_ref()).any(|l| l.variant == "word");
    if clocked {
        page.push_str("<h3>Aspen Fig. 1: slowdown over the quantum, a clock on another CPU</h3>\n");
        page.push_str(&figure_1("mean of all programs", &programs, rows, &compilers, &paper)?);
        page.push_str("<details><summary>each program</summary>\n");
        for program in &programs {
            let one = [program.clone()];
            page.push_str(&figure_1(program, &one, rows, &compilers, &paper)?);
        }
        page.push_str("</details>\n");
        page.push_str(&table_2(rows, &programs, &compilers, &paper));
    }
    for program in &programs {
        page.push_str(&figure_2(program, rows, &compilers)?);
    }
    Ok(page)
}

fn published(path: &Path) -> Result<Paper> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Paper::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let cannot = || format!("cannot use {}", path.display());
    let published: Published = serde_json::from_str(&text).with_context(cannot)?;
    let mut paper = Paper::new();
    for Program { program, mechanisms } in published.programs {
        let of = paper.entry(program).or_default();
        for (name, _) in MECHANISMS {
            if let Some(values) = mechanisms.get(name) {
                let values = serde_json::from_value(values.clone()).with_context(cannot)?;
                of.insert(name.to_owned(), values);
            }
        }
    }
    Ok(paper)
}

fn distinct(rows: &[Row], name: impl Fn(&Labels) -> &String) -> Vec<String> {
    let mut names = Vec::new();
    for labels in rows.iter().filter_map(|row| row.labels.as_ref()) {
        if !names.contains(name(labels)) {
            names.push(name(labels).clone());
        }
    }
    names
}

/// The additional time in percent of the rows that `wanted` wants.
fn costs(rows: &[Row], wanted: impl Fn(&Labels) -> bool) -> Vec<f64> {
    let wanted = |row: &&Row| row.labels.as_ref().is_some_and(&wanted);
    let ratios = rows.iter().filter(wanted).filter_map(|row| row.ratio);
    ratios.map(|ratio| 100.0 * (ratio - 1.0)).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Ours: a variant beside the clock, of some programs.
fn ours(
    rows: &[Row],
    variant: &str,
    compiler: &str,
    programs: &[String],
    quantum_us: u64,
) -> Option<f64> {
    mean(&costs(rows, |labels| {
        labels.section == "clock"
            && labels.variant == variant
            && labels.compiler == compiler
            && labels.quantum_us == Some(quantum_us)
            && programs.contains(&labels.program)
    }))
}

/// The paper's, of those of the programs that it has.
fn theirs(paper: &Paper, mechanism: &str, programs: &[String]) -> Slowdowns {
    let mut all: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for program in programs {
        let renamed = NAMES.iter().find(|(ours, _)| ours == program);
        let name = renamed.map_or(program.as_str(), |(_, theirs)| theirs);
        for (&quantum, &value) in
            paper.get(name).and_then(|p| p.get(mechanism)).into_iter().flatten()
        {
            all.entry(quantum).or_default().push(value);
        }
    }
    all.into_iter().filter_map(|(quantum, values)| Some((quantum, mean(&values)?))).collect()
}

fn tax(rows: &[Row], compilers: &[String]) -> String {
    let mut lines = String::new();
    for compiler in compilers {
        for (variant, section, what) in [
            ("control", "tax", "copies of loops, no probes"),
            ("probes", "tax", "probes, nobody waits"),
            ("armed", "clock", "probes, somebody waits"),
        ] {
            let costs = costs(rows, |labels| {
                (labels.section.as_str(), labels.variant.as_str()) == (section, variant)
                    && labels.compiler == *compiler
            });
            let Some(mean) = mean(&costs) else { continue };
            let worst = costs.iter().copied().fold(f64::MIN, f64::max);
            let _ = writeln!(
                lines,
                "<tr><td>{what}, {}</td><td>{mean:.1}</td><td>{worst:.1}</td></tr>",
                escape(compiler)
            );
        }
    }
    format!(
        "<table>\n<tr><th>additional CPU time, %</th><th>mean</th><th>worst</th></tr>\n\
         {lines}</table>\n"
    )
}

fn figure_1(
    title: &str,
    programs: &[String],
    rows: &[Row],
    compilers: &[String],
    paper: &Paper,
) -> Result<String> {
    let curves = slowdowns(programs, rows, compilers, paper);
    if curves.is_empty() {
        return Ok(String::new());
    }
    let (x, y) = (QUANTUM, SLOWDOWN);
    Ok(Chart { title, x, y, log: false, label: number, limit: None }.draw(&curves)? + "\n")
}

/// Slowdown over the quantum: ours, and the paper's of the same programs.
fn slowdowns(programs: &[String], rows: &[Row], compilers: &[String], paper: &Paper) -> Vec<Curve> {
    let mut curves = Vec::new();
    let mut quanta = QUANTA;
    quanta.sort_unstable();
    // What is not slower at all lies on the axis.
    for (variant, what) in OURS {
        for compiler in compilers {
            let point = |&us: &u64| {
                Some((us as f64, ours(rows, variant, compiler, programs, us)?.max(0.0)))
            };
            curves.push(Curve {
                name: format!("{what}, {compiler}"),
                colour: curves.len(),
                line: Line::Thick,
                points: quanta.iter().filter_map(point).collect(),
            });
        }
    }
    for (index, (mechanism, what)) in MECHANISMS.into_iter().enumerate() {
        let points = theirs(paper, mechanism, programs).into_iter();
        let points = points.filter(|(us, _)| SHOWN_US.contains(us));
        curves.push(Curve {
            name: format!("{what} (paper)"),
            colour: index + 2,
            line: Line::Dashed,
            points: points.map(|(us, value)| (us as f64, value.max(0.0))).collect(),
        });
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

fn table_2(rows: &[Row], programs: &[String], compilers: &[String], paper: &Paper) -> String {
    let mut head = String::new();
    let ways = || OURS.iter().flat_map(|way| compilers.iter().map(move |compiler| (way, compiler)));
    for (_, what) in MECHANISMS {
        let _ = write!(head, "<th colspan=\"3\">paper: {what}</th>");
    }
    for ((_, what), compiler) in ways() {
        let _ = write!(head, "<th colspan=\"3\">{what}, {}</th>", escape(compiler));
    }
    let quanta: String = QUANTA.iter().map(|us| format!("<th>{us}</th>")).collect();
    let quanta = quanta.repeat(MECHANISMS.len() + OURS.len() * compilers.len());
    let cell = |value: Option<f64>| {
        format!("<td>{}</td>", value.map(|value| format!("{value:.1}")).unwrap_or_default())
    };
    let line = |name: &str, programs: &[String]| {
        let mut line = format!("<tr><td>{}</td>", escape(name));
        for (mechanism, _) in MECHANISMS {
            let of = theirs(paper, mechanism, programs);
            QUANTA.iter().for_each(|us| line.push_str(&cell(of.get(us).copied())));
        }
        for ((variant, _), compiler) in ways() {
            let at = |&us| cell(ours(rows, variant, compiler, programs, us));
            QUANTA.iter().for_each(|us| line.push_str(&at(us)));
        }
        line + "</tr>\n"
    };
    let lines: String =
        programs.iter().map(|program| line(program, std::slice::from_ref(program))).collect();
    format!(
        "<h3>Aspen Table 2: slowdown in %, by quantum in µs</h3>\n<table>\n\
         <tr><th></th>{head}</tr>\n<tr><th></th>{quanta}</tr>\n{lines}{}</table>\n",
        line("mean", programs)
    )
}

/// Other places for probes: cost over the deviation of the intervals.
fn figure_2(program: &str, rows: &[Row], compilers: &[String]) -> Result<String> {
    let curves = places(program, rows, compilers);
    if curves.is_empty() {
        return Ok(String::new());
    }
    let title = format!("Aspen Fig. 2: {program}, a probe for so many instructions, at 5 µs");
    let (x, y) = (DEVIATION, SLOWDOWN);
    let chart = Chart { title: &title, x, y, log: false, label: number, limit: None };
    Ok(format!("<h3>{}</h3>\n{}\n", escape(&title), chart.draw(&curves)?))
}

fn places(program: &str, rows: &[Row], compilers: &[String]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for compiler in compilers {
        for (variant, what) in PLACES {
            let mut points = Vec::new();
            for row in rows {
                let Some(labels) = &row.labels else { continue };
                let is = labels.section == "sweep"
                    && labels.variant == variant
                    && labels.program == program
                    && labels.compiler == *compiler
                    && labels.instructions.is_some() == (variant == "placed");
                let deviation = row.metrics.get("deviation_us");
                if let (true, Some(&deviation), Some(ratio)) = (is, deviation, row.ratio) {
                    points.push((deviation, (100.0 * (ratio - 1.0)).max(0.0)));
                }
            }
            points.sort_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
            let name = format!("{what}, {compiler}");
            curves.push(Curve { name, colour: curves.len(), line: Line::Thick, points });
        }
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

/// What a figure's folder shows of the benchmark.
#[derive(Deserialize)]
pub struct Figure {
    shows: Shows,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shows {
    /// Slowdown over the quantum: all programs, and each.
    Slowdown,
    /// The same at 5 µs, as a table has it.
    Shortest,
    /// Other places for probes.
    Places,
}

impl Figure {
    /// What the axis says.
    pub fn x_label(&self) -> &'static str {
        if self.shows == Shows::Places { DEVIATION } else { QUANTUM }
    }

    /// Drawings with the endings of their files, the first of which decides.
    pub fn drawings(&self, rows: &[Row], reference: &Path) -> Result<Vec<(String, Vec<Curve>)>> {
        let compilers = distinct(rows, |labels| &labels.compiler);
        let programs = distinct(rows, |labels| &labels.program);
        let each = |curves: &dyn Fn(&String) -> Vec<Curve>| -> Vec<(String, Vec<Curve>)> {
            programs.iter().map(|program| (format!("-{program}"), curves(program))).collect()
        };
        let mut drawings = if self.shows == Shows::Places {
            each(&|program| places(program, rows, &compilers))
        } else {
            let paper = published(&reference.join(FILE))?;
            let slowdowns = |programs: &[String]| slowdowns(programs, rows, &compilers, &paper);
            let mut all = vec![(String::new(), slowdowns(&programs))];
            if self.shows == Shows::Slowdown {
                all.extend(each(&|program| slowdowns(std::slice::from_ref(program))));
            }
            all
        };
        drawings.retain(|(_, curves)| curves.iter().any(|curve| curve.line == Line::Thick));
        Ok(drawings)
    }

    /// Each curve's value at its first point: at the shortest quantum, or where the intervals are
    /// the most regular.
    pub fn best(drawings: &[(String, Vec<Curve>)]) -> Vec<(String, Option<f64>)> {
        let curves = drawings.first().into_iter().flat_map(|(_, curves)| curves);
        curves
            .map(|curve| (curve.name.clone(), curve.points.first().map(|point| point.1)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(program: &str, variant: &str, quantum_us: u64, ratio: f64) -> Row {
        let section = if variant == "loops" { "sweep" } else { "clock" };
        serde_json::from_value(serde_json::json!({
            "benchmark": "probes", "name": program, "implementation": variant, "unit": "ms",
            "median": 1.0, "min": 1.0, "max": 1.0, "runs": 3, "ratio": ratio,
            "section": section, "program": program, "compiler": "gcc", "variant": variant,
            "quantum_us": quantum_us, "metrics": { "deviation_us": 1.5 },
        }))
        .unwrap()
    }

    #[test]
    fn figures_are_drawn_of_rows() {
        let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/reference");
        let rows =
            [row("lu", "word", 5, 1.25), row("fft", "word", 5, 1.5), row("lu", "loops", 5, 1.125)];
        let drawings = |shows: &str, rows: &[Row]| {
            let figure: Figure = toml::from_str(&format!("shows = {shows:?}")).unwrap();
            figure.drawings(rows, &reference).unwrap()
        };
        let names = |drawings: &[(String, Vec<Curve>)]| -> Vec<String> {
            drawings.iter().map(|(suffix, _)| suffix.clone()).collect()
        };
        let slowdown = drawings("slowdown", &rows);
        assert_eq!(names(&slowdown), ["", "-lu", "-fft"]);
        let best = Figure::best(&slowdown);
        assert!(best.contains(&("probes, gcc".to_owned(), Some(37.5))), "{best:?}");
        assert!(best.iter().any(|(name, value)| name == "signals (paper)" && value.is_some()));
        assert_eq!(names(&drawings("shortest", &rows)), [""]);
        let places = drawings("places", &rows);
        assert_eq!(names(&places), ["-lu"]);
        assert_eq!(Figure::best(&places), [("in each loop, gcc".to_owned(), Some(12.5))]);
        // Without measurements nothing is drawn, the paper's alone neither.
        assert!(drawings("slowdown", &[]).is_empty());
    }

    #[test]
    fn ours_stand_beside_the_papers() {
        let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/reference");
        let rows = [
            row("lu", "word", 5, 1.25),
            row("fft", "word", 5, 1.5),
            row("lu", "signal", 5, 3.0),
            row("lu", "loops", 5, 1.125),
        ];
        let page = section(&rows, &reference).unwrap();
        let line = |name: &str| {
            let start = format!("<tr><td>{name}</td>");
            page.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
        };
        // Its lu-c: 7.4, 1.6 and 49.6 at 5 us.
        for number in ["<td>7.4</td>", "<td>1.6</td>", "<td>49.6</td>", "<td>25.0</td>"] {
            assert!(line("lu").contains(number), "{number} in {}", line("lu"));
        }
        assert!(line("mean").contains("<td>37.5</td>"), "{}", line("mean"));
        assert!(page.contains("Aspen Fig. 2: lu") && !page.contains("Aspen Fig. 2: fft"));
        // Without the paper there are only ours.
        let page = section(&rows, Path::new("/nonexistent")).unwrap();
        assert!(page.contains("<td>37.5</td>") && !page.contains("<td>49.6</td>"));
    }
}
