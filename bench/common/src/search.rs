//! The highest load that meets an objective.

/// The index of the highest load in an ascending list of `loads` that passes, by bisection, or
/// `None` when the lowest one tried fails. `passes(i)` offers load `i` and says whether the
/// objective was met.
///
/// Latency grows with load, so what passes is taken to be a prefix; the few loads that decide are
/// the only ones tried, about log2 of their number.
pub fn highest_passing(loads: usize, mut passes: impl FnMut(usize) -> bool) -> Option<usize> {
    // Invariant: everything below `low` passes, nothing from `high` on does.
    let (mut low, mut high) = (0, loads);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_boundary_in_few_tries() {
        for loads in 0..40 {
            for boundary in 0..=loads {
                let mut tries = 0;
                let found = highest_passing(loads, |i| {
                    tries += 1;
                    i < boundary
                });
                assert_eq!(found, boundary.checked_sub(1));
                assert!(
                    tries <= loads.checked_ilog2().map_or(0, |log| log + 1),
                    "{loads}: {tries}"
                );
            }
        }
    }
}
