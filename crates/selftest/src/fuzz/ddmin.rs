//! Delta debugging: what of a list is needed for a fault?

/// A part of `list`, in its order, for which `fails` is still true, and of which no single element
/// can be left out (while `fails` has the patience to say so). `fails` is true of `list`.
pub fn minimise<T: Clone>(list: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut list = list.to_vec();
    let mut size = list.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < list.len() {
            let end = (at + size).min(list.len());
            let rest = [&list[..at], &list[end..]].concat();
            if fails(&rest) {
                list = rest;
            } else {
                at = end;
            }
        }
        size /= 2;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::minimise;

    #[test]
    fn what_is_needed_remains() {
        let all: Vec<u32> = (0..50).collect();
        let needs =
            |wanted: &'static [u32]| move |part: &[u32]| wanted.iter().all(|w| part.contains(w));
        assert!(minimise(&all, needs(&[])).is_empty());
        assert_eq!(minimise(&all, needs(&[17])), [17]);
        assert_eq!(minimise(&all, needs(&[3, 4, 48])), [3, 4, 48]);
    }
}
