//! A procedural macro: it runs in the compiler, without probes.

use proc_macro::TokenStream;

/// `constant!(NAME, 1)` defines a constant.
#[proc_macro]
pub fn constant(input: TokenStream) -> TokenStream {
    let words: Vec<String> = input.into_iter().map(|token| token.to_string()).collect();
    format!("const {}: u32 = {};", words[0], words[2]).parse().unwrap()
}
