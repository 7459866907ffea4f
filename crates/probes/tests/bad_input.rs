//! What compilers and people hand to an assembler beside what compilers usually write: it works, or
//! there is a message with file and line. Never another program.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Bench, compilers, input, printed, run, tortured};
use quaver_probes::{Assembler, Options, rewrite};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quaver-as");

/// A folder in which `as` is quaver-as.
struct Hooked {
    bench: Bench,
    option: String,
}

impl Hooked {
    fn new() -> Self {
        let bench = Bench::new();
        fs::create_dir(bench.path("bin")).expect("a folder");
        symlink(PROGRAM, bench.path("bin/as")).expect("a link");
        let option = format!("-B{}", bench.path("bin").display());
        Hooked { bench, option }
    }

    fn command(&self, compiler: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(compiler);
        command.arg(&self.option).args(arguments).env("QUAVER_PROBES_VERBOSE", "1");
        if compiler.starts_with("clang") {
            command.arg("-fno-integrated-as");
        }
        command.current_dir(self.bench.folder.path());
        command
    }

    /// What the compiler says.
    fn compile(&self, compiler: &str, arguments: &[&str]) -> String {
        words(&run(&mut self.command(compiler, arguments)))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path(name)
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn program(name: &str) -> String {
    input("programs").join(name).display().to_string()
}

fn plain(bench: &Bench, compiler: &str, source: &str) -> String {
    let path = bench.path("plain");
    run(Command::new(compiler).args(["-w", "-O2", "-o"]).arg(&path).args([source, "-lm"]));
    printed(&path)
}

/// A line `FILE:LINE: quaver-as leaves ... WHY` for each text that is left alone.
fn says(message: &str, why: &str) -> bool {
    message.lines().any(|line| {
        let number = line.split(": quaver-as leaves").next().and_then(|at| at.rsplit(':').next());
        line.contains(why) && number.is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

#[test]
fn intel_syntax() {
    let hooked = Hooked::new();
    let source = program("loops.c");
    for compiler in compilers() {
        let expected = plain(&hooked.bench, compiler, &source);
        let message =
            hooked.compile(compiler, &["-w", "-O2", "-masm=intel", "-o", "intel", &source]);
        assert!(says(&message, ".intel_syntax"), "{compiler}: {message}");
        assert_eq!(printed(&hooked.path("intel")), expected, "{compiler}");
    }
}

#[test]
fn text_that_moves_to_a_subsection() {
    let hooked = Hooked::new();
    let text = "#include <stdio.h>\nint main(void) {\n int s = 0;\n for (int i = 0; i < 9; i++)\n\
                __asm__ volatile(\"jmp 1f; .subsection 1; 1: incl %0; jmp 2f; .previous; 2:\"\n\
                : \"+r\"(s));\n printf(\"%d\\n\", s);\n}\n";
    hooked.bench.write("sub.c", text);
    for compiler in compilers() {
        let message = hooked.compile(compiler, &["-O2", "-o", "sub", "sub.c"]);
        assert!(says(&message, ".subsection"), "{compiler}: {message}");
        assert_eq!(printed(&hooked.path("sub")), "9\n");
    }
}

/// Assembly files: compiled text gets probes, preprocessed text is left alone.
#[test]
fn assembly_files() {
    let hooked = Hooked::new();
    let source = program("loops.c");
    let expected = plain(&hooked.bench, "gcc", &source);
    run(Command::new("gcc").args(["-w", "-O2", "-S", "-o"]).arg(hooked.path("a.s")).arg(&source));
    let message = hooked.compile("gcc", &["-o", "lower", "a.s"]);
    assert_eq!((printed(&hooked.path("lower")), &*message), (expected.clone(), ""));
    assert!(has_probe(&hooked.path("lower")));
    fs::copy(hooked.path("a.s"), hooked.path("b.S")).expect("copied");
    let message = hooked.compile("gcc", &["-o", "upper", "b.S"]);
    assert!(says(&message, "preprocessor"), "{message}");
    assert_eq!(printed(&hooked.path("upper")), expected);
}

fn has_probe(program: &Path) -> bool {
    let bytes = fs::read(program).expect("a program");
    bytes.windows(9).any(|window| window == [0x64, 0x80, 0x3c, 0x25, 0x80, 0, 0, 0, 0])
}

/// Options in a file, with white space in a path.
#[test]
fn response_files() {
    let hooked = Hooked::new();
    let source = program("control.c");
    let options = format!("-w -O2 -pipe\n-Wa,--noexecstack -o 'a program' \"{source}\" -pthread");
    hooked.bench.write("options", &options);
    for compiler in compilers() {
        let expected = plain(&hooked.bench, compiler, &source);
        hooked.compile(compiler, &["@options"]);
        assert!(has_probe(&hooked.path("a program")), "{compiler}");
        assert_eq!(printed(&hooked.path("a program")), expected, "{compiler}");
    }
}

/// Objects without probes, and with those of other settings, in one program; then one of them is
/// made anew.
#[test]
fn mixed_objects() {
    let hooked = Hooked::new();
    let parts = ["one", "two", "three"];
    let write = |number: usize, factor: u32| {
        let name = parts[number];
        let text = format!(
            "unsigned {name}(unsigned n) {{ unsigned s = n; \
             for (unsigned i = 0; i < 500; i++) s = s * {factor} + (s >> 7) + i; return s; }}\n"
        );
        hooked.bench.write(&format!("{name}.c"), &text);
    };
    hooked.bench.write(
        "main.c",
        "#include <stdio.h>\nunsigned one(unsigned), two(unsigned), three(unsigned);\n\
         int main(void) { for (unsigned i = 0; i < 20; i++) \
         printf(\"%u\\n\", one(i) ^ two(i) * 3 ^ three(i) * 7); }\n",
    );
    (0..3).for_each(|number| write(number, 5 + 2 * number as u32));
    let torture = hooked.bench.torture();
    let link = |name: &str| {
        let objects = ["main", "one", "two", "three"].map(|n| hooked.path(&format!("{n}.o")));
        hooked.bench.link(name, &[], &[&objects[..], &torture].concat())
    };
    let expected = || {
        let sources = ["main.c", "one.c", "two.c", "three.c"];
        let mut command = Command::new("gcc");
        command.current_dir(hooked.bench.folder.path()).args(["-O2", "-o", "all"]).args(sources);
        run(&mut command);
        printed(&hooked.path("all"))
    };
    let build = |name: &str, set: &[(&str, &str)]| {
        let mut command = hooked.command("gcc", &["-O2", "-c", &format!("{name}.c")]);
        run(command.envs(set.iter().copied()));
    };
    run(Command::new("gcc").current_dir(hooked.bench.folder.path()).args(["-O2", "-c", "one.c"]));
    build("main", &[]);
    build("two", &[("QUAVER_PROBES_REPLICATE", "0")]);
    build("three", &[("QUAVER_PROBES", "off")]);
    let (found, hits) = tortured(&link("mixed"), Some("3"));
    assert!(hits > 1000, "{hits}");
    assert_eq!(found, expected());
    write(2, 23);
    build("three", &[]);
    let (found, more) = tortured(&link("again"), Some("3"));
    assert!(more > hits, "{more} {hits}");
    assert_eq!(found, expected());
}

/// The compiler's message names the assembler that cannot be run, and what to do.
#[test]
fn no_assembler() {
    let hooked = Hooked::new();
    let source = program("loops.c");
    for compiler in compilers() {
        let mut command = hooked.command(compiler, &["-w", "-O2", "-c", &source]);
        let output = command.env("QUAVER_PROBES_ASSEMBLER", "/nowhere/as").output();
        let output = output.expect("started");
        assert!(!output.status.success(), "{compiler}");
        let message = words(&output);
        assert!(message.contains("/nowhere/as") && message.contains("--assembler"), "{message}");
    }
}

/// Errors in inline assembly: the assembler's own message, with the line of the text.
#[test]
fn errors_of_the_assembler() {
    let hooked = Hooked::new();
    let text = "int f(int n) {\n int s = 0;\n for (int i = 0; i < n; i++)\n\
                __asm__ volatile(\"frobnicate %0\" : \"+r\"(s));\n return s;\n}\n";
    hooked.bench.write("bad.c", text);
    for compiler in compilers() {
        let output = hooked.command(compiler, &["-O2", "-c", "bad.c"]).output().expect("started");
        assert!(!output.status.success(), "{compiler}");
        let message = words(&output);
        assert!(message.contains("frobnicate"), "{compiler}: {message}");
        // gcc gives the line of the source, as it marks it.
        assert!(compiler != "gcc" || message.contains("bad.c:4"), "{message}");
    }
}

/// Texts with random damage: no panic, and what is rewritten is refused only where the damaged text
/// itself is.
#[test]
fn damaged_texts() {
    let bench = Bench::new();
    let text = bench.compile("gcc", &["-O1", "-g0"], "loops.c");
    let throws = bench.compile("gcc", &["-O1", "-g0"], "throws.cpp");
    let assembler = Assembler::default();
    let mut random = Random(88172645463325252);
    let count = if std::env::var_os("QUAVER_TEST_FULL").is_some() { 1000 } else { 40 };
    let mut rewritten = 0;
    for round in 0..count {
        let damaged = random.damage(if round % 2 == 0 { &text } else { &throws });
        let folder = tempfile::tempdir_in(bench.folder.path()).expect("a folder");
        let result = rewrite(&damaged, &Options::default(), &assembler, folder.path());
        let result = result.expect("an assembler");
        let Some(new) = result.text else { continue };
        rewritten += 1;
        let object = bench.path("damaged.o");
        let fails = |text: &str| assembler.assemble(text, folder.path(), &object).is_err();
        assert!(!fails(&new) || fails(&damaged), "round {round}: {:?}", result.report);
    }
    assert!(rewritten > count / 4, "{rewritten} of {count}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    /// A line is left out, repeated, moved, cut, or one of its letters is another.
    fn damage(&mut self, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for _ in 0..1 + self.below(3) {
            let (at, to) = (self.below(lines.len()), self.below(lines.len()));
            match self.below(5) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(to, lines[at].clone()),
                2 => lines.swap(at, to),
                3 => {
                    let cut = self.below(lines[at].len() + 1);
                    lines[at].truncate(cut);
                }
                _ => {
                    let letter = b"\"#;:,()$%.\\x0 "[self.below(14)] as char;
                    let place = self.below(lines[at].len() + 1);
                    lines[at].insert(place, letter);
                }
            }
        }
        lines.join("\n") + "\n"
    }
}
