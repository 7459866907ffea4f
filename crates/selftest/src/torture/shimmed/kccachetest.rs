//! The tests that Kyoto Cabinet brings: threads that write, read, remove and iterate in shared
//! tables.

use super::{Launcher, Program};
use std::path::Path;

pub(super) struct Kccachetest;

impl Program for Kccachetest {
    fn name(&self) -> &'static str {
        "kccachetest"
    }

    fn needs(&self) -> (&'static [&'static str], &'static str) {
        (&["kccachetest"], "kyotocabinet-utils")
    }

    fn prepare(&self, _: &Path, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn run(&self, launcher: &Launcher, _: &Path) -> Result<Vec<u8>, String> {
        let mut verdicts = Vec::new();
        for arguments in
            ["order -th 4 -etc 2000", "wicked -th 8 -it 2 2000", "tran -th 4 -it 2 2000"]
        {
            let words: Vec<_> = arguments.split(' ').collect();
            let said = launcher.run("kccachetest", &words, None)?;
            // The rest is times.
            let verdict = |line: &&str| line.starts_with("ok") || line.contains("error");
            let said = String::from_utf8_lossy(&said).into_owned();
            verdicts.extend(said.lines().filter(verdict).map(String::from));
        }
        Ok(verdicts.join("\n").into_bytes())
    }
}
