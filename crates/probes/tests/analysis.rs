//! Control flow, liveness, places and copies, on small texts.

use quaver_probes::abi::VectorClass;
use quaver_probes::{Assembler, Options, Report, check::open_cycles, rewrite};

/// A function of these lines, as gcc would write it.
fn function(name: &str, lines: &str) -> String {
    format!(
        "\t.text\n\t.globl {name}\n\t.type {name}, @function\n{name}:\n\t.cfi_startproc\n{lines}\
         \t.cfi_endproc\n\t.size {name}, .-{name}\n\t.ident \"GCC: (test)\"\n"
    )
}

/// The rewritten text, in which no cycle is open, and the report.
fn rewritten(text: &str, copies: usize) -> (String, Report) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.rules.copies = copies;
    let assembler = Assembler::default();
    let result = rewrite(text, &options, &assembler, folder.path()).unwrap();
    assert_eq!((&result.report.left_file, result.report.left.len()), (&None, 0));
    let new = result.text.unwrap_or_else(|| text.to_owned());
    assembler.assemble(&new, folder.path(), &folder.path().join("new.o")).unwrap();
    assert_eq!(open_cycles(&new, &assembler, folder.path()).unwrap(), []);
    (new, result.report)
}

/// The instruction behind each probe.
fn places(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let after = |at: usize| lines[at + 1..].iter().find(|line| !line.ends_with(':'));
    let backs = (0..lines.len()).filter(|&at| lines[at].ends_with("_back:"));
    backs.filter_map(|at| after(at).copied()).collect()
}

/// The masks of the stubs.
fn masks(text: &str) -> Vec<u16> {
    let pushed = text.lines().filter_map(|line| line.trim().strip_prefix("pushq\t$"));
    pushed.map(|mask| mask.parse().unwrap()).collect()
}

#[test]
fn a_probe_stands_where_flags_are_dead() {
    // The carry lives around the loop, up to the instruction that kills it.
    let text = function(
        "f",
        "\txorl %eax, %eax\n.L2:\tadcq (%rdi), %rax\n\tleaq 8(%rdi), %rdi\n\tsetc %cl\n\
         \taddb $255, %cl\n\tjc .L2\n\tret\n",
    );
    let (new, report) = rewritten(&text, 0);
    assert_eq!(places(&new), ["addb $255, %cl"]);
    assert_eq!((report.probes, report.saved_flags), (1, 0));
}

#[test]
fn live_flags_are_saved() {
    let text = function(
        "f",
        "\ttestq %rdi, %rdi\n.L2:\tleaq 8(%rdi), %rdi\n\tmovq (%rdi), %rax\n\tje .L3\n\tjmp .L2\n\
         .L3:\tret\n",
    );
    let (new, report) = rewritten(&text, 0);
    assert_eq!(report.saved_flags, 1);
    let probe = new.split("pushfq").nth(1).expect("saved flags");
    assert!(probe.contains(".cfi_adjust_cfa_offset 136"), "{new}");
    assert!(probe.find("cmpb") < probe.find("popfq"), "{new}");
}

#[test]
fn masks_say_what_lives() {
    // rdi pointer, rsi end; rcx, rdx and r8 are written before they are read.
    let text = function(
        "f",
        "\txorl %eax, %eax\n.L2:\tmovq (%rdi), %rcx\n\taddq %rcx, %rax\n\taddq $8, %rdi\n\
         \tcmpq %rsi, %rdi\n\tjne .L2\n\txorl %edx, %edx\n\tmovq %rax, %r8\n\
         \txorl %ecx, %ecx\n\tret\n",
    );
    let (new, _) = rewritten(&text, 0);
    // A caller may count on all that is not touched.
    assert_eq!(masks(&new), [!(1 << 1 | 1 << 2 | 1 << 8)]);
}

#[test]
fn classes_of_vector_state() {
    let class = |lines: &str| {
        let (_, report) = rewritten(&function("f", lines), 0);
        report.classes.iter().position(|&count| count > 0)
    };
    let tail = "\tdecl %edi\n\tjne .L2\n";
    let of = |class: VectorClass| Some(class as usize);
    // A result in xmm0 may be passed on.
    assert_eq!(class(&format!(".L2:\n{tail}\tret\n")), of(VectorClass::Xmm));
    let ymm = format!("\tvmovaps (%rsi), %ymm1\n.L2:\n{tail}\tvmovaps %ymm1, (%rsi)\n\tret\n");
    assert_eq!(class(&ymm), of(VectorClass::Ymm));
    let after = format!("\tvmovaps (%rsi), %ymm1\n\tvzeroupper\n.L2:\n{tail}\tret\n");
    assert_eq!(class(&after), of(VectorClass::Xmm));
    let zmm = format!("\tkmovw %eax, %k1\n.L2:\n{tail}\tkmovw %k1, %eax\n\tret\n");
    assert_eq!(class(&zmm), of(VectorClass::Zmm));
    let x87 = format!("\tfld1\n.L2:\n{tail}\tret\n");
    assert_eq!(class(&x87), of(VectorClass::All));
    // A call may return in st0, unless rax is read.
    let call = format!("\tcall g@PLT\n.L2:\n{tail}\tret\n");
    assert_eq!(class(&call), of(VectorClass::All));
    let known =
        format!("\tleaq f(%rip), %rcx\n\tcall *%rcx\n\tmovl %eax, %edi\n.L2:\n{tail}\tret\n");
    assert_eq!(class(&known), of(VectorClass::All));
    let integer = format!("\tcall g@PLT\n\tmovl %eax, %edi\n.L2:\n{tail}\tret\n");
    assert_eq!(class(&integer), of(VectorClass::Xmm));
}

