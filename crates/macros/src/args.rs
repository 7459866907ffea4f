//! The arguments of the attributes: the settings of `quaver_sched::settings`, as literals of Rust.

use proc_macro2::{Span, TokenStream};
use quaver_sched::settings::{self, Kind, SETTINGS, Setting};
use quote::quote_spanned;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Result, Token};

/// What was given, in source order.
#[derive(Default)]
pub(crate) struct Args(Vec<Given>);

struct Given {
    setting: &'static Setting,
    /// As `Builder::set` reads it.
    value: String,
    span: Span,
}

impl Args {
    /// The calls to make on a builder: `.set("workers", "2").set("quantum", "20us")`.
    pub(crate) fn builder_calls(&self) -> TokenStream {
        let calls = self.0.iter().map(|Given { setting, value, span }| {
            let name = setting.name;
            quote_spanned!(*span=> .set(#name, #value))
        });
        calls.collect()
    }
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Args> {
        let given = Punctuated::<Arg, Token![,]>::parse_terminated(input)?;
        let mut args = Args::default();
        let mut errors: Option<Error> = None;
        for Arg { key, value } in given {
            let result = if args.0.iter().any(|known| key == known.setting.name) {
                Err(Error::new(key.span(), format!("`{key}` is given twice")))
            } else {
                check(&key, &value)
            };
            match result {
                Ok(given) => args.0.push(given),
                Err(e) => match &mut errors {
                    Some(all) => all.combine(e),
                    None => errors = Some(e),
                },
            }
        }
        errors.map_or(Ok(args), Err)
    }
}

/// `key = value`, with any value so far.
struct Arg {
    key: Ident,
    value: Expr,
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> Result<Arg> {
        let key: Ident = input.parse().map_err(|e| {
            let names: Vec<_> = SETTINGS.iter().map(|s| s.name).collect();
            let message = format!("expected `name = value`; known names: {}", names.join(", "));
            Error::new(e.span(), message)
        })?;
        if !input.peek(Token![=]) {
            let message = format!("expected a value: `{key} = ...`");
            // After the last argument there is nothing to point at.
            let at = if input.is_empty() { key.span() } else { input.span() };
            return Err(Error::new(at, message));
        }
        input.parse::<Token![=]>()?;
        Ok(Arg { key, value: input.parse()? })
    }
}

fn check(key: &Ident, value: &Expr) -> Result<Given> {
    let name = key.to_string();
    let Some(setting) = Setting::named(&name) else {
        return Err(Error::new(key.span(), settings::unknown(&name)));
    };
    let text = text(setting, value)?;
    let span = value.span();
    setting.parse(&text).map_err(|reason| Error::new(span, format!("`{key}`: {reason}")))?;
    Ok(Given { setting, value: text, span })
}

/// A literal of the type that the setting has in Rust, as text.
fn text(setting: &Setting, value: &Expr) -> Result<String> {
    let literal = match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    };
    match (setting.kind, literal) {
        (Kind::Number(..) | Kind::Bytes, Some(Lit::Int(n)))
            if matches!(n.suffix(), "" | "usize") =>
        {
            return Ok(n.base10_digits().into());
        }
        (Kind::Flag, Some(Lit::Bool(flag))) => return Ok(flag.value.to_string()),
        (Kind::Number(..) | Kind::Flag, _) => {}
        (_, Some(Lit::Str(s))) => return Ok(s.value()),
        _ => {}
    }
    let what = match setting.kind {
        Kind::Number(..) => format!("an integer, such as {}", setting.example),
        Kind::Flag => "`true` or `false`".into(),
        Kind::Bytes => "an integer, or a string such as \"256k\"".into(),
        Kind::Quantum | Kind::OrOff => {
            format!("a string, such as {:?} or \"off\"", setting.example)
        }
        _ => format!("a string, such as {:?}", setting.example),
    };
    let literal = if literal.is_none() { ", as a literal" } else { "" };
    let message = format!("`{}` takes {what}{literal}", setting.name);
    Err(Error::new_spanned(value, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(source: &str) -> String {
        syn::parse_str::<Args>(source).unwrap().builder_calls().to_string()
    }

    /// The messages for `source`, each with the text that it points at.
    fn errors(source: &str) -> Vec<(String, String)> {
        let Err(all) = syn::parse_str::<Args>(source) else { panic!("no error for {source}") };
        all.into_iter()
            .map(|e| {
                let span = e.span();
                let text = source[span.start().column..span.end().column].to_string();
                (e.to_string(), text)
            })
            .collect()
    }

    fn one_error(source: &str) -> (String, String) {
        let mut all = errors(source);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn arguments_become_builder_calls_in_order() {
        assert_eq!(calls(""), "");
        assert_eq!(calls("workers = 2"), r#". set ("workers" , "2")"#);
        assert_eq!(
            calls(r#"quantum = "off", stack_size = 65_536usize, pin = true, max_blocking = 0x10,"#),
            concat!(
                r#". set ("quantum" , "off") . set ("stack_size" , "65536")"#,
                r#" . set ("pin" , "true") . set ("max_blocking" , "16")"#
            )
        );
    }

    #[test]
    fn every_setting_is_an_argument() {
        for s in SETTINGS {
            let value = match s.kind {
                Kind::Number(..) => s.example.to_string(),
                Kind::Flag => "true".into(),
                _ => format!("{:?}", s.example),
            };
            assert!(calls(&format!("{} = {value}", s.name)).contains(s.name), "{}", s.name);
        }
    }

    #[test]
    fn an_unknown_argument_names_the_nearest() {
        let (message, at) = one_error("worker = 2");
        assert_eq!(at, "worker");
        assert_eq!(message, "there is no setting `worker`; did you mean `workers`?");
    }

    #[test]
    fn a_wrong_type_says_what_is_right() {
        for (source, at, message) in [
            ("workers = \"2\"", "\"2\"", "`workers` takes an integer, such as 2"),
            ("workers = 2u8", "2u8", "`workers` takes an integer, such as 2"),
            ("workers = -1", "-1", "`workers` takes an integer, such as 2, as a literal"),
            ("workers = N", "N", "`workers` takes an integer, such as 2, as a literal"),
            ("pin = 1", "1", "`pin` takes `true` or `false`"),
            ("quantum = 20", "20", "`quantum` takes a string, such as \"20us\" or \"off\""),
            (
                "policy = fifo",
                "fifo",
                "`policy` takes a string, such as \"two-queue:long=100us\", as a literal",
            ),
            ("clock = true", "true", "`clock` takes a string, such as \"timer-thread\""),
        ] {
            assert_eq!(one_error(source), (message.to_string(), at.to_string()), "{source}");
        }
        assert!(one_error("stack_size = 1.5").0.contains("`stack_size` takes an integer, or"));
    }

    #[test]
    fn a_wrong_value_says_what_is_accepted() {
        for (source, at, message) in [
            ("workers = 0", "0", "`workers`: expected a number from 1 to 1024"),
            ("workers = 99999999999999999999", "99999999999999999999", "from 1 to 1024"),
            ("quantum = \"20\"", "\"20\"", "has no unit that is known"),
            ("policy = \"best\"", "\"best\"", "unknown policy `best`"),
            ("clock = \"sundial\"", "\"sundial\"", "posix-timer"),
        ] {
            let (given, text) = one_error(source);
            assert!(given.contains(message), "{source}: {given}");
            assert_eq!(text, at, "{source}");
        }
    }

    #[test]
    fn all_errors_are_reported() {
        let all = errors("workers = 1, workers = 2, quantum = 3, what = 4");
        let at: Vec<_> = all.iter().map(|(_, at)| at.as_str()).collect();
        assert_eq!(at, ["workers", "3", "what"]);
        assert_eq!(all[0].0, "`workers` is given twice");
    }

    #[test]
    fn arguments_that_are_no_assignments() {
        assert_eq!(
            one_error("workers"),
            ("expected a value: `workers = ...`".into(), "workers".into())
        );
        assert_eq!(one_error("workers(2)").0, "expected a value: `workers = ...`");
        assert!(one_error("2").0.contains("expected `name = value`"));
    }
}
