//! A call that blocks in the kernel, without occupying the only worker.

use std::io::Read;

#[quaver::main(workers = 1)]
fn main() -> std::io::Result<()> {
    let other = quaver::spawn(|| "others run meanwhile");
    let mut text = String::new();
    quaver::block_in_place(|| std::fs::File::open("/proc/self/comm")?.read_to_string(&mut text))?;
    println!("{}; read {text:?}", other.join().expect("it does not panic"));
    Ok(())
}
