//! Results and panics come back through `join`.

#[quaver::main]
fn main() {
    let sum = quaver::spawn(|| (1..=10).sum::<u32>());
    println!("sum: {}", sum.join().expect("it does not panic"));
    let failing = quaver::spawn(|| panic!("on purpose"));
    println!("the other one panicked: {}", failing.join().is_err());
}
