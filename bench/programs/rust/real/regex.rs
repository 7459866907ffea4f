//! The crate regex on pages of a server's log: addresses, dates, alternatives, captures,
//! repetitions and a replacement, whose matches are counted while the log is written.
#[path = "../common.rs"]
mod common;
use common::{Rng, at_least, fail, finish, mix, start};
use regex::{Captures, Regex};
use std::fmt::Write;

const LINES: usize = 2000;
const PATHS: [&str; 6] =
    ["/index.html", "/api/v1/items", "/static/app.js", "/login", "/search?q=a+b", "/img/logo.png"];
const AGENTS: [&str; 4] = ["Mozilla/5.0 (X11; Linux)", "curl/8.5.0", "Bingbot/2.0", "wget 1.21"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What a page has of each kind.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Counts {
    private: usize,
    failures: usize,
    robots: usize,
    numbered: usize,
    bytes: u64,
    autumn: usize,
}

fn write_page(page: &mut String, rng: &mut Rng) -> Counts {
    let mut counts = Counts::default();
    page.clear();
    for _ in 0..LINES {
        let mut below = |n: usize| rng.below(n as u32) as usize;
        let first = [10, 192, 8, 77][below(4)];
        let (second, third, fourth) = (below(256), below(256), below(256));
        let (day, month, hour) = (1 + below(28), below(12), below(24));
        let (path, agent) = (PATHS[below(PATHS.len())], AGENTS[below(AGENTS.len())]);
        let status = [200, 200, 200, 301, 404, 500, 503][below(7)];
        let (number, bytes) = (below(5), below(100000) as u64);
        counts.private += usize::from(first == 10);
        counts.failures += usize::from(status >= 500);
        counts.robots += usize::from(agent.contains("bot") || !agent.starts_with("Moz"));
        counts.numbered += usize::from(number > 0);
        counts.bytes += bytes;
        counts.autumn += usize::from((8..11).contains(&month));
        let at = format!("{day:02}/{}/2026:{hour:02}:15:07", MONTHS[month]);
        let query = if number > 0 { format!("#n{}", "z".repeat(number)) } else { String::new() };
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "{first}.{second}.{third}.{fourth} - - [{at} +0000] \"GET {path}{query} HTTP/1.1\" \
             {status} {bytes} \"{agent}\""
        );
    }
    counts
}

struct Patterns {
    private: Regex,
    failures: Regex,
    robots: Regex,
    numbered: Regex,
    line: Regex,
    autumn: Regex,
}

impl Patterns {
    fn new() -> Result<Patterns, regex::Error> {
        Ok(Patterns {
            private: Regex::new(r"(?m)^10(?:\.\d{1,3}){3} ")?,
            failures: Regex::new(r#"" 5\d\d \d+ ""#)?,
            robots: Regex::new(r#"(?i)(\w+bot/[\d.]+|curl/\S+|\bwget\b[^"]*)"\n"#)?,
            numbered: Regex::new(r"#n(z+) HTTP")?,
            line: Regex::new(
                r#"(?m)^(\S+) - - \[([^\]]+)\] "GET (\S+) [^"]*" (\d{3}) (\d+) ".*"$"#,
            )?,
            autumn: Regex::new(r"(?P<day>\d\d)/(?P<month>Sep|Oct|Nov)/(?P<year>\d{4})")?,
        })
    }

    /// What is found, and the page with its autumn days written the other way round.
    fn search(&self, page: &str) -> (Counts, String) {
        let of = |captures: Captures<'_>| captures[5].parse::<u64>().unwrap_or_default();
        let turned = self.autumn.replace_all(page, "$year-$month-$day");
        let counts = Counts {
            private: self.private.find_iter(page).count(),
            failures: self.failures.find_iter(page).count(),
            robots: self.robots.find_iter(page).count(),
            numbered: self.numbered.captures_iter(page).filter(|c| !c[1].is_empty()).count(),
            bytes: self.line.captures_iter(page).map(of).sum(),
            autumn: turned.matches("[2026-").count(),
        };
        (counts, turned.into_owned())
    }
}

fn main() {
    let pages = at_least(1, 110.0 * start());
    let (mut rng, mut sum, mut page) = (Rng(32), 0, String::new());
    let patterns = Patterns::new().unwrap_or_else(|error| fail!("regex: {error}"));
    for number in 0..pages {
        let wanted = write_page(&mut page, &mut rng);
        let (found, turned) = patterns.search(&page);
        if found != wanted || turned.len() != page.len() {
            fail!("page {number}: {found:?} instead of {wanted:?}");
        }
        sum = mix(mix(sum, found.bytes), (found.robots + found.autumn) as u64);
    }
    finish("regex", sum);
}
