//! `--view`: what the pipeline did in a range of cycles, as a page that needs nothing else.

use std::fmt::Write as _;

use quaver_uarch::core::{Kind, Report, Traced};

use crate::html::{escape, head};

/// Uops that are drawn, at most.
const MOST: usize = 1500;
/// Pixels of a uop's row, and of the text before it.
const ROW: u64 = 12;
const LABEL: u64 = 330;
/// Pixels of the drawing, at most.
const WIDTH: u64 = 1100;

/// A stage: how it is called, and its colour.
const STAGES: [(&str, &str); 4] =
    [("front end", "#9aa5b1"), ("waits", "#5b8def"), ("executes", "#2e9e5b"), ("done", "#cfd8dc")];

/// The page. `program` is its name.
pub fn page(program: &str, uops: &[Traced], report: &Report) -> String {
    let title = escape(&format!("{program}: pipeline"));
    let mut page = head(&title, STYLE);
    let drawn = &uops[..uops.len().min(MOST)];
    if drawn.is_empty() {
        page.push_str("<p>No uop was fetched in these cycles.</p>\n");
    } else {
        legend(&mut page);
        if drawn.len() < uops.len() {
            let _ = writeln!(page, "<p>The first {MOST} of {} uops.</p>", uops.len());
        }
        draw(&mut page, drawn);
    }
    stalls(&mut page, report);
    page.push_str("</body>\n</html>\n");
    page
}

fn legend(page: &mut String) {
    page.push_str("<p>");
    for (name, colour) in STAGES {
        let _ = write!(page, "<span class=\"key\" style=\"background:{colour}\"></span>{name} ");
    }
    page.push_str(
        "&nbsp; <b class=\"interrupt\">interrupt</b> its microcode, <b class=\"handler\">inc</b> a \
         handler's instruction; pale: squashed. A row's tip has its cycles.</p>\n",
    );
}

/// The cycles of a uop's stages; each ends where the next one begins.
fn stages(uop: &Traced) -> [u64; 5] {
    let end = uop.left;
    let renamed = uop.renamed.unwrap_or(end);
    let issued = uop.issued.unwrap_or(end).max(renamed);
    let done = uop.done.unwrap_or(end).max(issued);
    [uop.fetched, renamed, issued, done, end.max(done)]
}

fn draw(page: &mut String, uops: &[Traced]) {
    let first = uops.iter().map(|uop| uop.fetched).min().unwrap_or(0);
    let last = uops.iter().map(|uop| uop.left).max().unwrap_or(0).max(first + 1);
    let scale = (WIDTH as f64 / (last - first) as f64).min(6.0);
    let x = |cycle: u64| LABEL as f64 + (cycle - first) as f64 * scale;
    let height = ROW * (uops.len() as u64 + 2);
    let width = x(last).ceil() as u64 + 10;
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">"
    );
    let step = [10, 20, 50, 100, 200, 500, 1000, 5000, 20_000]
        .into_iter()
        .find(|step| *step as f64 * scale >= 60.0)
        .unwrap_or(100_000);
    for cycle in (first.div_ceil(step)..=last / step).map(|n| n * step) {
        let at = x(cycle);
        let _ = writeln!(
            page,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"14\" y2=\"{height}\" class=\"grid\"/>\
             <text x=\"{at:.1}\" y=\"10\" text-anchor=\"middle\">{cycle}</text>"
        );
    }
    for (row, uop) in uops.iter().enumerate() {
        let top = ROW * (row as u64 + 1) + 4;
        let class = match uop.kind {
            Kind::Program => "",
            Kind::Handler => "handler",
            Kind::Interrupt => "interrupt",
        };
        let pale = if uop.retired { "" } else { " opacity=\"0.35\"" };
        let times = stages(uop);
        let end = if uop.retired { "retired" } else { "squashed" };
        let tip = format!(
            "{:x}: {}, fetched {}, renamed {}, issued {}, done {}, {end} {}",
            uop.address, uop.text, times[0], times[1], times[2], times[3], times[4]
        );
        let label: String = format!("{:x}: {}", uop.address, uop.text).chars().take(50).collect();
        let base = top + ROW - 3;
        let _ = write!(
            page,
            "<g{pale}><title>{}</title><text x=\"0\" y=\"{base}\" class=\"{class}\">{}</text>",
            escape(&tip),
            escape(&label)
        );
        for (pair, (_, colour)) in times.windows(2).zip(STAGES) {
            if pair[1] > pair[0] {
                let _ = write!(
                    page,
                    "<rect x=\"{:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" \
                     fill=\"{colour}\"/>",
                    x(pair[0]),
                    (pair[1] - pair[0]) as f64 * scale,
                    ROW - 2
                );
            }
        }
        page.push_str("</g>\n");
    }
    page.push_str("</svg>\n");
}

