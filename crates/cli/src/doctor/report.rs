//! The report: facts, findings and the choice, as JSON or as text.

use serde::Serialize;

use super::choose::Chosen;
use super::detect::Facts;
use super::findings::{Finding, Status};

/// Everything `quaver doctor` says.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The version of this command.
    pub version: &'static str,
    /// Nothing is missing that the runtime cannot do without.
    pub possible: bool,
    /// The facts, judged.
    pub findings: Vec<Finding>,
    /// What would be used, in the order of the text report.
    pub choice: Vec<Chosen>,
    /// The facts.
    pub facts: Facts,
}

/// Puts the report together.
pub fn assemble(facts: Facts, findings: Vec<Finding>, choice: Vec<Chosen>) -> Report {
    let possible = !findings.iter().any(Finding::is_fatal);
    Report { version: env!("CARGO_PKG_VERSION"), possible, findings, choice, facts }
}

/// The report as text, for people.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let name = |f: &Finding| f.name.replace('_', " ");
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let names = widest(&mut report.findings.iter().map(|f| f.name.chars().count()));
    let values = widest(&mut report.findings.iter().map(|f| f.value.chars().count())).min(34);

    let mut group = "";
    for finding in &report.findings {
        if finding.group != group {
            group = finding.group;
            out += &format!("\n{group}\n");
        }
        let Finding { value, meaning, .. } = finding;
        let (word, name) = (finding.status.word(), name(finding));
        out += &format!("  {word:<7}  {name:<names$}  {value:<values$}  {meaning}\n");
        if let Some(advice) = &finding.advice {
            out += &format!("  {:<7}  {:<names$}  {:<values$}  -> {advice}\n", "", "", "");
        }
    }

    out += "\nWhat would be used here\n";
    let values = widest(&mut report.choice.iter().map(|c| c.value.chars().count()));
    for Chosen { name, value, why } in &report.choice {
        out += &format!("  {name:<names$}  {value:<values$}  {why}\n");
    }

    let count = |status| report.findings.iter().filter(|f| f.status == status).count();
    out += &format!(
        "\n{}: {} ok, {} warn, {} missing\n",
        if report.possible { "Quaver runs here" } else { "Quaver cannot run here" },
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Missing),
    );
    for finding in report.findings.iter().filter(|f| f.is_fatal()) {
        out += &format!("  needed: {} ({})\n", name(finding), finding.meaning);
    }
    out.trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::choose::choose;
    use super::super::findings::judge;
    use super::super::findings::tests::perfect;
    use super::*;

    fn report(facts: Facts) -> Report {
        let findings = judge(&facts);
        let choice = choose(&facts);
        assemble(facts, findings, choice)
    }

    #[test]
    fn columns_are_aligned() {
        let text = text(&report(perfect()));
        let meanings = [
            "each user thread has its own FS base",
            "each carrier can have a kernel timer",
            "tracing tools can watch",
        ];
        let mut columns = meanings.iter().map(|meaning| {
            let line = text.lines().find(|line| line.contains(meaning)).unwrap();
            line[..line.find(meaning).unwrap()].chars().count()
        });
        let first = columns.next().unwrap();
        assert!(columns.all(|column| column == first), "{text}");
    }

    #[test]
    fn an_impossible_machine_is_called_so_with_the_reason() {
        let mut facts = perfect();
        facts.runtime.tls_error = Some("no entry points".into());
        let report = report(facts);
        assert!(!report.possible);
        let text = text(&report);
        assert!(text.contains("cannot run here"), "{text}");
        assert!(text.contains("needed: private tls (no entry points)"), "{text}");
    }

    #[test]
    fn json_has_facts_findings_and_the_choice_with_reasons() {
        let json = serde_json::to_value(report(perfect())).unwrap();
        assert_eq!(json["possible"], true);
        assert_eq!(json["facts"]["runtime"]["fsgsbase"], true);
        assert_eq!(json["findings"][0]["status"], "ok");
        let clock =
            json["choice"].as_array().unwrap().iter().find(|c| c["name"] == "clock").unwrap();
        assert!(["timer-thread", "posix-timer"].contains(&clock["value"].as_str().unwrap()));
        assert!(clock["why"].as_str().unwrap().len() > 10);
    }
}
