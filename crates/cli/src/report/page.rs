//! The page. What there is nothing of is left out.

use std::fmt::Write;

use serde::Deserialize;

use super::counterpart::{Counterpart, KINDS};
use super::drawing::{Drawn, Ratio};
use crate::chart::number;
use crate::html::escape;

/// What the page shows of `quaver demo`'s report.
#[derive(Deserialize)]
pub struct Demo {
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    verdict: String,
}

/// Renders the page; `linked`: the demonstration's own page lies beside it; `bench`: the section of
/// the benchmarks.
pub fn render(
    demo: Option<&Demo>,
    linked: bool,
    figures: Option<&[Drawn]>,
    bench: Option<&str>,
) -> String {
    let mut page = String::from(HEAD);
    if let Some(demo) = demo {
        let verdict = escape(&demo.summary.verdict);
        let _ = writeln!(page, "<h2>Demonstration</h2>\n<p class=\"verdict\">{verdict}</p>");
        if linked {
            page.push_str("<p><a href=\"report.html\">Curves and all figures</a></p>\n");
        }
    }
    if let Some(figures) = figures {
        page.push_str(&headlines(figures));
        figures.iter().for_each(|figure| page.push_str(&section(figure)));
    }
    if let Some(bench) = bench {
        page.push_str(bench);
    }
    if demo.is_none() && figures.is_none() && bench.is_none() {
        page.push_str(
            "<p>Nothing has been measured yet: <code>quaver demo</code>, \
             <code>quaver bench</code>.</p>\n",
        );
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// All ratios, ours and the papers'.
fn headlines(figures: &[Drawn]) -> String {
    let mut lines = String::new();
    for figure in figures {
        let measured = figure.measured.iter().any(Counterpart::is_measured);
        let also = if measured { ", and one worker for real" } else { "" };
        let (name, title) = (escape(&figure.figure), escape(&figure.title));
        let mut first = format!("<a href=\"#{name}\">{title}</a>{also}");
        let ratios: Vec<_> = figure.headlines.iter().map(said).collect();
        let ratios = if ratios.is_empty() { vec![[String::new(), String::new()]] } else { ratios };
        for [of, said] in ratios {
            let of = escape(&of);
            let _ = writeln!(lines, "<tr><td>{first}</td><td>{of}</td><td>{said}</td></tr>");
            first.clear();
        }
    }
    format!(
        "<h2>The papers' figures</h2>\n<table>\n<tr><th>figure</th><th>ratio</th>\
         <th>ours</th></tr>\n{lines}</table>\n"
    )
}

/// A ratio, if both curves say anything.
fn said(ratio: &Ratio) -> [String; 2] {
    let Some(ours) = ratio.ours else { return [String::new(), String::new()] };
    let paper = ratio.paper.map_or_else(String::new, |paper| format!(", in the paper {paper:.2}"));
    [format!("{} over {}", ratio.of, ratio.over), format!("{ours:.2}{paper}")]
}

/// One figure: drawings, one worker for real, and what differs.
fn section(figure: &Drawn) -> String {
    let title = escape(&figure.title);
    let mut html = format!("<h3 id=\"{}\">{title}</h3>\n", escape(&figure.figure));
    figure.charts.iter().for_each(|file| html.push_str(&image(file, &figure.title)));
    if let Some(command) = &figure.to_run {
        let command = escape(command);
        let _ = writeln!(html, "<p>Nothing was run for real yet: <code>{command}</code>.</p>");
    }
    for of in &figure.measured {
        html.push_str(&one_worker(of));
    }
    let Drawn { simulated, real, difference, .. } = figure;
    let [simulated, real, difference] = [simulated, real, difference].map(|text| escape(text));
    let _ = writeln!(
        html,
        "<p class=\"soft\">Simulated: {simulated}. For real: {real}. Difference: {difference}.</p>"
    );
    html
}

fn one_worker(of: &Counterpart) -> String {
    let title = of.title();
    let mut html = format!("<h4>{}</h4>\n", escape(&title));
    if let Some(file) = &of.chart {
        html.push_str(&image(file, &title));
    }
    let mut lines = String::new();
    for curve in &of.curves {
        for (kind, read) in KINDS {
            if curve.points.iter().all(|point| read(point).is_none()) {
                continue;
            }
            let cell = |point| format!("<td>{}</td>", read(point).map_or_else(String::new, number));
            let cells: String = curve.points.iter().map(cell).collect();
            let name = escape(&curve.name);
            let _ = writeln!(lines, "<tr><td>{name}</td><td>{kind}</td>{cells}</tr>");
        }
    }
    let points = of.curves.first().map_or(&[][..], |curve| &curve.points);
    let heads: String =
        points.iter().map(|point| format!("<th>{}</th>", number(point.at))).collect();
    let over = escape(&of.over);
    let _ = writeln!(html, "<table>\n<tr><th>{over}</th><th></th>{heads}</tr>\n{lines}</table>");
    if !of.is_measured() {
        let benchmark = escape(&of.benchmark);
        let _ = writeln!(
            html,
            "<p>Nothing was run for real yet: <code>quaver bench {benchmark}</code>.</p>"
        );
    }
    html
}

fn image(file: &str, title: &str) -> String {
    format!("<p><img src=\"figures/{}\" alt=\"{}\"/></p>\n", escape(file), escape(title))
}

const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Quaver: results</title>
<style>
:root { color-scheme: light dark; --ink: #1c1f23; --ground: #ffffff; --soft: #59636e;
  --faint: #8883; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe3e8; --ground: #15181c; --soft: #9198a1; }
}
body { color: var(--ink); background: var(--ground); font: 15px/1.5 system-ui, sans-serif;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
a { color: inherit; }
h3, h4 { margin: 1.6rem 0 .3rem; font-size: 1rem; }
.soft, li { color: var(--soft); }
.verdict { font-size: 1.1rem; font-weight: 600; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; border-bottom: 1px solid var(--faint); text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg, img { max-width: 100%; height: auto; }
img { width: 46rem; }
</style>
</head>
<body>
<h1>Quaver: results</h1>
"#;
