//! A figure simulated, drawn into files, and recorded for `results.json`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::benchmarks::Bench;
use super::counterpart::{self, Counterpart};
use super::curves::{self, Simulated};
use super::figure::{Figure, Headline, Points};
use super::{go, locks, probes};
use crate::chart::{self, Chart, Curve, Line, number};
use crate::output;

/// What `results.json` says of a figure.
#[derive(Serialize, Deserialize)]
pub struct Drawn {
    pub figure: String,
    pub title: String,
    /// What each curve says.
    pub best: BTreeMap<String, Option<f64>>,
    pub paper_best: BTreeMap<String, Option<f64>>,
    /// The first of the headlines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headline: Option<Ratio>,
    #[serde(default)]
    pub headlines: Vec<Ratio>,
    #[serde(default)]
    pub measured: Vec<Counterpart>,
    pub simulated: String,
    pub real: String,
    pub difference: String,
    /// What has to be run, if nothing has been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_run: Option<String>,
    /// The drawings' files.
    pub charts: Vec<String>,
}

/// How two curves compare.
#[derive(Clone, Serialize, Deserialize)]
pub struct Ratio {
    pub of: String,
    pub over: String,
    pub ours: Option<f64>,
    pub paper: Option<f64>,
}

/// What figures are drawn from.
pub struct Sources<'a> {
    /// The folder of the figures' folders.
    pub folder: &'a Path,
    pub bench: Option<&'a Bench>,
    pub go: &'a go::Results,
    pub quick: bool,
}

