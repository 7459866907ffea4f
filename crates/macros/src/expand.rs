//! From a function to its expansion.
//!
//! The body becomes a function of its own inside the expansion, so that any return type that can be
//! written works. What it returns is turned into an exit code on the user thread
//! (`Termination::report`), because only that has to be `Send`.

use crate::args::Args;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Error, ItemFn, Result, ReturnType};

/// `#[quaver::main]`.
pub(crate) fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    // Without any `main` the compiler would add an error of its own.
    expand(args, item, try_main).unwrap_or_else(|e| {
        with_stub(
            e,
            quote!(
                fn main() {}
            ),
        )
    })
}

/// `#[quaver::test]`.
pub(crate) fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    expand(args, item, try_test).unwrap_or_else(Error::into_compile_error)
}

fn with_stub(error: Error, stub: TokenStream) -> TokenStream {
    let error = error.into_compile_error();
    quote!(#error #stub)
}

/// Reports the errors of arguments and function together.
fn expand(
    args: TokenStream,
    item: TokenStream,
    to: fn(&Args, &ItemFn) -> Result<TokenStream>,
) -> Result<TokenStream> {
    let args = syn::parse2::<Args>(args);
    let function = syn::parse2::<ItemFn>(item)
        .map_err(|e| Error::new(e.span(), "this attribute goes on a function with a body"))
        .and_then(|function| check(&function).map(|()| function));
    match (args, function) {
        (Ok(args), Ok(function)) => to(&args, &function),
        (Err(mut e), Err(other)) => {
            e.combine(other);
            Err(e)
        }
        (Err(e), _) | (_, Err(e)) => Err(e),
    }
}

fn try_main(args: &Args, function: &ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, vis, sig, block } = function;
    if sig.ident != "main" {
        let message = "`#[quaver::main]` goes on `fn main`; elsewhere, use `quaver::Builder` and \
                       `Runtime::run`";
        return Err(Error::new(sig.ident.span(), message));
    }
    let output = &sig.output;
    let builder = builder(args);
    Ok(quote! {
        #(#attrs)*
        #vis fn main() -> ::std::process::ExitCode {
            fn main() #output #block
            match #builder.build() {
                ::std::result::Result::Ok(runtime) => {
                    runtime.run(|| ::std::process::Termination::report(main()))
                }
                ::std::result::Result::Err(error) => {
                    ::std::eprintln!("quaver: {error}");
                    ::std::process::ExitCode::from(2)
                }
            }
        }
    })
}

