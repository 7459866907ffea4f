//! What `quaver bench share` measured, over the load: latency beside the server alone, and what the
//! best-effort program got.

use anyhow::Result;

use super::benchmarks::Row;
use crate::chart::{Chart, Curve, Line, number};

/// Rows that are drawn: their names, what y is, whether its axis is logarithmic, and the aim.
const DRAWN: [(&str, &str, bool, Option<f64>); 3] = [
    ("LC p99 ratio", "LC p99 by that of alone spinning", true, Some(1.15)),
    ("LC p99 ratio of a window", "LC p99 of a window by that of alone spinning", true, Some(1.15)),
    ("BE share", "BE, % of what requests leave", false, None),
];

/// The charts, for each length of requests.
pub fn section(rows: &[Row]) -> Result<String> {
    let mut page = String::new();
    let mut services: Vec<&str> = Vec::new();
    for (_, service) in rows.iter().filter_map(|row| row.implementation.split_once(" (")) {
        let service = service.trim_end_matches(')');
        if !services.contains(&service) {
            services.push(service);
        }
    }
    for service in services {
        for (name, y, log, limit) in DRAWN {
            let curves = curves(rows, name, service);
            if curves.is_empty() {
                continue;
            }
            let title = format!("{name}, requests of {service}");
            let limit = limit.map(|limit| ("aim", limit)).filter(|_| service == "10 us");
            let chart = Chart { title: &title, x: "load, %", y, log, label: number, limit };
            page.push_str(&format!("<h3>{title}</h3>\n{}\n", chart.draw(&curves)?));
        }
    }
    Ok(page)
}

/// One curve for each implementation.
fn curves(rows: &[Row], name: &str, service: &str) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let load = row.name.strip_prefix(name).and_then(|rest| rest.strip_prefix(", load "));
        let load = load.and_then(|load| load.strip_suffix(" %")?.parse::<f64>().ok());
        let of = row.implementation.strip_suffix(&format!(" ({service})"));
        let (Some(load), Some(of)) = (load, of) else { continue };
        if row.median <= 0.0 {
            continue;
        }
        let known = curves.iter().position(|curve| curve.name == of);
        let index = known.unwrap_or_else(|| {
            let line = if of.starts_with("quaver") { Line::Thick } else { Line::Thin };
            let colour = curves.len();
            curves.push(Curve { name: of.into(), colour, line, points: Vec::new() });
            curves.len() - 1
        });
        curves[index].points.push((load, row.median));
    }
    curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, implementation: &str, median: f64) -> Row {
        let json = serde_json::json!({
            "benchmark": "share", "name": name, "implementation": implementation, "unit": "x",
            "median": median, "min": median, "max": median, "runs": 1,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn curves_go_over_the_load_and_tell_services_apart() {
        let rows = [
            row("LC p99 ratio, load 50 %", "quaver probed (10 us)", 1.2),
            row("LC p99 ratio, load 5 %", "quaver probed (10 us)", 1.1),
            row("LC p99 ratio, load 5 %", "quaver probed (1 us)", 7.0),
            row("LC p99 ratio, load 5 %", "nice (10 us)", 3.0),
            row("LC p99, load 5 %", "nice (10 us)", 99.0),
            row("BE share, load 5 %", "nice (10 us)", 60.0),
        ];
        let drawn = curves(&rows, "LC p99 ratio", "10 us");
        let points: Vec<_> = drawn.iter().map(|c| (c.name.as_str(), c.points.clone())).collect();
        let ours = ("quaver probed", vec![(5.0, 1.1), (50.0, 1.2)]);
        assert_eq!(points, [ours, ("nice", vec![(5.0, 3.0)])]);
        let page = section(&rows).unwrap();
        assert_eq!(page.matches("<svg").count(), 3);
        assert_eq!(page.matches("requests of 1 us</h3>").count(), 1);
    }
}