#[test]
fn copies_have_their_own_exits() {
    let text = function(
        "f",
        "\tnop\n.L2:\taddl (%rsi), %eax\n\tje .L5\n\tjs .L3\n\tnegl %eax\n.L3:\tdecl %edi\n\
         \tjne .L2\n.L5:\tret\n",
    );
    let (new, report) = rewritten(&text, 4);
    assert_eq!((report.replicated, report.copies, report.probes), (1, 3, 1));
    let count = |what: &str| new.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("negl"), count("cmpb")), (4, 1));
    assert_eq!(count("je\t.L5") + count("je .L5"), 4, "{new}");
    // The last goes back to the first, the others on to the next.
    assert_eq!(count("jne\t.L2") + count("jne .L2"), 1, "{new}");
    assert_eq!(count("_end\n") + count("je\t.Lqv"), 3, "{new}");
}

/// Inside another loop one of few rounds passes none.
#[test]
fn the_probe_is_in_the_first_copy_or_the_last() {
    let inner = "\tnop\n.L3:\taddl (%rsi), %eax\n\taddq $4, %rsi\n\tcmpq %rcx, %rsi\n\tjne .L3\n";
    let order = |new: &str| -> Vec<&'static str> {
        let what = [("cmpb", "probe"), ("addl", "copy"), ("nop", "entry"), ("decl", "around")];
        let of = |line: &str| what.iter().find(|(word, _)| line.contains(word)).map(|what| what.1);
        new.lines().filter_map(of).collect()
    };
    let (new, _) = rewritten(&function("f", &format!("{inner}\tret\n")), 3);
    assert_eq!(order(&new), ["entry", "probe", "copy", "copy", "copy"], "{new}");
    let around = format!("\txorl %eax, %eax\n.L2:\n{inner}\tdecl %edi\n\tjne .L2\n\tret\n");
    let (new, report) = rewritten(&function("f", &around), 3);
    let expected = ["probe", "entry", "copy", "copy", "probe", "copy", "around"];
    assert_eq!((order(&new), report.probes), (expected.into(), 2), "{new}");
}

#[test]
fn loops_with_calls_are_not_copied() {
    let text = function("f", ".L2:\tcall g@PLT\n\tdecl %ebx\n\tjne .L2\n\tret\n");
    let (_, report) = rewritten(&text, 8);
    assert_eq!((report.replicated, report.probes), (0, 1));
}

#[test]
fn short_loops_inside_others_need_no_probe() {
    let text = function(
        "f",
        "\tnop\n.L2:\txorl %eax, %eax\n.L3:\taddq (%rsi,%rax), %rdx\n\taddq $8, %rax\n\
         \tcmpq $24, %rax\n\tjne .L3\n\tdecl %edi\n\tjne .L2\n\tret\n",
    );
    let (new, report) = rewritten(&text, 0);
    assert_eq!((report.loops, report.bounded, report.probes), (2, 1, 1));
    assert_eq!(places(&new), ["xorl %eax, %eax"]);
    // 15 instructions a round, so that five rounds come to 64; each copy has its own short loop.
    let (new, report) = rewritten(&text, 16);
    assert_eq!((report.replicated, report.copies, report.probes), (1, 4, 1));
    let count = |what: &str| new.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("addq $8, %rax"), count("jne .L3"), count("jne\t.Lqv")), (5, 1, 5), "{new}");
    // Not where the bound is what the linker fills in.
    let (_, report) = rewritten(&text.replace("$24", "$symbol"), 0);
    assert_eq!(report.bounded, 0);
}

#[test]
fn jump_tables_are_resolved_one_by_one() {
    let table = |name: &str, labels: [&str; 2]| {
        let entries: String =
            labels.iter().map(|label| format!("\t.long {label}-{name}\n")).collect();
        format!("\t.section .rodata\n{name}:\n{entries}\t.text\n")
    };
    let switch = |table: &str| {
        format!(
            "\tleaq {table}(%rip), %rdx\n\tmovslq (%rdx,%rax,4), %rax\n\taddq %rdx, %rax\n\
             \tjmp *%rax\n"
        )
    };
    // Only the second table leads back.
    let text = function(
        "f",
        &format!(
            "{}{}.L2:\tcall g@PLT\n{}{}.L3:\tret\n.L5:\tret\n",
            switch(".L8"),
            table(".L8", [".L2", ".L3"]),
            switch(".L9"),
            table(".L9", [".L2", ".L5"])
        ),
    );
    let (_, report) = rewritten(&text, 8);
    assert_eq!((report.loops, report.probes), (1, 1));
    let (_, report) = rewritten(&text.replace(".long .L2-.L9", ".long .L5-.L9"), 8);
    assert_eq!((report.loops, report.probes), (0, 0));
    // A table that can be written may hold any label.
    let (_, report) =
        rewritten(&text.replace(".rodata", ".data").replace(".long .L2-.L9", ".long .L5-.L9"), 8);
    assert_eq!(report.probes, 1);
}

