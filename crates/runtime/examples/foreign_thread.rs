//! An ordinary kernel thread starts user threads and waits for them.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = quaver::Builder::from_env().workers(1).build()?;
    let handle = runtime.handle();
    let answer = std::thread::spawn(move || handle.spawn(|| 6 * 7).join());
    println!("{:?}", answer.join().expect("it does not panic").expect("it does not panic"));
    println!("{:?}", runtime.shutdown());
    Ok(())
}
