//! RocksDB's benchmark, whose writers, readers and compactions are threads, on a database whose
//! content is then listed.

use super::{Launcher, Program};
use std::path::Path;

pub(super) struct DbBench;

impl Program for DbBench {
    fn name(&self) -> &'static str {
        "db_bench"
    }

    fn needs(&self) -> (&'static [&'static str], &'static str) {
        (&["db_bench", "ldb"], "rocksdb-tools")
    }

    fn prepare(&self, _: &Path, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn run(&self, launcher: &Launcher, directory: &Path) -> Result<Vec<u8>, String> {
        let db = directory.join("db");
        if db.exists() {
            std::fs::remove_dir_all(&db).map_err(|e| e.to_string())?;
        }
        let db = format!("--db={}", db.display());
        let common = [&db, "--num=10000", "--seed=7", "--compression_type=none"];
        let bench = |more: &[&str]| launcher.run("db_bench", &[&common, more].concat(), None);
        bench(&["--benchmarks=fillseq,compact"])?;
        let read =
            ["--benchmarks=readrandom,readwhilewriting", "--use_existing_db=1", "--threads=4"];
        let said = String::from_utf8_lossy(&bench(&read)?).into_owned();
        // "readrandom : 1.2 micros/op ...; (9999 of 9999 found)": the numbers are those of the
        // seed.
        let found = said.lines().find(|line| line.starts_with("readrandom"));
        let found = found.and_then(|line| line.rsplit_once('(')).map_or("nothing", |(_, n)| n);
        let mut result = format!("{found}\n").into_bytes();
        // The keys: what values the writers leave depends on who comes last.
        let listed = launcher.run("ldb", &[&db, "scan", "--hex"], None)?;
        for line in listed.split(|&byte| byte == b'\n') {
            result.extend(line.iter().take_while(|&&byte| byte != b' '));
            result.push(b'\n');
        }
        Ok(result)
    }
}
