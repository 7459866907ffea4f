//! From text to text.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use crate::abi::VectorClass;
use crate::assembler::{Assembler, Error};
use crate::calls::Calls;
use crate::cfg::{Cfg, Left};
use crate::cfi;
use crate::code::Code;
use crate::functions::Function;
use crate::liveness::Liveness;
use crate::parse::{Unknown, parse};
use crate::plan::{Plan, Probe, Rules, plan};
use crate::replicate::{self, Region};
use crate::report::{LeftAlone, Report};
use crate::source::{Kind, Source};
use crate::stub::Stub;

/// How to rewrite.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What to do with loops.
    pub rules: Rules,
    /// The least width of vector registers that functions of the text may pass to each other
    /// without touching them. Wider ones are taken from the text's own instructions.
    pub vectors: VectorClass,
    /// Whether to rewrite a text that names no compiler (`.ident`).
    pub trust: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { rules: Rules::default(), vectors: VectorClass::Xmm, trust: false }
    }
}

/// A rewritten text.
#[derive(Debug)]
pub struct Rewritten {
    /// The text; none where it stays as it was.
    pub text: Option<String>,
    /// What was done.
    pub report: Report,
}

/// A place at which xUI's processors take an interrupt: a prefix that others ignore. It changes
/// nothing, so it has neither stub nor note.
const SAFEPOINT: &str = "\t.byte\t0x36\n\tnop\n";

/// What labels of ours begin with.
pub(crate) const PREFIX: &str = ".Lqv";

/// Inserts probes into `text`. The assembler's files go to `folder`.
///
/// # Errors
///
/// Where the assembler cannot be run. A text that is not understood is not an error: it stays as
/// it was, and the report says why.
pub fn rewrite(
    text: &str,
    options: &Options,
    assembler: &Assembler,
    folder: &Path,
) -> Result<Rewritten, Error> {
    let leave = |unknown: Unknown| {
        let left = LeftAlone { function: String::new(), line: unknown.line, why: unknown.why };
        Rewritten { text: None, report: Report { left_file: Some(left), ..Report::default() } }
    };
    let source = match parse(text) {
        Ok(source) => source,
        Err(unknown) => return Ok(leave(unknown)),
    };
    if !source.compiled && !options.trust {
        let why = "no `.ident` of a compiler".to_owned();
        return Ok(leave(Unknown { line: 1, why }));
    }
    if let Some(at) = text.find(PREFIX) {
        let line = 1 + text[..at].matches('\n').count() as u32;
        return Ok(leave(Unknown { line, why: "it has probes already".into() }));
    }
    let code = match Code::new(&source, options.vectors, assembler, folder) {
        Ok(code) => code,
        Err(Error::Refused { message, .. }) => {
            let why = format!("the assembler refuses it: {}", message.trim());
            return Ok(leave(Unknown { line: 1, why }));
        }
        Err(error) => return Err(error),
    };
    let mut editor = Editor { code: &code, edits: Vec::new(), names: 0, report: Report::default() };
    let calls = Calls::new(&code);
    for (number, function) in code.functions.all.iter().enumerate() {
        let recursive = &calls.recursive[number];
        if let Err(left) = editor.function(function, recursive, &options.rules) {
            let line = source.statements[left.at].line;
            let function = code.functions.parts[function.parts[0]].name.to_owned();
            editor.report.left.push(LeftAlone { function, line, why: left.why.to_owned() });
        }
    }
    for &at in &code.functions.foreign {
        let function = match source.statements[at].kind {
            Kind::Label(name) => name.to_owned(),
            _ => String::new(),
        };
        let why = "assembly text of the program".to_owned();
        editor.report.left.push(LeftAlone { function, line: source.statements[at].line, why });
    }
    editor.report.functions = code.functions.all.len();
    let report = std::mem::take(&mut editor.report);
    let text = (!editor.edits.is_empty()).then(|| editor.apply());
    Ok(Rewritten { text, report })
}

/// The text put together again from its statements: the same text.
///
/// # Errors
///
/// Where it is not understood.
pub fn reassemble(text: &str) -> Result<String, Unknown> {
    let source = parse(text)?;
    Ok((0..source.statements.len()).map(|index| &text[source.span(index)]).collect())
}

/// New text for a range of the old one. Of those that begin at the same place, the smaller `order`
/// comes first.
struct Edit {
    range: Range<usize>,
    order: u8,
    text: String,
}

struct Editor<'a, 't> {
    code: &'a Code<'t>,
    edits: Vec<Edit>,
    /// Names given so far.
    names: usize,
    report: Report,
}