fn try_test(args: &Args, function: &ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, vis, sig, block } = function;
    if let Some(attr) = attrs.iter().find(|a| is_test(a)) {
        return Err(Error::new_spanned(attr, "`#[quaver::test]` replaces `#[test]`: remove this"));
    }
    let name = &sig.ident;
    let body = format_ident!("{}_on_a_user_thread", name);
    let output = &sig.output;
    let builder = builder(args);
    // `#[should_panic]` is only allowed on functions that return nothing.
    let (outer_output, run) = match output {
        ReturnType::Default => (quote!(), quote!(#body)),
        ReturnType::Type(..) => (
            quote!(-> ::std::process::ExitCode),
            quote!(|| ::std::process::Termination::report(#body())),
        ),
    };
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() #outer_output {
            fn #body() #output #block
            ::quaver::__private::test(#builder, #run)
        }
    })
}

fn builder(args: &Args) -> TokenStream {
    let calls = args.builder_calls();
    quote!(::quaver::Builder::from_env() #calls)
}

fn is_test(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|s| s.ident == "test")
}

/// What no runtime could call.
fn check(function: &ItemFn) -> Result<()> {
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        let message = "remove `async`: user threads wait by blocking, nothing needs to be awaited";
        return Err(Error::new_spanned(token, message));
    }
    if let Some(token) = &sig.constness {
        return Err(Error::new_spanned(token, "this function cannot be `const`"));
    }
    if let Some(token) = &sig.unsafety {
        return Err(Error::new_spanned(token, "this function cannot be `unsafe`"));
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new_spanned(abi, "this function must have the Rust calling convention"));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(&sig.generics, "this function cannot be generic"));
    }
    if let Some(clause) = &sig.generics.where_clause {
        return Err(Error::new_spanned(clause, "this function cannot have a `where` clause"));
    }
    if !sig.inputs.is_empty() {
        let message = "this function cannot take arguments: nobody would pass them";
        return Err(Error::new_spanned(&sig.inputs, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> TokenStream {
        source.parse().unwrap()
    }

    fn same(expansion: TokenStream, expected: TokenStream) {
        assert_eq!(expansion.to_string(), expected.to_string());
    }

    #[test]
    fn main_expands() {
        let expansion = main(
            tokens("workers = 3, quantum = \"off\""),
            quote! {
                /// Docs stay.
                fn main() -> Result<(), String> { work() }
            },
        );
        let expected = quote! {
            /// Docs stay.
            fn main() -> ::std::process::ExitCode {
                fn main() -> Result<(), String> { work() }
                match ::quaver::Builder::from_env()
                    .set("workers", "3")
                    .set("quantum", "off")
                    .build()
                {
                    ::std::result::Result::Ok(runtime) => {
                        runtime.run(|| ::std::process::Termination::report(main()))
                    }
                    ::std::result::Result::Err(error) => {
                        ::std::eprintln!("quaver: {error}");
                        ::std::process::ExitCode::from(2)
                    }
                }
            }
        };
        same(expansion, expected);
    }

    #[test]
    fn test_expands() {
        let expansion = test(
            tokens("workers = 2"),
            quote!(
                #[should_panic]
                #[ignore = "slow"]
                fn t() {
                    body()
                }
            ),
        );
        let expected = quote! {
            #[::core::prelude::v1::test]
            #[should_panic]
            #[ignore = "slow"]
            fn t() {
                fn t_on_a_user_thread() { body() }
                ::quaver::__private::test(
                    ::quaver::Builder::from_env().set("workers", "2"),
                    t_on_a_user_thread
                )
            }
        };
        same(expansion, expected);
    }

    #[test]
    fn a_test_that_returns_something_expands() {
        let expansion = test(
            TokenStream::new(),
            quote!(
                fn t() -> Result<(), String> {
                    body()
                }
            ),
        );
        let expected = quote! {
            #[::core::prelude::v1::test]
            fn t() -> ::std::process::ExitCode {
                fn t_on_a_user_thread() -> Result<(), String> { body() }
                ::quaver::__private::test(
                    ::quaver::Builder::from_env(),
                    || ::std::process::Termination::report(t_on_a_user_thread())
                )
            }
        };
        same(expansion, expected);
    }

    /// The messages for a function, each with the text that it points at.
    fn errors(
        args: &str,
        source: &str,
        to: fn(&Args, &ItemFn) -> Result<TokenStream>,
    ) -> Vec<(String, String)> {
        let Err(all) = expand(tokens(args), tokens(source), to) else {
            panic!("no error for {source}")
        };
        all.into_iter()
            .map(|e| {
                let range = e.span().start().column..e.span().end().column;
                (e.to_string(), source.get(range).unwrap_or("").to_string())
            })
            .collect()
    }

    #[test]
    fn functions_that_cannot_be_called_are_refused() {
        for (source, at, message) in [
            ("async fn main() {}", "async", "user threads wait by blocking"),
            ("const fn main() {}", "const", "cannot be `const`"),
            ("unsafe fn main() {}", "unsafe", "cannot be `unsafe`"),
            ("extern \"C\" fn main() {}", "extern \"C\"", "Rust calling convention"),
            ("fn main<T>() {}", "<T>", "cannot be generic"),
            ("fn main() where u8: Copy {}", "where u8: Copy", "`where` clause"),
            ("fn main(x: u8) {}", "x: u8", "cannot take arguments"),
            ("struct Main;", "struct", "goes on a function"),
        ] {
            for to in [try_main as fn(&Args, &ItemFn) -> Result<TokenStream>, try_test] {
                let all = errors("", source, to);
                assert_eq!(all.len(), 1, "{all:?}");
                assert!(all[0].0.contains(message), "{source}: {all:?}");
                assert_eq!(all[0].1, at, "{source}");
            }
        }
    }

    #[test]
    fn main_has_its_name_and_test_comes_once() {
        let all = errors("", "fn start() {}", try_main);
        assert!(all[0].0.contains("goes on `fn main`") && all[0].1 == "start", "{all:?}");
        let all = errors("", "#[test] fn t() {}", try_test);
        assert!(all[0].0.contains("replaces `#[test]`") && all[0].1 == "#[test]", "{all:?}");
    }

    #[test]
    fn errors_of_arguments_and_function_come_together() {
        let all = errors("workers = 0", "async fn main() {}", try_main);
        assert_eq!(all.len(), 2, "{all:?}");
    }

    #[test]
    fn a_refused_main_leaves_a_main() {
        let expansion = main(
            tokens("nonsense = 1"),
            quote!(
                fn main() {}
            ),
        )
        .to_string();
        assert!(
            expansion.contains("compile_error") && expansion.ends_with("fn main () { }"),
            "{expansion}"
        );
        let expansion = test(
            tokens("nonsense = 1"),
            quote!(
                fn t() {}
            ),
        )
        .to_string();
        assert!(expansion.contains("compile_error"), "{expansion}");
    }
}