impl Sources<'_> {
    /// Simulates a figure and writes its drawings into `out`.
    pub fn draw(&self, name: &str, out: &Path) -> Result<Drawn> {
        let figure = Figure::open(&self.folder.join(name))?;
        let published = self.folder.join("../reference");
        let papers = match &figure.reference {
            Some(reference) => reference.curves(&published)?,
            None => BTreeMap::new(),
        };
        let (rows, cpus) = self.bench.map_or((&[][..], 0), |bench| (&bench.rows[..], bench.cpus()));
        let of_probes =
            figure.probes.as_ref().map(|of| of.drawings(rows, &published)).transpose()?;
        let of_bars = figure.bars.as_ref().map(|bars| bars.drawings(rows));
        let ours = match (&figure.go, &figure.locks) {
            (Some(go), _) => go.best(self.go),
            (_, Some(locks)) => locks.best(rows, cpus),
            _ if of_probes.is_some() || of_bars.is_some() => Vec::new(),
            _ => {
                let simulate = |curve| curves::simulate(&figure, curve, self.quick);
                figure.curve.iter().map(simulate).collect::<Result<Vec<_>>>()?
            }
        };

        let mut best: BTreeMap<_, _> =
            ours.iter().map(|curve| (curve.name.clone(), curve.best)).collect();
        best.extend(of_probes.iter().flat_map(|drawings| probes::Figure::best(drawings)));
        best.extend(figure.bars.iter().flat_map(|bars| bars.best(rows)));
        let paper_best = paper_best(&figure, &papers);
        let headlines: Vec<_> =
            figure.headlines.iter().map(|headline| ratio(headline, &best, &paper_best)).collect();

        let mut charts = Vec::new();
        for drawing in of_bars.iter().flatten() {
            let svg = chart::headed_bars(&drawing.title, &drawing.bars)?;
            write_file(&svg, out, format!("{name}{}.svg", drawing.suffix), &mut charts)?;
        }
        let mut write = |suffix: &str, title: &str, y: (&str, bool), curves: &[Curve], limit| {
            let x = x_label(&figure);
            let chart = Chart { title, x, y: y.0, log: y.1, label: number, limit };
            let file = format!("{name}{suffix}.svg");
            write_chart(&chart, curves, out, file, &mut charts)
        };
        let (y, log) = y_label(&figure);
        let limit_text = figure.limit_us.map(|limit| format!("within {}", number(limit)));
        let limit = if log { limit_text.as_deref().zip(figure.limit_us) } else { None };
        let points = |curve: &Simulated| curve.points.clone();
        let go_limit = figure.go.as_ref().map(|go| format!("within {}", number(go.limit)));
        if let Some((go, text)) = figure.go.as_ref().zip(go_limit.as_deref()) {
            for drawing in go.drawings(self.go) {
                let limit = drawing.suffix.is_empty().then_some((text, go.limit));
                let y = (drawing.y.as_str(), drawing.log);
                write(&drawing.suffix, &figure.title, y, &drawing.curves, limit)?;
            }
        } else if let Some(locks) = &figure.locks {
            for drawing in locks.drawings(rows, cpus) {
                let y = (drawing.y.as_str(), drawing.log);
                write(&drawing.suffix, &figure.title, y, &drawing.curves, None)?;
            }
        } else if let Some(drawings) = &of_probes {
            for (suffix, curves) in drawings {
                let title = match suffix.strip_prefix('-') {
                    Some(program) => format!("{}: {program}", figure.title),
                    None => figure.title.clone(),
                };
                write(suffix, &title, (probes::SLOWDOWN, false), curves, None)?;
            }
        } else if of_bars.is_none() {
            write("", &figure.title, (&y, log), &beside(&ours, points, &papers), limit)?;
        }
        if let Some(shares) = &figure.share_reference {
            let curves = beside(&ours, |curve| curve.shares.clone(), &shares.curves(&published)?);
            let y = "share of best-effort work";
            write("-share", y, (y, false), &curves, None)?;
        }

        let mut measured = Vec::new();
        for (index, of) in figure.measured.iter().enumerate() {
            let mut one = counterpart::compare(&figure, of, self.bench, &papers, self.quick)?;
            let file = format!("{name}-one-worker-{}.svg", index + 1);
            let mut files = Vec::new();
            let (title, log) = (one.title(), true);
            let (x, y) = (&one.over, &one.what);
            let chart = Chart { title: &title, x, y, log, label: number, limit: None };
            write_chart(&chart, &one_worker(&one), out, file, &mut files)?;
            one.chart = files.pop();
            measured.push(one);
        }
        let to_run = match (&figure.go, &figure.locks, &of_probes) {
            (Some(go), ..) if !go.is_measured(self.go) => Some(go::COMMAND),
            (_, Some(of), _) if !of.is_measured(rows, cpus) => Some(locks::COMMAND),
            (.., Some(drawings)) if drawings.is_empty() => Some(probes::COMMAND),
            _ => {
                let bars = figure.bars.as_ref().zip(of_bars.as_ref());
                bars.filter(|(_, drawings)| drawings.is_empty()).map(|(of, _)| &*of.command)
            }
        };
        let to_run = to_run.map(str::to_owned);
        Ok(Drawn {
            figure: name.to_owned(),
            title: figure.title,
            best,
            paper_best,
            headline: headlines.first().cloned(),
            headlines,
            measured,
            simulated: figure.simulated.unwrap_or_else(|| "all curves".to_owned()),
            real: figure.real,
            difference: figure.difference,
            to_run,
            charts,
        })
    }
}

impl Drawn {
    /// The result in a line.
    pub fn line(&self) -> String {
        let shown = |value: Option<f64>| value.map_or_else(|| "nothing".to_owned(), number);
        let said = match &self.headline {
            Some(Ratio { of, over, ours, paper }) => {
                format!("{of} over {over} {}, in the paper {}", shown(*ours), shown(*paper))
            }
            None => {
                let best = self.best.iter().map(|(name, best)| format!("{name} {}", shown(*best)));
                best.collect::<Vec<_>>().join(", ")
            }
        };
        format!("{}: {said}", self.figure)
    }
}

/// Writes a chart and notes its file, if there is anything to draw.
fn write_chart(
    chart: &Chart,
    curves: &[Curve],
    out: &Path,
    file: String,
    files: &mut Vec<String>,
) -> Result<()> {
    if curves.is_empty() {
        return Ok(());
    }
    write_file(&chart.draw(curves)?, out, file, files)
}

fn write_file(svg: &str, out: &Path, file: String, files: &mut Vec<String>) -> Result<()> {
    let svg = chart::standalone(svg);
    output::write_file(&out.join(&file), svg.as_bytes()).context("the drawing")?;
    files.push(file);
    Ok(())
}