impl Editor<'_, '_> {
    fn function(
        &mut self,
        function: &Function,
        recursive: &[usize],
        rules: &Rules,
    ) -> Result<(), Left> {
        let cfg = Cfg::new(self.code, function)?;
        self.report.instructions += cfg.blocks.iter().map(|block| block.code.len()).sum::<usize>();
        let nothing = recursive.is_empty() && cfg.graph.loops(&cfg.roots()).is_empty();
        if nothing && !rules.entries {
            return Ok(());
        }
        let live = Liveness::new(self.code, &cfg);
        let plan = plan(self.code, &cfg, &live, recursive, rules);

        let mut edits = Vec::new();
        // Those in later copies of loops, by their statements.
        let mut copied = HashMap::new();
        let later = |region: &Region, at| region.probed > 0 && region.statements.contains(&at);
        let is_copied = |at| plan.regions.iter().any(|region| later(region, at));
        for &part in &function.parts {
            let mut probes: Vec<Probe> =
                plan.probes.iter().filter(|probe| probe.part == part).copied().collect();
            probes.sort_by_key(|probe| probe.at);
            let texts = if rules.safepoints {
                vec![SAFEPOINT.to_owned(); probes.len()]
            } else {
                self.probes(part, &probes, &mut edits)?
            };
            for (probe, text) in probes.iter().zip(texts) {
                if is_copied(probe.at) {
                    copied.insert(probe.at, text);
                } else {
                    edits.push(self.insertion(probe.at, text));
                }
            }
        }
        for region in &plan.regions {
            let name = self.name();
            let copies = replicate::copies(self.code, &cfg, region, &copied, &name);
            for (index, text) in copies.changed {
                edits.push(Edit { range: self.code.source.span(index), order: 2, text });
            }
            let end = self.code.source.span(*region.statements.end()).end;
            edits.push(Edit { range: end..end, order: 0, text: copies.text });
        }
        self.report.added_instructions += self.added(&edits);
        self.edits.append(&mut edits);
        self.count(function, &plan);
        Ok(())
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("{PREFIX}{}", self.names)
    }

    /// The probes of one part; their stubs are put at its end.
    fn probes(
        &mut self,
        part: usize,
        probes: &[Probe],
        edits: &mut Vec<Edit>,
    ) -> Result<Vec<String>, Left> {
        if probes.is_empty() {
            return Ok(Vec::new());
        }
        let source = self.code.source;
        let part = &self.code.functions.parts[part];
        let places: Vec<usize> = probes.iter().map(|probe| probe.at).collect();
        let why = "a directive for unwinding that is not known";
        let states = cfi::states(self.code, part, &places).map_err(|at| Left { at, why })?;
        let (states, mut before) = match &states {
            Some((states, end)) => (Some(states), Some(end)),
            None => (None, None),
        };
        let (mut texts, mut stubs) = (Vec::new(), String::new());
        for (at, &probe) in probes.iter().enumerate() {
            let state = states.and_then(|states| states.get(at));
            let location = location(source, part.first, probe.at);
            let stub = Stub { probe, name: self.name(), state, location };
            texts.push(stub.probe());
            stubs.push_str(&stub.stub(before));
            before = state;
        }
        edits.push(self.insertion(part.end, stubs));
        Ok(texts)
    }

    /// `text` on lines of its own before statement `index`.
    fn insertion(&self, index: usize, text: String) -> Edit {
        let source = self.code.source;
        let at = source.statements.get(index).map_or(source.text.len(), |next| next.start);
        let inside = at > 0 && source.text.as_bytes()[at - 1] != b'\n';
        let text = if inside { format!("\n{text}") } else { text };
        Edit { range: at..at, order: 1, text }
    }

    /// Instructions that `edits` add to the text.
    fn added(&self, edits: &[Edit]) -> usize {
        let old = |edit: &Edit| instructions(&self.code.source.text[edit.range.clone()]);
        edits.iter().map(|edit| instructions(&edit.text).saturating_sub(old(edit))).sum()
    }

    fn count(&mut self, function: &Function, plan: &Plan) {
        let report = &mut self.report;
        report.loops += plan.loops;
        report.probes += plan.probes.len();
        report.entry_probes += usize::from(plan.entry);
        report.saved_flags += plan.probes.iter().filter(|probe| probe.saves_flags()).count();
        for probe in &plan.probes {
            report.classes[probe.live.class() as usize] += 1;
        }
        report.replicated += plan.regions.len();
        report.copies += plan.regions.iter().map(|region| region.copies - 1).sum::<usize>();
        report.bounded += plan.bounded;
        for &at in &plan.unprobed {
            let function = self.code.functions.parts[function.parts[0]].name.to_owned();
            let line = self.code.source.statements[at].line;
            let why = "a loop of inline assembly".to_owned();
            report.unprobed.push(LeftAlone { function, line, why });
        }
    }

    fn apply(mut self) -> String {
        self.edits.sort_by_key(|edit| (edit.range.start, edit.order));
        let old = self.code.source.text;
        let added: usize = self.edits.iter().map(|edit| edit.text.len()).sum();
        let mut text = String::with_capacity(old.len() + added);
        let mut from = 0;
        for edit in &self.edits {
            text.push_str(&old[from..edit.range.start]);
            text.push_str(&edit.text);
            from = edit.range.end;
        }
        text.push_str(&old[from..]);
        text
    }
}

/// The instructions in a text of compilers, each on a line of its own.
fn instructions(text: &str) -> usize {
    let is = |line: &&str| {
        line.strip_prefix('\t')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    text.lines().filter(is).count()
}

/// The arguments of the `.loc` in force before statement `at` of a part that begins at `first`.
fn location<'t>(source: &Source<'t>, first: usize, at: usize) -> Option<&'t str> {
    let found =
        source.statements[first..at].iter().rev().find_map(|statement| match statement.kind {
            Kind::Directive(".loc", arguments) => Some(arguments),
            _ => None,
        })?;
    Some(found.split(" view ").next().unwrap_or(found))
}
