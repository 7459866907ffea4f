//! The outcomes as a page with curves; it needs no other file.

use std::fmt::Write;

use anyhow::Result;
use quaver_sim::{Outcome, Scenario};

use crate::chart::{Chart, Curve, Line};
use crate::demo::table;
use crate::html::escape;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                    <title>Quaver simulation</title>\n<style>\n\
                    :root { color-scheme: light dark; }\n\
                    body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem;\n\
                    margin: 2rem auto; }\n\
                    svg { width: 100%; height: auto; }\ntable { border-collapse: collapse; }\n\
                    td, th { padding: .2rem .6rem; text-align: right; }\n\
                    </style>\n</head>\n<body>\n<h1>Quaver simulation</h1>\n";

/// Renders curves of each class over the load, and a table.
///
/// # Errors
///
/// A chart cannot be drawn.
pub fn render(scenario: &Scenario, outcomes: &[Outcome]) -> Result<String> {
    let server = &scenario.server;
    let mut page = String::from(HEAD);
    let facts = format!(
        "<p>{} worker(s), policy {}, mechanism {}, system {}, seed {}.</p>\n",
        server.workers, server.policy, server.mechanism.name, server.system.name, scenario.seed
    );
    page.push_str(&facts);
    let names = outcomes.first().map_or(&[][..], |outcome| &outcome.classes);
    for (index, class) in names.iter().enumerate() {
        let points = |of: fn(&quaver_sim::Latency) -> f64| {
            let point = |outcome: &Outcome| {
                let latency = outcome.classes[index].latency_us?;
                (!outcome.unstable).then_some((outcome.load * 100.0, of(&latency)))
            };
            outcomes.iter().filter_map(point).collect::<Vec<_>>()
        };
        let curve =
            |name: &str, colour, line, points| Curve { name: name.into(), colour, line, points };
        let curves = [
            curve("p99.9", 0, Line::Thick, points(|l| l.p99_9)),
            curve("p99", 0, Line::Thin, points(|l| l.p99)),
            curve("p50", 1, Line::Thick, points(|l| l.p50)),
        ];
        if curves[0].points.is_empty() {
            continue;
        }
        let title = format!("Latency of {}", class.name);
        let x = "offered load, % of the workers' capacity";
        let chart = Chart { title: &title, x, y: "", log: true, label: table::mark, limit: None };
        let _ = writeln!(page, "<figure>{}</figure>", chart.draw(&curves)?);
    }
    page.push_str(
        "<table>\n<tr><th>load</th><th>class</th>\
         <th>p50, µs</th><th>p99</th><th>p99.9</th><th></th></tr>\n",
    );
    for outcome in outcomes {
        for class in &outcome.classes {
            let Some(latency) = class.latency_us else { continue };
            let _ = writeln!(
                page,
                "<tr><td>{:.1} %</td><td>{}</td>\
                 <td>{:.2}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td></tr>",
                outcome.load * 100.0,
                escape(&class.name),
                latency.p50,
                latency.p99,
                latency.p99_9,
                if outcome.unstable { "unstable" } else { "" }
            );
        }
    }
    page.push_str("</table>\n</body>\n</html>\n");
    Ok(page)
}
