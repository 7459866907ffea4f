//! Who calls whom, by name, within a text.
//!
//! A recursive function without a loop can run for long as well: on every cycle of these calls at
//! least one function passes a probe before it calls the next. Calls through pointers are not seen.

use std::collections::HashMap;

use crate::code::Code;
use crate::effects::Flow;
use crate::graph::Graph;
use crate::source::{Kind, names, split};

/// The calls among the functions of a text, which are numbered as in
/// [`Functions::all`](crate::functions::Functions::all).
pub struct Calls {
    /// The statements of its calls that must lie behind a probe.
    pub recursive: Vec<Vec<usize>>,
}

impl Calls {
    /// Finds the calls in `code`.
    pub fn new(code: &Code<'_>) -> Self {
        let count = code.functions.all.len();
        let of_name = names_of_functions(code);
        let mut graph = Graph::new(count);
        let mut calls: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
        for (caller, function) in code.functions.all.iter().enumerate() {
            for &part in &function.parts {
                let part = &code.functions.parts[part];
                for index in part.first..part.end {
                    let text = code.instruction(index);
                    if text.is_empty() || !leaves(code, index) {
                        continue;
                    }
                    let name = names(split(text).1).next();
                    let Some(&callee) = name.and_then(|(_, name)| of_name.get(name)) else {
                        continue;
                    };
                    graph.add(caller, callee);
                    calls[caller].push((index, callee));
                }
            }
        }
        // Of the functions on a cycle, the first one on the way from somewhere is a header, and all
        // the others are in its loop: so is the next one, which it calls.
        let everything: Vec<usize> = (0..count).collect();
        let mut recursive = vec![Vec::new(); count];
        for found in graph.loops(&everything) {
            let back = calls[found.header].iter().filter(|(_, callee)| found.contains(*callee));
            recursive[found.header] = back.map(|&(index, _)| index).collect();
        }
        Calls { recursive }
    }
}

fn leaves(code: &Code<'_>, index: usize) -> bool {
    matches!(code.effects(index).flow, Flow::Call | Flow::Jump | Flow::Branch | Flow::Indirect)
}

fn names_of_functions<'t>(code: &Code<'t>) -> HashMap<&'t str, usize> {
    let mut of_name = HashMap::new();
    for (number, function) in code.functions.all.iter().enumerate() {
        for &part in &function.parts {
            let part = &code.functions.parts[part];
            for index in part.first..part.end {
                if let Kind::Label(name) = code.source.statements[index].kind
                    && code.labels.functions.contains(name)
                {
                    of_name.insert(name, number);
                }
            }
            if !part.name.is_empty() {
                of_name.insert(part.name, number);
            }
        }
    }
    for statement in &code.source.statements {
        if let Kind::Directive(".set" | ".equ" | "=", arguments) = statement.kind {
            let mut pair = names(arguments).map(|(_, name)| name);
            if let (Some(alias), Some(name)) = (pair.next(), pair.next())
                && let Some(&number) = of_name.get(name)
            {
                of_name.insert(alias, number);
            }
        }
    }
    of_name
}
