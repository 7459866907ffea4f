//! The arguments of the attributes.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Result, Token};

const KNOWN: &str = "`workers`, `quantum`, `policy`, `clock`, `stack_size`";

/// What was given, in source order.
#[derive(Default)]
pub(crate) struct Args(Vec<(Ident, Value)>);

enum Value {
    Workers(usize, Span),
    StackSize(usize, Span),
    Quantum(LitStr),
    Policy(LitStr),
    Clock(LitStr),
}

impl Args {
    /// The calls to make on a builder: `.workers(2).quantum_str("20us")`.
    pub(crate) fn builder_calls(&self) -> TokenStream {
        self.0.iter().map(|(_, value)| value.builder_call()).collect()
    }
}

impl Value {
    fn builder_call(&self) -> TokenStream {
        match self {
            Value::Workers(n, span) => quote_spanned!(*span=> .workers(#n)),
            Value::StackSize(n, span) => quote_spanned!(*span=> .stack_size(#n)),
            Value::Quantum(s) => quote!(.quantum_str(#s)),
            Value::Policy(s) => quote!(.policy_str(#s)),
            Value::Clock(s) => quote!(.clock_str(#s)),
        }
    }
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Args> {
        let given = Punctuated::<Arg, Token![,]>::parse_terminated(input)?;
        let mut args = Args::default();
        let mut errors: Option<Error> = None;
        for Arg { key, value } in given {
            let result = if args.0.iter().any(|(k, _)| *k == key) {
                Err(Error::new(key.span(), format!("`{key}` is given twice")))
            } else {
                check(&key, &value)
            };
            match result {
                Ok(value) => args.0.push((key, value)),
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
            Error::new(e.span(), format!("expected `name = value`; known names: {KNOWN}"))
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

fn check(key: &Ident, value: &Expr) -> Result<Value> {
    match key.to_string().as_str() {
        "workers" => {
            let (n, span) = integer(key, value)?;
            if n == 0 {
                return Err(Error::new(span, "a runtime needs at least one worker"));
            }
            Ok(Value::Workers(n, span))
        }
        "stack_size" => integer(key, value).map(|(n, span)| Value::StackSize(n, span)),
        "quantum" => string(key, value, "\"20us\" or \"off\"").map(Value::Quantum),
        "policy" => string(key, value, "\"two-queue\"").map(Value::Policy),
        "clock" => string(key, value, "\"timer-thread\"").map(Value::Clock),
        _ => {
            let message = format!("unknown argument `{key}`; known arguments: {KNOWN}");
            Err(Error::new(key.span(), message))
        }
    }
}

fn integer(key: &Ident, value: &Expr) -> Result<(usize, Span)> {
    match literal(value) {
        Some(Lit::Int(n)) if matches!(n.suffix(), "" | "usize") => parse_integer(n),
        Some(_) => Err(wrong(key, value, "an integer, such as 2")),
        None => Err(wrong(key, value, "an integer literal, such as 2")),
    }
}

fn parse_integer(n: &LitInt) -> Result<(usize, Span)> {
    match n.base10_parse() {
        Ok(value) => Ok((value, n.span())),
        Err(e) => Err(Error::new(n.span(), format!("`{n}`: {e}"))),
    }
}

fn string(key: &Ident, value: &Expr, example: &str) -> Result<LitStr> {
    match literal(value) {
        Some(Lit::Str(s)) => Ok(s.clone()),
        Some(_) => Err(wrong(key, value, &format!("a string, such as {example}"))),
        None => Err(wrong(key, value, &format!("a string literal, such as {example}"))),
    }
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

fn wrong(key: &Ident, value: &Expr, expected: &str) -> Error {
    Error::new_spanned(value, format!("`{key}` takes {expected}"))
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
        assert_eq!(calls("workers = 2"), ". workers (2usize)");
        assert_eq!(
            calls(
                r#"quantum = "off", policy = "fifo", clock = "timer-core", stack_size = 65_536usize,"#
            ),
            r#". quantum_str ("off") . policy_str ("fifo") . clock_str ("timer-core") . stack_size (65536usize)"#
        );
    }

    #[test]
    fn an_unknown_argument_names_the_known_ones() {
        let (message, at) = one_error("worker = 2");
        assert_eq!(at, "worker");
        assert!(
            message.contains("unknown argument `worker`") && message.contains(KNOWN),
            "{message}"
        );
    }

    #[test]
    fn a_wrong_type_says_what_is_right() {
        for (source, at, message) in [
            ("workers = \"2\"", "\"2\"", "`workers` takes an integer, such as 2"),
            ("workers = 2u8", "2u8", "`workers` takes an integer, such as 2"),
            ("workers = -1", "-1", "`workers` takes an integer literal, such as 2"),
            ("workers = N", "N", "`workers` takes an integer literal, such as 2"),
            ("workers = 0", "0", "a runtime needs at least one worker"),
            ("stack_size = 1.5", "1.5", "`stack_size` takes an integer, such as 2"),
            ("quantum = 20", "20", "`quantum` takes a string, such as \"20us\" or \"off\""),
            ("policy = fifo", "fifo", "`policy` takes a string literal, such as \"two-queue\""),
            ("clock = true", "true", "`clock` takes a string, such as \"timer-thread\""),
        ] {
            assert_eq!(one_error(source), (message.to_string(), at.to_string()), "{source}");
        }
    }

    #[test]
    fn a_number_too_large_is_an_error() {
        let (message, at) = one_error("workers = 99999999999999999999");
        assert_eq!(at, "99999999999999999999");
        assert!(message.contains("too large"), "{message}");
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