#[test]
fn recursion_gets_probes_at_entries() {
    let even = function("even", "\tendbr64\n\tpushq %rbx\n\tcall odd\n\tpopq %rbx\n\tret\n");
    let odd = function("odd", "\tsubq $8, %rsp\n\tcall even@PLT\n\taddq $8, %rsp\n\tret\n");
    let (new, report) = rewritten(&(even.clone() + &odd), 0);
    assert_eq!((report.entry_probes, report.probes), (1, 1));
    assert_eq!(places(&new), ["pushq %rbx"], "behind endbr64");
    let (_, report) = rewritten(&even, 0);
    assert_eq!(report.probes, 0);
}

#[test]
fn every_function_may_have_a_probe_at_its_entry() {
    let leaf = function("leaf", "\tendbr64\n\tmovl $1, %eax\n\tret\n");
    let looping = function("looping", "\txorl %eax, %eax\n.L2:\tincl %eax\n\tjne .L2\n\tret\n");
    let spinning = function("spinning", ".L3:\tdecl %edi\n\tjne .L3\n\tret\n");
    let text = leaf + &looping + &spinning;
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    (options.rules.copies, options.rules.target, options.rules.entries) = (0, 0, true);
    let result = rewrite(&text, &options, &Assembler::default(), folder.path()).unwrap();
    let new = result.text.unwrap();
    let wanted = ["movl $1, %eax", "xorl %eax, %eax", "incl %eax", "decl %edi"];
    assert_eq!(places(&new), wanted, "one serves as the entry's and the loop's");
    assert_eq!((result.report.probes, result.report.entry_probes), (4, 0));
}

#[test]
fn leaves_of_a_recursion_have_no_probe() {
    let tree = function(
        "f",
        "\ttestq %rdi, %rdi\n\tje .L3\n\tpushq %rbx\n\tmovq %rdi, %rbx\n\tmovq (%rdi), %rdi\n\
         \tcall f\n\tmovq 8(%rbx), %rdi\n\tcall f\n\tpopq %rbx\n.L3:\tret\n",
    );
    let (new, report) = rewritten(&tree, 0);
    assert_eq!((places(&new), report.entry_probes), (vec!["pushq %rbx"], 1));
    // Either way there is a call: the entry is the only place for both.
    let branches = tree.replace("\tje .L3\n", "\tje .L4\n").replace(
        ".L3:\tret\n",
        ".L3:\tret\n.L4:\tsubq $8, %rsp\n\tcall f\n\taddq $8, %rsp\n\tret\n",
    );
    assert_eq!(places(&rewritten(&branches, 0).0), ["testq %rdi, %rdi"]);
    // Who calls itself in a loop has passed the loop's probe.
    let lines = "\tpushq %rbx\n.L2:\tmovq (%rbx), %rdi\n\tcall f\n\taddq $8, %rbx\n\
                 \tcmpq %rbp, %rbx\n\tjne .L2\n\tpopq %rbx\n\tret\n";
    let (new, report) = rewritten(&function("f", lines), 0);
    assert_eq!((places(&new), report.entry_probes), (vec!["movq (%rbx), %rdi"], 0));
}

#[test]
fn nothing_comes_between_what_the_linker_rewrites() {
    let text = function(
        "f",
        ".L2:\t.byte 0x66\n\tleaq x@tlsgd(%rip), %rdi\n\t.value 0x6666\n\trex64\n\
         \tcall __tls_get_addr@PLT\n\tdecl %ebx\n\tjne .L2\n\tret\n",
    );
    let (new, _) = rewritten(&text, 8);
    assert_eq!(places(&new), ["decl %ebx"]);
}

#[test]
fn inline_assembly_is_opaque() {
    let text = function(
        "f",
        "#APP\n\tnop; nop\n#NO_APP\n.L2:\n#APP\n# 3 \"a.c\" 1\n\tfoo .L4\n# 0 \"\" 2\n#NO_APP\n\
         \tcmpl $3, %eax\n\tjne .L2\n.L4:\tret\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let result = rewrite(&text, &Options::default(), &Assembler::default(), folder.path()).unwrap();
    assert_eq!(result.report.replicated, 0);
    // What the assembly names may follow it, and it may read the flags.
    assert_eq!(places(&result.text.unwrap()), ["cmpl $3, %eax"]);
}
