//! What every page needs.

/// The beginning of a page with a heading, up to its contents; `style` comes after what such pages
/// have in common. The title is escaped already.
pub fn head(title: &str, style: &str) -> String {
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
h2 {{ margin: 1.6rem 0 .3rem; font-size: 1rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
{style}</style>
</head>
<body>
<h1>{title}</h1>
"#
    )
}

/// The text with the characters that mean something in HTML and in attributes replaced.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
