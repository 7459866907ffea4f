//! `quaver.h` and the Rust that is behind it declare the same functions with the same types.

use quote::ToTokens;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A function's type: its result and its parameters, as C writes them.
type Signature = (String, Vec<String>);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What C calls a type of Rust.
fn c_type(ty: &str) -> String {
    let ty = ty.replace(' ', "");
    for (rust, c) in [("*mut", ""), ("*const", "const ")] {
        if let Some(inner) = ty.strip_prefix(rust) {
            let inner = c_type(inner);
            // In C the constness of a pointer to a pointer stands elsewhere; none of ours is
            // constant.
            return format!("{}{inner}*", if inner.ends_with('*') { "" } else { c });
        }
    }
    if let Some(f) = ty.strip_prefix("Option<unsafeextern\"C-unwind\"fn(") {
        let (parameter, result) = f.split_once(')').unwrap();
        let parameter = if parameter.is_empty() { "void".into() } else { c_type(parameter) };
        let result = result.trim_end_matches('>').strip_prefix("->").map_or("void".into(), c_type);
        return format!("{result}(*)({parameter})");
    }
    match &*ty {
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "usize" => "size_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "u32" => "uint32_t",
        "bool" => "bool",
        "Joinable" => "quaver_thread",
        "ThreadAttr" => "quaver_thread_attr",
        "Mutex" => "quaver_mutex",
        "Condvar" => "quaver_condvar",
        "RwLock" => "quaver_rwlock",
        "Semaphore" => "quaver_semaphore",
        "Barrier" => "quaver_barrier",
        "Once" => "quaver_once",
        "Channel" => "quaver_channel",
        "CancelToken" => "quaver_cancel_token",
        other => panic!("the header has no type for {other}"),
    }
    .into()
}

fn in_rust() -> BTreeMap<String, Signature> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(root().join("src")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for item in syn::parse_file(&text).unwrap().items {
            let syn::Item::Fn(f) = item else { continue };
            let exported = f.attrs.iter().any(|a| {
                a.to_token_stream().to_string().replace(' ', "") == "#[unsafe(no_mangle)]"
            });
            if !exported {
                continue;
            }
            assert!(f.sig.abi.is_some(), "{} has not the ABI of C", f.sig.ident);
            let result = match &f.sig.output {
                syn::ReturnType::Default => "void".into(),
                syn::ReturnType::Type(_, ty) => c_type(&ty.to_token_stream().to_string()),
            };
            let parameters = f.sig.inputs.iter().map(|p| match p {
                syn::FnArg::Typed(p) => c_type(&p.ty.to_token_stream().to_string()),
                syn::FnArg::Receiver(_) => unreachable!("a function"),
            });
            found.insert(f.sig.ident.to_string(), (result, parameters.collect()));
        }
    }
    found
}

/// The header without comments, preprocessor lines and line breaks.
fn header() -> String {
    let mut text = fs::read_to_string(root().join("include/quaver.h")).unwrap();
    while let Some(start) = text.find("/*") {
        let end = start + text[start..].find("*/").unwrap() + 2;
        text.replace_range(start..end, " ");
    }
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits at commas that are not inside brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// A declaration without the name that it declares.
fn without_name(declaration: &str) -> String {
    let d = declaration.trim();
    if let Some((result, rest)) = d.split_once("(*") {
        let parameters = rest.split_once(")(").unwrap().1;
        return format!(
            "{}(*)({}",
            result.trim().replace(" *", "*"),
            parameters.replace(" *", "*")
        );
    }
    let end = d.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
    d[..end].trim().replace(" *", "*")
}

fn in_c() -> BTreeMap<String, Signature> {
    let mut found = BTreeMap::new();
    for statement in header().split(';').map(str::trim) {
        let statement = statement.rsplit(['{', '}']).next().unwrap().trim();
        let Some((head, parameters)) = statement.split_once('(') else { continue };
        let start = head.rfind([' ', '*']).unwrap() + 1;
        let parameters = parameters.strip_suffix(')').unwrap();
        let parameters = match parameters {
            "void" => Vec::new(),
            list => split(list).into_iter().map(without_name).collect(),
        };
        let result = head[..start].trim().replace(" *", "*");
        found.insert(head[start..].into(), (result, parameters));
    }
    found
}

/// Rust's shared objects are `const` where C's are not: C has no interior mutability.
fn comparable(mut signature: Signature) -> Signature {
    for ty in &mut signature.1 {
        let object = [
            "mutex",
            "condvar",
            "rwlock",
            "semaphore",
            "barrier",
            "once",
            "channel",
            "cancel_token",
        ];
        if object.iter().any(|o| *ty == format!("const quaver_{o}*")) {
            *ty = ty["const ".len()..].into();
        }
    }
    signature
}

#[test]
fn functions_agree() {
    let (rust, c) = (in_rust(), in_c());
    assert!(rust.len() > 40, "only {} functions found", rust.len());
    let names = |of: &BTreeMap<String, Signature>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&rust), names(&c));
    for (name, signature) in rust {
        assert_eq!(
            comparable(signature),
            c[&name],
            "{name}: Rust on the left, quaver.h on the right"
        );
    }
}

#[test]
fn every_declaration_has_a_comment() {
    let text = fs::read_to_string(root().join("include/quaver.h")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let declares =
            line.contains(" quaver_") && line.contains('(') || line.starts_with("typedef");
        if declares && !line.starts_with([' ', '/', '*']) {
            assert!(lines[i - 1].ends_with("*/"), "no comment before: {line}");
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn all_settings_are_named() {
    let text = fs::read_to_string(root().join("include/quaver.h")).unwrap();
    let (_, rest) = text.split_once(" Names: ").unwrap();
    let (names, _) = rest.split_once('.').unwrap();
    // What is in brackets after a name says where it works.
    let named: Vec<&str> = names
        .split(',')
        .filter_map(|name| name.split(|c: char| !is_of_name(c)).find(|n| !n.is_empty()))
        .collect();
    let all: Vec<&str> = quaver_sched::settings::SETTINGS.iter().map(|s| s.name).collect();
    assert_eq!(named, all, "quaver.h on the left");
}

#[test]
fn statuses_agree() {
    let rust = fs::read_to_string(root().join("src/status.rs")).unwrap();
    let c = header();
    let (_, c) = c.split_once("enum quaver_status {").unwrap();
    let (c, _) = c.split_once('}').unwrap();
    let mut n = 0;
    for line in rust.lines().map(str::trim).filter(|l| l.contains(", c\"") && l.ends_with("\";")) {
        let (name, rest) = line.split_once(" = ").unwrap();
        let value = rest.split_once(',').unwrap().0;
        let mut upper = String::from("QUAVER");
        for ch in name.chars() {
            if ch.is_uppercase() {
                upper.push('_');
            }
            upper.push(ch.to_ascii_uppercase());
        }
        assert!(
            c.contains(&format!("{upper} = {value},")),
            "{upper} = {value} is not in the header"
        );
        n += 1;
    }
    assert_eq!(n, c.matches("QUAVER_").count(), "as many in the header");
}
