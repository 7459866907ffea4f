//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before what is meant as it stands.

/// Does the pattern match the whole of `text`? Takes time in proportion to the product of both
/// lengths at most.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when a guess about the last star was wrong.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let Some(used) = one(&pattern[p..], text[t]) {
            p += used;
            t += 1;
            continue;
        }
        let Some((after, from)) = star else { return false };
        star = Some((after, from + 1));
        (p, t) = (after, from + 1);
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// How many bytes of the pattern match this one, if they do.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => class(rest, byte).and_then(|(hit, used)| hit.then_some(used + 1)),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// Whether the class matches, and its length with the closing bracket; `None`: it does not end.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    loop {
        match pattern.get(at..)? {
            [b']', ..] => return Some((hit != negated, at + 1)),
            [b'\\', escaped, ..] => {
                hit |= *escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] if *high != b']' => {
                hit |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                hit |= *plain == byte;
                at += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*ab", "aab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hallo", false),
            (r"[\]]", "]", true),
            ("[a", "a", false),
            ("key:*1", "key:0001", true),
            ("key:*1", "key:0002", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_eternity() {
        let pattern = "a*".repeat(100) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(1000).as_bytes()));
    }
}
