//! The sources of this crate, for who compiles it for something else than this machine's kernel:
//! `quaver core figure 7` runs policies on its model of a core.

macro_rules! sources {
    ($($path:literal)*) => {
        /// Each file's path below `src`, and its text. `lib.rs` is the first; no other crate is
        /// needed.
        pub const SOURCES: &[(&str, &str)] = &[$(($path, include_str!($path))),*];
    };
}

sources! {
    "lib.rs"
    "attributes.rs"
    "clock.rs"
    "clock/pace.rs"
    "duration.rs"
    "policies/adaptive.rs"
    "policies/cfs.rs"
    "policies/eevdf.rs"
    "policies/fifo.rs"
    "policies/history.rs"
    "policies/las.rs"
    "policies/looks.rs"
    "policies/mod.rs"
    "policies/priority.rs"
    "policies/resumed.rs"
    "policies/rr.rs"
    "policies/shenango.rs"
    "policies/turns.rs"
    "policies/two_queue.rs"
    "policies/ws.rs"
    "policy.rs"
    "queue/heap.rs"
    "queue/list.rs"
    "queue/local.rs"
    "queue/mod.rs"
    "queue/moves.rs"
    "queue/ring.rs"
    "queue/workers.rs"
    "random.rs"
    "settings.rs"
    "share/budget.rs"
    "share/demand.rs"
    "share/keep.rs"
    "share/membership.rs"
    "share/mod.rs"
    "share/turns.rs"
    "spec.rs"
    "spec/error.rs"
    "spec/heap.rs"
    "spec/seat.rs"
    "spec/table.rs"
    "steps.rs"
    "sync.rs"
    "table.rs"
    "table/site.rs"
    "tax.rs"
    "timers.rs"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::{fs, string::String, vec::Vec};

    fn files(folder: &Path, all: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, all);
            } else {
                all.push(path.to_str().unwrap().into());
            }
        }
    }

    #[test]
    fn none_is_missing() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut there = Vec::new();
        files(&source, &mut there);
        for path in there {
            let name = path.strip_prefix(source.to_str().unwrap()).unwrap().trim_matches('/');
            let not_needed = ["tests.rs", "model.rs", "sources.rs"];
            let needed = !not_needed.iter().any(|end| name.ends_with(end));
            let listed = SOURCES.iter().any(|(known, _)| *known == name);
            assert_eq!(listed, needed, "{name}");
        }
        assert_eq!(SOURCES[0].0, "lib.rs");
    }
}
