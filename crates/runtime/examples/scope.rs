//! Scoped threads borrow from their caller.

#[quaver::main]
fn main() {
    let mut words = vec!["one", "two", "three"];
    let total: usize = quaver::scope(|s| {
        let lengths: Vec<_> = words.iter().map(|w| s.spawn(|| w.len())).collect();
        lengths.into_iter().map(|t| t.join().expect("it does not panic")).sum()
    });
    words.push("four");
    println!("{total} letters in the first three of {} words", words.len());
}