/// What the paper's curves say, as ours do; what it says itself takes precedence.
fn paper_best(figure: &Figure, papers: &BTreeMap<String, Points>) -> BTreeMap<String, Option<f64>> {
    let mut best = BTreeMap::new();
    for (name, points) in papers {
        let value = match (figure.headline_threads, figure.limit_us) {
            (Some(threads), _) => curves::at(points, threads.into()),
            (None, Some(limit)) => Some(curves::highest(points, limit)),
            (None, None) => None,
        };
        best.insert(name.clone(), value);
    }
    best.extend(figure.paper_best.iter().map(|(name, value)| (name.clone(), Some(*value))));
    best
}

fn ratio(
    headline: &Headline,
    best: &BTreeMap<String, Option<f64>>,
    paper_best: &BTreeMap<String, Option<f64>>,
) -> Ratio {
    let [of, over] = headline.names();
    let between = |best: &BTreeMap<String, Option<f64>>| {
        let number = |name: &str| best.get(name).copied().flatten();
        let over = number(over).filter(|over| *over != 0.0)?;
        Some(number(of)? / over)
    };
    let paper = match headline {
        Headline::Given(_, _, paper) => Some(*paper),
        Headline::Published(..) => between(paper_best),
    };
    Ratio { of: of.to_owned(), over: over.to_owned(), ours: between(best), paper }
}

/// Our curves with the paper's of the same name in the same colour; those without points are left
/// out.
fn beside(
    ours: &[Simulated],
    points: impl Fn(&Simulated) -> Points,
    papers: &BTreeMap<String, Points>,
) -> Vec<Curve> {
    let mut names: Vec<&str> = ours.iter().map(|curve| curve.name.as_str()).collect();
    names.extend(
        papers
            .keys()
            .map(String::as_str)
            .filter(|name| ours.iter().all(|curve| curve.name != *name)),
    );
    let colour = |name: &str| names.iter().position(|known| *known == name).unwrap_or_default();
    let ours =
        ours.iter().map(|curve| (curve.name.clone(), &curve.name, points(curve), Line::Thick));
    let theirs = papers
        .iter()
        .map(|(name, points)| (format!("{name} (paper)"), name, points.clone(), Line::Dashed));
    let curve = |(name, base, points, line): (String, &String, Points, Line)| Curve {
        name,
        colour: colour(base),
        line,
        points: drawable(&points),
    };
    ours.chain(theirs).map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

/// What was measured, and dashed what was simulated.
fn one_worker(of: &Counterpart) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (colour, compared) in of.curves.iter().enumerate() {
        let kinds = [("", Line::Thick), (" (simulated)", Line::Dashed)];
        for ((label, line), (_, read)) in kinds.into_iter().zip(counterpart::KINDS) {
            let points: Points =
                compared.points.iter().map(|point| (point.at, read(point))).collect();
            let (name, points) = (format!("{}{label}", compared.name), drawable(&points));
            curves.push(Curve { name, colour, line, points });
        }
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

fn drawable(points: &[(f64, Option<f64>)]) -> Vec<(f64, f64)> {
    points.iter().filter_map(|&(x, y)| Some((x, y.filter(|y| *y > 0.0)?))).collect()
}

fn x_label(figure: &Figure) -> &'static str {
    if let Some(go) = &figure.go {
        go.x_label()
    } else if figure.locks.is_some() {
        locks::X_LABEL
    } else if let Some(of) = &figure.probes {
        of.x_label()
    } else if figure.threads.is_some() {
        "threads"
    } else if figure.quanta_us.is_some() || figure.timer_quanta_us.is_some() {
        "quantum, µs"
    } else {
        "requests/s"
    }
}

/// What y is, and whether its axis is logarithmic.
fn y_label(figure: &Figure) -> (String, bool) {
    if figure.timer_quanta_us.is_some() {
        ("workers".to_owned(), false)
    } else if figure.quanta_us.is_some() {
        ("requests/s within the limit".to_owned(), false)
    } else {
        (figure.shown.label(), true)
    }
}