/// The causes of cycles without renaming, of the whole run.
fn stalls(page: &mut String, report: &Report) {
    let causes = causes(report);
    let _ = writeln!(
        page,
        "<h2>Cycles in which nothing was renamed</h2>\n<p>of {} in the whole run</p>\n<table>",
        report.cycles
    );
    for (name, cycles) in causes {
        let share = 100.0 * cycles as f64 / report.cycles.max(1) as f64;
        let _ = writeln!(page, "<tr><td>{name}</td><td>{cycles}</td><td>{share:.1} %</td></tr>");
    }
    page.push_str("</table>\n");
}

/// Stalls by cause, the longest first.
pub fn causes(report: &Report) -> Vec<(&'static str, u64)> {
    let s = &report.stalls;
    let mut causes = vec![
        ("instruction cache", s.instruction_cache),
        ("wrong branches", s.mispredict),
        ("interrupts", s.interrupt),
        ("serialising", s.serialize),
        ("front end", s.front_end),
        ("reorder buffer full", s.reorder_buffer),
        ("scheduler full", s.scheduler),
        ("load queue full", s.load_queue),
        ("store queue full", s.store_queue),
        ("no register", s.registers),
    ];
    causes.sort_by_key(|&(_, cycles)| std::cmp::Reverse(cycles));
    causes
}

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; }
td { padding: .15rem .7rem; border-bottom: 1px solid #8883; text-align: right; }
td:first-child { text-align: left; }
svg { max-width: none; }
svg text { font: 9px ui-monospace, monospace; fill: currentColor; }
.grid { stroke: #8885; stroke-width: 1; }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .8em; }
svg .interrupt, .interrupt { fill: #d9480f; color: #d9480f; }
svg .handler, .handler { fill: #a8820a; color: #a8820a; }
";

#[cfg(test)]
mod tests {
    use super::*;

    fn uop(text: &str, kind: Kind, fetched: u64, retired: bool) -> Traced {
        Traced {
            address: 0x40_1000,
            text: text.into(),
            kind,
            fetched,
            renamed: retired.then_some(fetched + 10),
            issued: retired.then_some(fetched + 12),
            done: retired.then_some(fetched + 20),
            left: fetched + 30,
            retired,
        }
    }

    #[test]
    fn a_page_has_its_uops_and_their_stages() {
        let uops = [
            uop("add rax,[rbx<8]", Kind::Program, 1000, true),
            uop("interrupt", Kind::Interrupt, 1004, true),
            uop("nop", Kind::Program, 1008, false),
        ];
        let mut report = Report { cycles: 200, ..Report::default() };
        report.stalls.interrupt = 50;
        let page = page("a<b", &uops, &report);
        assert!(page.contains("a&lt;b: pipeline") && page.contains("[rbx&lt;8]"), "{page}");
        // Four stages of two uops, and the front end of the squashed one.
        assert_eq!(page.matches("<rect").count(), 9, "{page}");
        assert_eq!(page.matches("opacity").count(), 1);
        assert!(page.contains("<tr><td>interrupts</td><td>50</td><td>25.0 %</td></tr>"));
        assert!(super::page("x", &[], &report).contains("No uop"));
    }
}
