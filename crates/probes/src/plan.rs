//! Where a function gets probes.
//!
//! The rule: without the blocks that have a probe, no cycle is left in the control flow of the
//! function, except loops that are known to end soon ([`crate::bounded`]) inside loops that are
//! not. It holds by construction: at the end, as long as there is a cycle, a block on it gets a
//! probe.
//!
//! Loops come before, innermost first, because the choice of a good place matters: one where the
//! flags are dead, in a block that every round passes. A loop whose rounds all pass a probe
//! already needs none.

use std::collections::HashMap;

use crate::bounded;
use crate::cfg::Cfg;
use crate::code::Code;
use crate::effects::Flow;
use crate::graph::{Graph, Loop};
use crate::liveness::Liveness;
use crate::regs::Regs;
use crate::replicate::{self, Region};

/// What to do with the loops.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether to insert probes; otherwise loops are replicated only.
    pub probes: bool,
    /// Whether probes are safepoints of the processor: they need no register and no flag.
    pub safepoints: bool,
    /// The most copies of a loop; below 2: none are made.
    pub copies: usize,
    /// Instructions that one probe should serve.
    pub target: usize,
    /// Whether each function has one at its entry as well.
    pub entries: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { probes: true, safepoints: false, copies: 16, target: 64, entries: false }
    }
}

/// A place for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The statement before which it is inserted.
    pub at: usize,
    /// The part in which that stands.
    pub part: usize,
    /// What is live there.
    pub live: Regs,
}

impl Probe {
    /// Whether the probe must save the flags.
    pub fn saves_flags(&self) -> bool {
        self.live.meets(Regs::FLAGS)
    }
}

/// What is done with a function.
#[derive(Debug, Default)]
pub struct Plan {
    /// Its probes.
    pub probes: Vec<Probe>,
    /// Its replicated loops.
    pub regions: Vec<Region>,
    /// Number of loops.
    pub loops: usize,
    /// Loops without a probe because they end soon.
    pub bounded: usize,
    /// Whether it has a probe that is there for recursion only.
    pub entry: bool,
    /// Statements of cycles in which no probe can stand.
    pub unprobed: Vec<usize>,
}

/// Plans a function. `recursive`: its calls that must lie behind a probe.
pub fn plan(
    code: &Code<'_>,
    cfg: &Cfg,
    live: &Liveness,
    recursive: &[usize],
    rules: &Rules,
) -> Plan {
    let mut loops = cfg.graph.loops(&cfg.roots());
    loops.sort_by_key(|found| (found.body.len(), found.header));
    let mut planner = Planner {
        code,
        cfg,
        live,
        safepoints: rules.safepoints,
        plan: Plan { loops: loops.len(), ..Plan::default() },
        probed: vec![false; cfg.blocks.len()],
        places: vec![None; cfg.blocks.len()],
        bounded: HashMap::new(),
        copies: Graph::default(),
        origin: Vec::new(),
        holds_probe: Vec::new(),
    };
    planner.bound(&loops, rules);
    planner.replicate(&loops, rules, rules.entries || !recursive.is_empty());
    if rules.probes {
        planner.copies();
        for found in &loops {
            planner.cut(found);
        }
        planner.cut_rest();
        if rules.entries {
            let _ = planner.insert(0, false) || planner.insert(0, true);
        }
        planner.recurse(&loops, recursive);
    }
    planner.plan
}

/// Whether the control flow without the blocks in `probed` has a cycle that does not end soon;
/// such a cycle's blocks.
pub fn open_cycle(code: &Code<'_>, cfg: &Cfg, probed: &[bool]) -> Option<Vec<usize>> {
    let everything: Vec<usize> = (0..cfg.blocks.len()).collect();
    let bounded =
        |number| bounded::iterations(code, cfg, number).is_some_and(|count| count <= MOST);
    let open = |from, to| from != to || !bounded(from);
    cfg.graph.cycle(&everything, |number| !probed[number], open)
}

/// Iterations that are few.
const MOST: u64 = 16;

/// Blocks of a function in which a good place is looked for.
const LARGEST: usize = 256;

struct Planner<'a, 't> {
    code: &'a Code<'t>,
    cfg: &'a Cfg,
    live: &'a Liveness,
    safepoints: bool,
    plan: Plan,
    /// Blocks that have a probe; where they are copied, in one of the copies.
    probed: Vec<bool>,
    /// The statements before which these stand.
    places: Vec<Option<usize>>,
    /// Blocks whose jump to themselves ends soon: after so many iterations.
    bounded: HashMap<usize, u64>,
    /// The control flow with copies: the first ones are numbered as the blocks are.
    copies: Graph,
    /// The block of each node.
    origin: Vec<usize>,
    /// Whether a probe of that block stands there.
    holds_probe: Vec<bool>,
}

