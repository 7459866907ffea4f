//! The page: verdict, curves, table, and what was measured where.

use std::fmt::Write;

use anyhow::Result;
use clap::ValueEnum;

use crate::chart::{Chart, Curve, Line};
use crate::demo::args::Mode;
use crate::demo::results::{Latency, Report, Row};
use crate::demo::table;
use crate::html::escape;
use crate::parse::cpulist;

/// Renders the report, with its [`charts`], as one HTML page without references to anything
/// outside.
pub fn render(report: &Report, charts: &[(&str, String)]) -> String {
    let mut page = String::from(HEAD);
    let mut push = |text: &str| page.push_str(text);
    push("<h1>Quaver: GETs beside SCANs, with and without preemption</h1>\n");
    push(&format!("<p class=\"verdict\">{}</p>\n", escape(&report.summary.verdict)));
    if let Some(crowded) = report.machine.crowded {
        push(&format!(
            "<p class=\"note\">For want of CPUs {}, which disturbs the latencies.</p>\n",
            escape(crowded)
        ));
    }
    let worker = report.machine.worker_cpus.first();
    if let Some(noise) = worker.and_then(|&cpu| report.machine.noise.warning(cpu)) {
        push(&format!("<p class=\"note\">Noise: {}.</p>\n", escape(&noise)));
    }
    push("<div class=\"charts\">\n");
    for (_, chart) in charts {
        push(&format!("<figure>{chart}</figure>\n"));
    }
    push("</div>\n");
    push(&table_html(report));
    push(&details(report));
    push("</body>\n</html>\n");
    page
}

/// The curves of each class that was offered, with its name in lower case.
///
/// # Errors
///
/// A chart cannot be drawn.
pub fn charts(report: &Report) -> Result<Vec<(&'static str, String)>> {
    let slo = report.settings.slo_us;
    let limit = format!("objective {}", table::time(slo));
    let get: fn(&Row) -> Option<&Latency> = |row| row.get.as_ref();
    let scan: fn(&Row) -> Option<&Latency> = |row| row.scan.as_ref();
    let mut charts = Vec::new();
    for (name, title, class, limit) in [
        ("get", "GET latency", get, Some((limit.as_str(), slo))),
        ("scan", "SCAN latency", scan, None),
    ] {
        let curves = curves(report, class);
        if !curves.is_empty() {
            let x = "offered load, % of the workers' capacity";
            let chart = Chart { title, x, y: "", log: true, label: table::mark, limit };
            charts.push((name, chart.draw(&curves)?));
        }
    }
    Ok(charts)
}

/// For each mode the 99th percentile, thick, and the median, thin.
fn curves(report: &Report, class: fn(&Row) -> Option<&Latency>) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (colour, &mode) in Mode::value_variants().iter().enumerate() {
        for (name, main) in [("p99", true), ("p50", false)] {
            let rows = report.rows.iter().filter(|row| row.mode == mode);
            let latencies = rows.filter_map(|row| Some((row.load_percent, class(row)?)));
            let points: Vec<_> =
                latencies.map(|(load, l)| (load, if main { l.p99_us } else { l.p50_us })).collect();
            if !points.is_empty() {
                curves.push(Curve {
                    name: format!("{name} {}", mode.name()),
                    colour,
                    line: if main { Line::Thick } else { Line::Thin },
                    points,
                });
            }
        }
    }
    curves
}

