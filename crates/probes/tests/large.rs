//! The rule about cycles, on texts that are too large to be made here.

use std::{env, fs};

use quaver_probes::check::open_cycles;
use quaver_probes::{Assembler, Options, rewrite};

/// `QUAVER_TEXTS`: assembly texts of a compiler, separated by colons.
#[test]
#[ignore = "needs texts"]
fn no_cycle_without_probe() {
    let texts = env::var("QUAVER_TEXTS").expect("QUAVER_TEXTS names assembly texts");
    for path in texts.split(':') {
        let text = fs::read_to_string(path).expect("text");
        let folder = tempfile::tempdir().expect("a folder");
        let assembler = Assembler::default();
        let rewritten =
            rewrite(&text, &Options::default(), &assembler, folder.path()).expect("rewritten");
        println!("{path}: {:?}", rewritten.report);
        let text = rewritten.text.expect("probes");
        assert_eq!(open_cycles(&text, &assembler, folder.path()).expect("checked"), [], "{path}");
    }
}