impl Planner<'_, '_> {
    fn bound(&mut self, loops: &[Loop], rules: &Rules) {
        for found in loops {
            let [number] = found.body[..] else { continue };
            let enclosed = loops.iter().any(|other| other.body.len() > 1 && other.contains(number));
            let Some(count) = bounded::iterations(self.code, self.cfg, number) else { continue };
            let size = self.cfg.blocks[number].code.len() as u64;
            if enclosed && count <= MOST && count * size <= 2 * rules.target as u64 {
                self.bounded.insert(number, count);
                self.plan.bounded += 1;
            }
        }
    }

    /// Chooses what is replicated; not the function's entry if that may have `to_hold` a probe.
    fn replicate(&mut self, loops: &[Loop], rules: &Rules, to_hold: bool) {
        let mut used = vec![false; self.cfg.blocks.len()];
        used[0] = to_hold;
        for (at, found) in loops.iter().enumerate() {
            let few = |header: usize| self.bounded.contains_key(&header);
            let innermost =
                loops[..at].iter().all(|inner| !found.contains(inner.header) || few(inner.header));
            if !innermost || few(found.header) {
                continue;
            }
            let (most, target) = (rules.copies, rules.target);
            let region = replicate::region(self.code, self.cfg, found, &self.bounded, most, target);
            let Some(mut region) = region else { continue };
            if region.blocks.clone().any(|number| used[number]) {
                continue;
            }
            region.blocks.clone().for_each(|number| used[number] = true);
            // Inside another loop, which has its own, a loop of few rounds needs no probe.
            if loops[at + 1..].iter().any(|around| around.contains(found.header)) {
                region.probed = region.copies - 1;
            }
            self.plan.regions.push(region);
        }
    }

    /// Builds the control flow with copies.
    fn copies(&mut self) {
        let count = self.cfg.blocks.len();
        self.origin = (0..count).collect();
        self.holds_probe = vec![true; count];
        let mut region_of = vec![usize::MAX; count];
        let mut base = Vec::new();
        for (at, region) in self.plan.regions.iter().enumerate() {
            base.push(self.origin.len());
            region.blocks.clone().for_each(|number| {
                region_of[number] = at;
                self.holds_probe[number] = region.probed == 0;
            });
            for copy in 1..region.copies {
                self.origin.extend(region.blocks.clone());
                self.holds_probe.resize(self.origin.len(), copy == region.probed);
            }
        }
        let mut graph = Graph::new(self.origin.len());
        for number in 0..count {
            let Some(region) = self.plan.regions.get(region_of[number]) else {
                for &next in &self.cfg.graph.next[number] {
                    graph.add(number, next);
                }
                continue;
            };
            let first = *region.blocks.start();
            let length = region.blocks.end() - first + 1;
            let node = |block: usize, copy: usize| match copy {
                0 => block,
                _ => base[region_of[number]] + (copy - 1) * length + block - first,
            };
            for copy in 0..region.copies {
                for &next in &self.cfg.graph.next[number] {
                    let to = if next == first {
                        node(next, (copy + 1) % region.copies)
                    } else if region.blocks.contains(&next) {
                        node(next, copy)
                    } else {
                        next
                    };
                    graph.add(node(number, copy), to);
                }
            }
        }
        self.copies = graph;
    }

    /// Sees to it that whoever comes from the entry to one of these calls passes a probe: as late
    /// as possible, for many calls return without another one, such as those of a tree's leaves.
    fn recurse(&mut self, loops: &[Loop], calls: &[usize]) {
        if !self.is_reached(calls, None) {
            return;
        }
        let in_loop = |number| loops.iter().any(|found| found.contains(number));
        let mut order = self.cfg.graph.postorder(&[0]);
        let fits =
            |number: usize| !self.probed[number] && !self.is_copied(number) && !in_loop(number);
        order.retain(|&number| fits(number));
        if self.cfg.blocks.len() > LARGEST {
            order.clear();
        }
        let dominates = |number: usize| {
            let probe = self.find(number).filter(|probe| !probe.saves_flags());
            probe.is_some_and(|probe| !self.is_reached(calls, Some((number, probe.at))))
        };
        let place = order.iter().copied().find(|&number| dominates(number)).unwrap_or(0);
        self.plan.entry = !self.probed[place] && self.insert(place, false);
    }

    /// Whether a block is written several times: then only one of them has its probe.
    fn is_copied(&self, number: usize) -> bool {
        self.plan.regions.iter().any(|region| region.blocks.contains(&number))
    }

    /// Whether control comes to one of these calls without a probe, or `another` one in a block.
    fn is_reached(&self, calls: &[usize], another: Option<(usize, usize)>) -> bool {
        let mut work = self.cfg.roots();
        let mut seen = vec![false; self.cfg.blocks.len()];
        while let Some(number) = work.pop() {
            if std::mem::replace(&mut seen[number], true) {
                continue;
            }
            let place = match another {
                Some((block, at)) if block == number => Some(at),
                _ => self.places[number].filter(|_| !self.is_copied(number)),
            };
            let open = |index: &usize| place.is_none_or(|at| *index < at);
            let block = &self.cfg.blocks[number];
            if block.code.iter().any(|index| open(index) && calls.contains(index)) {
                return true;
            }
            if place.is_none() {
                work.extend(&self.cfg.graph.next[number]);
            }
        }
        false
    }

