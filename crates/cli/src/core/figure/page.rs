//! A figure as a page with charts and its tables; it needs no other file.

use std::fmt::Write;

use super::rows::{Report, Row};
use crate::chart::number;
use crate::html::{escape, head};

/// Renders the page.
pub fn render(report: &Report) -> String {
    let title = escape(&format!("xUI, {}: {}", report.figure, report.title));
    let mut page = head(&title, STYLE);
    for chart in &report.charts {
        let _ = writeln!(page, "<figure>{chart}</figure>");
    }
    if !report.summary.is_empty() {
        page.push_str(&table("In all", &report.summary));
    }
    page.push_str(&table("Each point", &report.rows));
    if !report.notes.is_empty() {
        let notes: String =
            report.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
        let _ = write!(page, "<ul>\n{notes}</ul>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn table(title: &str, rows: &[Row]) -> String {
    let line = |row: &Row| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"why\">{}</td></tr>\n",
            escape(&row.point),
            number(row.paper),
            number(row.ours),
            row.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            escape(row.unit),
            if row.fitted { "for fitting" } else { "" },
            escape(&row.why),
        )
    };
    let lines: String = rows.iter().map(line).collect();
    format!(
        "<h2>{}</h2>\n<table>\n<tr><th></th><th>paper</th><th>ours</th><th>ours/paper</th>\
         <th></th><th></th><th></th></tr>\n{lines}</table>\n",
        escape(title)
    )
}

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
th, td { padding: .15rem .7rem; border-bottom: 1px solid #8883; text-align: right; }
th:first-child, td:first-child, .why { text-align: left; }
svg { width: 100%; max-width: 46rem; height: auto; }
";
