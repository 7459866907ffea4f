//! Which program is built next, by what, and how.

use super::source::Source;

/// Levels of optimisation.
pub const LEVELS: [&str; 5] = ["-O2", "-O0", "-O3", "-Os", "-O1"];

/// A program, a compiler and a level.
#[derive(Clone, Debug)]
pub struct Build {
    /// The program.
    pub source: Source,
    /// The C compiler's name.
    pub compiler: String,
    /// The level of optimisation.
    pub level: &'static str,
    /// The scale of its work.
    pub scale: f64,
}

/// The work of the programs at first: a million hits or two for each.
const SCALE: f64 = 0.002;

/// Number of different builds.
pub fn count(sources: usize, compilers: usize) -> usize {
    sources * compilers * LEVELS.len()
}

/// Build `number` of an endless sequence. Each turn has every program once. After as many turns as
/// there are compilers and levels each has been built in all ways, and the work doubles.
pub fn nth(number: usize, sources: &[Source], compilers: &[String]) -> Build {
    let ways = compilers.len() * LEVELS.len();
    let (turn, at) = (number / sources.len(), number % sources.len());
    let way = (turn + at) % ways;
    Build {
        source: sources[at].clone(),
        compiler: compilers[way % compilers.len()].clone(),
        level: LEVELS[way / compilers.len()],
        scale: (SCALE * f64::powi(2.0, (turn / ways).min(6) as i32)).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::source;
    use std::collections::HashSet;

    #[test]
    fn turns_cover_everything() {
        let (sources, compilers) = (source::all(), ["gcc".to_owned(), "clang".to_owned()]);
        let all = count(sources.len(), compilers.len());
        let builds: Vec<_> = (0..=all).map(|n| nth(n, &sources, &compilers)).collect();
        let name = |build: &Build| build.source.name.clone();
        let first: HashSet<_> = builds[..sources.len()].iter().map(name).collect();
        assert_eq!(first.len(), sources.len());
        let ways: HashSet<_> =
            builds[..sources.len()].iter().map(|b| (b.compiler.clone(), b.level)).collect();
        assert_eq!(ways.len(), 10);
        let key = |b: &Build| (name(b), b.compiler.clone(), b.level);
        assert_eq!(builds[..all].iter().map(key).collect::<HashSet<_>>().len(), all);
        assert!(builds[all - 1].scale == SCALE && builds[all].scale == 2.0 * SCALE);
    }
}