    /// Gives a loop a probe, if it needs one.
    fn cut(&mut self, found: &Loop) {
        let mut inside = vec![false; self.cfg.blocks.len()];
        found.body.iter().for_each(|&number| inside[number] = true);
        if !self.is_open(&inside) {
            return;
        }
        let mut candidates = vec![found.header];
        if let [latch] = found.latches[..] {
            candidates.push(latch);
        }
        // Of a loop around copies, not all rounds pass the last of them.
        let copied = found.body.iter().all(|&number| self.is_copied(number));
        candidates.retain(|&number| copied || self.holds_probe[number]);
        if candidates.iter().any(|&number| self.insert(number, false)) {
            return;
        }
        // Another block that all rounds pass.
        for &number in found.body.iter().take(64) {
            if self.probed[number] || candidates.contains(&number) || self.find(number).is_none() {
                continue;
            }
            self.probed[number] = true;
            let open = self.is_open(&inside);
            self.probed[number] = false;
            if !open && self.insert(number, false) {
                return;
            }
        }
        let _ = candidates.iter().any(|&number| self.insert(number, true));
    }

    /// Whether a cycle is left among the blocks of `inside` and their copies.
    fn is_open(&self, inside: &[bool]) -> bool {
        self.cycle(|number| inside[number]).is_some()
    }

    fn cycle(&self, inside: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let nodes: Vec<usize> =
            (0..self.origin.len()).filter(|&node| inside(self.origin[node])).collect();
        let cut = |node: usize| self.holds_probe[node] && self.probed[self.origin[node]];
        let allowed = |node: usize| inside(self.origin[node]) && !cut(node);
        let open =
            |from: usize, to: usize| from != to || !self.bounded.contains_key(&self.origin[from]);
        self.copies.cycle(&nodes, allowed, open)
    }

    fn cut_rest(&mut self) {
        while let Some(mut cycle) = self.cycle(|_| true) {
            cycle.retain(|&node| self.holds_probe[node]);
            cycle.iter_mut().for_each(|node| *node = self.origin[*node]);
            cycle.sort_unstable();
            // Best where a jump backward in the text goes to.
            let backward =
                |&number: &usize| self.cfg.graph.before[number].iter().any(|&from| from >= number);
            let (first, rest): (Vec<usize>, Vec<usize>) = cycle.iter().partition(|n| backward(n));
            let order: Vec<usize> = first.into_iter().chain(rest).collect();
            if order.iter().any(|&number| self.insert(number, false))
                || order.iter().any(|&number| self.insert(number, true))
            {
                continue;
            }
            // Nothing but inline assembly.
            let number = order[0];
            self.probed[number] = true;
            self.plan.unprobed.push(self.cfg.blocks[number].first);
        }
    }

    /// Inserts a probe into a block; only where the flags are dead, unless they `may_live`.
    fn insert(&mut self, number: usize, may_live: bool) -> bool {
        match self.find(number) {
            Some(probe) if !self.probed[number] && (may_live || !probe.saves_flags()) => {
                self.plan.probes.push(probe);
                self.probed[number] = true;
                self.places[number] = Some(probe.at);
                true
            }
            _ => false,
        }
    }

    /// The best place in a block: the first where the flags are dead, else the first.
    fn find(&self, number: usize) -> Option<Probe> {
        let block = &self.cfg.blocks[number];
        let points = self.live.points(self.code, self.cfg, number);
        let mut found: Option<Probe> = None;
        let mut pending = false;
        for (position, &index) in block.code.iter().enumerate() {
            let before = position.checked_sub(1).map(|position| block.code[position]);
            let free = !pending && may_precede(self.code, index, before);
            // The linker rewrites these with the call that follows, as one.
            let text = self.code.instruction(index);
            pending |= text.contains("@tlsgd") || text.contains("@tlsld");
            pending &= self.code.effects(index).flow != Flow::Call;
            if !free {
                continue;
            }
            let live = if self.safepoints { Regs::NONE } else { points.before[position] };
            let probe = Probe { at: index, part: block.part, live };
            if !probe.saves_flags() {
                return Some(probe);
            }
            found.get_or_insert(probe);
        }
        found
    }
}

/// Whether something may be inserted between statement `before` of the same block and `index`.
fn may_precede(code: &Code<'_>, index: usize, before: Option<usize>) -> bool {
    let opaque = |index: usize| code.effects(index).is_opaque();
    if opaque(index) || before.is_some_and(opaque) || code.glued.contains(&index) {
        return false;
    }
    // It must be what an indirect jump meets first.
    let decoded = code.effects(index).decoded;
    decoded.is_none_or(|decoded| decoded.mnemonic() != iced_x86::Mnemonic::Endbr64)
}