fn table_html(report: &Report) -> String {
    let mut html = String::from(
        "<h2>All figures</h2>\n<div class=\"wide\"><table>\n<thead>\n\
         <tr><th colspan=\"4\"></th><th colspan=\"3\">GET</th><th colspan=\"3\">SCAN</th>\
         <th colspan=\"5\">preemption requests</th><th colspan=\"3\">requests</th></tr>\n<tr>",
    );
    for heading in table::HEADINGS {
        let heading = heading.trim_start_matches("GET ").trim_start_matches("SCAN ");
        let _ = write!(html, "<th>{heading}</th>");
    }
    html.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in &report.rows {
        html.push_str("<tr>");
        for (column, cell) in table::cells(row).iter().enumerate() {
            let met = column == table::GET_P99 && table::meets(row, report.settings.slo_us);
            let class = if met { " class=\"met\"" } else { "" };
            let _ = write!(html, "<td{class}>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
    let rounds = report.settings.rounds;
    let _ = writeln!(
        html,
        "<p>Each row is the round, of {rounds}, with the median GET p99. Latency counts from the \
         moment at which a request should have been sent, over all requests offered; \u{2265} \
         marks a bound, where requests did not complete. A GET p99 within the objective is set in \
         bold. Preemption requests: <em>deferred</em> ones waited for the end of a region that \
         must not be interrupted, <em>stale</em> ones came too late, <em>useful</em> ones led to a \
         switch.</p>"
    );
    html
}

fn details(report: &Report) -> String {
    let Report { machine, settings, services, .. } = report;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut facts: Vec<(&str, String)> = vec![
        ("processor", text(&machine.processor)),
        ("kernel", text(&machine.kernel)),
        (
            "CPUs",
            format!(
                "{} usable; workers on {}, client on {}",
                cpulist::format(&machine.usable_cpus),
                cpulist::format(&machine.worker_cpus),
                machine.client_cpu
            ),
        ),
        (
            "noise",
            format!(
                "{} stops of more than 50 µs in {:.1} s on a worker's CPU, {:.2} % of the time, \
                 {:.1} ms at most",
                machine.noise.stops,
                machine.noise.watched_s,
                machine.noise.lost_percent,
                machine.noise.longest_us / 1e3
            ),
        ),
        (
            "GET",
            format!(
                "{} by itself; {} key(s)",
                table::time(services.get_ns / 1e3),
                services.get_keys
            ),
        ),
        (
            "SCAN",
            format!(
                "{} by itself; {} rows",
                table::time(services.scan_ns / 1e3),
                services.scan_keys
            ),
        ),
        ("store", format!("redb, {} rows in memory", settings.keys)),
        (
            "capacity",
            format!("{:.0} requests/s with {} worker(s)", report.capacity_rps, settings.workers),
        ),
        (
            "mix",
            format!(
                "{} GET/SCAN, arrivals {}, seed {}",
                settings.mix, settings.arrivals, settings.seed
            ),
        ),
        (
            "preemption",
            format!(
                "policy {}, clock {}, notification {}",
                settings.policy, settings.clock, settings.notification
            ),
        ),
        (
            "run",
            format!(
                "{} rounds of {:.2} s for each load and mode",
                settings.rounds, settings.round_s
            ),
        ),
        ("quaver", report.version.to_owned()),
    ];
    if let Some(hypervisor) = &machine.hypervisor {
        facts.insert(1, ("hypervisor", hypervisor.clone()));
    }
    let mut html = String::from("<h2>Measured where and how</h2>\n<dl>\n");
    for (name, value) in facts {
        let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    html.push_str("</dl>\n");
    html
}

const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quaver demo</title>
<style>
:root { color-scheme: light dark;
  --ink: #1c1f23; --ground: #ffffff; --faint: #8883; --good: #0a7a2f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe3e8; --ground: #15181c; --good: #5fd487; } }
body { color: var(--ink); background: var(--ground); font: 15px/1.5 system-ui, sans-serif;
  max-width: 84rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; border-left: 4px solid #2d82d2; padding-left: .8rem; }
.note { border-left: 4px solid #d96c14; padding-left: .8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .83rem;
  width: 100%; }
th, td { padding: .2rem .38rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { text-align: left; }
th[colspan] { text-align: center; }
.met { font-weight: 700; color: var(--good); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { opacity: .7; } dd { margin: 0; }
</style>
</head>
<body>
"#;

#[cfg(test)]
mod tests {
    use super::super::super::results::tests::report;
    use super::*;

    /// Checks that elements nest and attributes are quoted; returns the names of all elements.
    fn elements(html: &str) -> Vec<String> {
        let mut open: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        let mut rest = html.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
        while let Some(start) = rest.find('<') {
            assert!(!rest[..start].contains('>'), "a loose '>' in {:?}", &rest[..start]);
            let end = start + rest[start..].find('>').expect("a tag that ends");
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "</{name}> closes another element");
                continue;
            }
            let name = tag.split([' ', '/']).next().unwrap();
            assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}> has an unquoted attribute");
            all.push(name.to_owned());
            if !tag.ends_with('/') && name != "meta" {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?} stay open");
        all
    }

    fn page(report: &Report) -> String {
        render(report, &charts(report).unwrap())
    }

    #[test]
    fn the_page_is_well_formed_and_has_curves_and_all_rows() {
        let html = page(&report());
        let elements = elements(&html);
        let count = |name: &str| elements.iter().filter(|e| *e == name).count();
        assert_eq!(count("svg"), 2);
        // Four curves in each chart, and lines of the axes.
        assert!(count("polyline") >= 8, "{}", count("polyline"));
        assert_eq!(count("tr"), 2 + 6);
        assert_eq!(count("td"), 6 * table::HEADINGS.len());
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = page(&report());
        for part in ["src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!html.contains(part), "{part} refers to something");
        }
        // Only the name of the SVG language, which nobody fetches.
        for (at, _) in html.match_indices("http") {
            assert!(html[at..].starts_with("http://www.w3.org/2000/svg"), "{}", &html[at..at + 40]);
        }
    }

    #[test]
    fn texts_are_escaped() {
        let html = page(&report());
        assert!(html.contains("A &lt;fast&gt; Processor &amp; more"));
    }

    #[test]
    fn light_and_dark_are_served() {
        let html = page(&report());
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("currentColor"));
    }

    #[test]
    fn crowding_is_admitted() {
        let mut report = report();
        assert!(!page(&report).contains("class=\"note\""));
        report.machine.crowded = Some("the client shares a CPU with a worker");
        assert!(page(&report).contains("shares a CPU"));
    }

    #[test]
    fn a_report_without_rows_or_scans_renders() {
        let mut report = report();
        report.rows.iter_mut().for_each(|row| row.scan = None);
        assert_eq!(page(&report).matches("<svg").count(), 1);
        report.rows.clear();
        elements(&page(&report));
    }
}
