//! The shell of SQLite, whose sorter has threads of its own.

use super::{Launcher, Program, Rng};
use std::path::Path;

pub(super) struct Sqlite3;

/// More rows than the cache holds, so that parts are sorted in the background while others are
/// read, and comparisons that take their time, so that several parts are sorted at once. `SEED` is
/// replaced.
const QUERIES: &str = "
pragma threads = 4;
pragma cache_size = 500;
create table t(a integer primary key, b text, c real);
with recursive r(i) as (select 1 union all select i + 1 from r where i < 60000)
    insert into t
    select i, printf('%040d', (i * 7919 + SEED) % 60013), (i * 31 + SEED) % 1009 / 3.0 from r;
create index tb on t(b collate nocase);
create index tc on t(c desc, b collate nocase);
create index td on t(length(b), b collate nocase desc);
select count(*), sum(a), min(b), max(b), round(sum(c), 3) from t;
select b, a from t order by c desc, b collate nocase limit 50 offset 40000;
select count(*), max(x)
    from (select b || a as x from t order by substr(b, 3) collate nocase, a limit 500 offset 30000);
pragma integrity_check;
";

impl Program for Sqlite3 {
    fn name(&self) -> &'static str {
        "sqlite3"
    }

    fn needs(&self) -> (&'static [&'static str], &'static str) {
        (&["sqlite3"], "sqlite3")
    }

    fn prepare(&self, directory: &Path, seed: u64) -> std::io::Result<()> {
        let seed = Rng(seed).below(60_000).to_string();
        std::fs::write(directory.join("queries"), QUERIES.replace("SEED", &seed))
    }

    fn run(&self, launcher: &Launcher, directory: &Path) -> Result<Vec<u8>, String> {
        launcher.run("sqlite3", &["-batch", ":memory:"], Some(&directory.join("queries")))
    }
}
