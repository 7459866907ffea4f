//! A call of rustc, taken apart.

use std::collections::HashMap;
use std::ffi::OsString;

/// What matters in the arguments that cargo gives to rustc.
#[derive(Debug, Default)]
pub struct Invocation {
    /// `--crate-name`.
    pub name: String,
    /// `--crate-type`; a test is a `bin`.
    pub types: Vec<String>,
    /// `--out-dir`.
    pub folder: String,
    /// Whether `--target` is there and something is linked: no build script, no macro, no check.
    pub ours: bool,
    /// The options of `-C`; the last of each name counts.
    codegen: HashMap<String, String>,
}

/// What becomes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is compiled as if this program were not there.
    Plain,
    /// Bitcode for the crate that is linked.
    Bitcode,
    /// An object with probes.
    Object,
}

impl Invocation {
    /// Reads the arguments.
    pub fn new(arguments: &[OsString]) -> Invocation {
        let mut call = Invocation::default();
        let (mut target, mut linked, mut test) = (false, false, false);
        let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (&**word, None),
            };
            let mut value = || value.clone().or_else(|| rest.next().map(|next| next.to_string()));
            match name {
                "--crate-name" => call.name = value().unwrap_or_default(),
                "--crate-type" => {
                    call.types.extend(value().unwrap_or_default().split(',').map(str::to_owned));
                }
                "--out-dir" => call.folder = value().unwrap_or_default(),
                "--target" => target = value().is_some(),
                "--emit" => {
                    let kinds = value().unwrap_or_default();
                    linked |= kinds.split(',').any(|kind| kind.split('=').next() == Some("link"));
                }
                "--test" => test = true,
                "-C" | "--codegen" => call.option(&value().unwrap_or_default()),
                _ if word.starts_with("-C") => call.option(&word[2..]),
                _ => {}
            }
        }
        if test || call.types.is_empty() {
            call.types = vec!["bin".into()];
        }
        call.ours = target
            && linked
            && !call.folder.is_empty()
            && !call.types.iter().any(|kind| kind == "proc-macro");
        call
    }

    fn option(&mut self, text: &str) {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        self.codegen.insert(name.replace('_', "-"), value.to_owned());
    }

    /// The value of an option of `-C`; empty where it has none.
    pub fn codegen(&self, name: &str) -> Option<&str> {
        self.codegen.get(name).map(String::as_str)
    }

    /// An option of `-C` that is on or off.
    fn is_on(&self, name: &str) -> bool {
        self.codegen(name).is_some_and(|value| !matches!(value, "n" | "no" | "off" | "false"))
    }

    /// Whether it makes a program or a shared library.
    pub fn links(&self) -> bool {
        self.types.iter().any(|kind| matches!(kind.as_str(), "bin" | "cdylib" | "dylib"))
    }

    /// What it may be that is linked.
    pub fn linked(&self) -> [String; 2] {
        let extra = self.codegen("extra-filename").unwrap_or_default();
        let Invocation { folder, name, .. } = self;
        [format!("{folder}/{name}{extra}"), format!("{folder}/lib{name}{extra}.so")]
    }

    /// Whether bitcode goes to the linker, which then optimises.
    pub fn leaves_it_to_the_linker(&self) -> bool {
        self.ours && self.is_on("linker-plugin-lto") && self.links()
    }

    /// Whether the whole program becomes one text.
    pub fn is_whole(&self) -> bool {
        match self.codegen("lto") {
            Some("thin") => true,
            _ => self.is_on("lto"),
        }
    }

    /// What becomes of the unit.
    pub fn form(&self) -> Form {
        match self.ours {
            false => Form::Plain,
            true if self.is_on("linker-plugin-lto") => Form::Bitcode,
            true => Form::Object,
        }
    }

    /// The archives that hold the object: the rlib and the static library. An rlib with bitcode for
    /// crates that are optimised as a whole, beside the object, stays as it is.
    pub fn archives(&self) -> Vec<String> {
        let extra = self.codegen("extra-filename").unwrap_or_default();
        let bitcode = !self.codegen.contains_key("embed-bitcode") || self.is_on("embed-bitcode");
        let mut archives = Vec::new();
        for kind in &self.types {
            if is_rlib(kind) && !bitcode {
                archives.push(format!("{}/lib{}{extra}.rlib", self.folder, self.name));
            } else if kind == "staticlib" {
                archives.push(format!("{}/lib{}{extra}.a", self.folder, self.name));
            }
        }
        archives
    }
}

fn is_rlib(kind: &str) -> bool {
    matches!(kind, "lib" | "rlib")
}

/// The arguments without `-C incremental`, which would spread the crate over many units.
pub fn without_incremental(arguments: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut rest = arguments.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let next = rest.peek().map(|next| next.to_string_lossy());
        if matches!(&*text, "-C" | "--codegen")
            && next.is_some_and(|next| next.starts_with("incremental="))
        {
            rest.next();
        } else if !text.starts_with("-Cincremental=") {
            kept.push(word.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn call(text: &str) -> Invocation {
        Invocation::new(&words(text))
    }

    const LIBRARY: &str = "rustc --crate-name a_b src/lib.rs --crate-type lib \
                           --emit=dep-info,metadata,link -C embed-bitcode=no --out-dir /t \
                           -C extra-filename=-12 --target x86_64-unknown-linux-gnu";

    #[test]
    fn libraries_are_archives() {
        let library = call(LIBRARY);
        assert_eq!((library.name.as_str(), library.form()), ("a_b", Form::Object));
        assert_eq!(library.archives(), ["/t/liba_b-12.rlib"]);
        assert!(!library.links());
        let both = call(&LIBRARY.replace("lib --emit", "rlib --crate-type cdylib --emit"));
        assert!(both.links() && both.archives().len() == 1);
        // Its bitcode is what counts.
        let bitcode = call(&LIBRARY.replace(" -C embed-bitcode=no", ""));
        assert_eq!(bitcode.archives(), [""; 0]);
    }

    #[test]
    fn what_stays_plain() {
        let script = LIBRARY.replace(" --target x86_64-unknown-linux-gnu", "");
        assert_eq!(call(&script).form(), Form::Plain);
        assert_eq!(call(&LIBRARY.replace("type lib", "type proc-macro")).form(), Form::Plain);
        assert_eq!(call(&LIBRARY.replace(",link", "")).form(), Form::Plain);
        assert_eq!(call("rustc - --crate-name ___ --print=cfg --target x").form(), Form::Plain);
        assert_eq!(call("rustc -vV").form(), Form::Plain);
    }

    #[test]
    fn whole_programs() {
        let library = format!("{LIBRARY} -C linker-plugin-lto");
        assert_eq!(call(&library).form(), Form::Bitcode);
        assert!(!call(&library).leaves_it_to_the_linker());
        let program = LIBRARY.replace("lib --emit", "bin --emit");
        assert!(!call(&program).is_whole());
        assert!(!call(&format!("{program} -C lto=off")).is_whole());
        for lto in ["-C lto=fat", "-Clto", "-C lto=thin"] {
            let whole = call(&format!("{program} {lto}"));
            assert!(whole.is_whole() && whole.links(), "{lto}");
        }
        assert!(call(&format!("{program} -C linker-plugin-lto")).leaves_it_to_the_linker());
        let test = LIBRARY.replace("--crate-type lib", "--test");
        assert_eq!(call(&test).types, ["bin"]);
    }

    #[test]
    fn nothing_is_incremental() {
        let given = words("a -C incremental=/x -C debuginfo=2 -Cincremental=/y b");
        assert_eq!(without_incremental(&given), words("a -C debuginfo=2 b"));
    }
}
