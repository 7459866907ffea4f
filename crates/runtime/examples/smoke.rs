use std::time::{Duration, Instant};
fn main() {
    let rt = quaver::Builder::from_env().workers(1).build().unwrap();
    let r = rt.run(|| {
        println!("hello from {:?}", quaver::thread::current());
        let h = quaver::spawn(|| {
            println!("child");
            7
        });
        h.join().unwrap()
    });
    println!("{r}");
    rt.run(|| {
        let n = 2_000_000u32;
        let t = Instant::now();
        let h = quaver::spawn(move || {
            for _ in 0..n {
                quaver::yield_now()
            }
        });
        for _ in 0..n {
            quaver::yield_now()
        }
        h.join().unwrap();
        println!("yield {:.1} ns", t.elapsed().as_nanos() as f64 / (2.0 * n as f64));
        let t = Instant::now();
        for _ in 0..n {
            quaver::spawn(|| ()).join().unwrap()
        }
        println!("spawn+join {:.1} ns", t.elapsed().as_nanos() as f64 / n as f64);
    });
    println!("{:?}", rt.stats());
    rt.run(|| {
        let work =
            |n: u64| (0..n).fold(1u64, |a, b| a.wrapping_mul(6364136223846793005).wrapping_add(b));
        let t = Instant::now();
        std::hint::black_box(work(std::hint::black_box(400_000_000)));
        println!("alone {:?}", t.elapsed());
        let t = Instant::now();
        let a =
            quaver::spawn(move || std::hint::black_box(work(std::hint::black_box(200_000_000))));
        let b =
            quaver::spawn(move || std::hint::black_box(work(std::hint::black_box(200_000_000))));
        for _ in 0..20 {
            let t = Instant::now();
            quaver::sleep(Duration::from_millis(1));
            println!("overshoot {:?}", t.elapsed() - Duration::from_millis(1));
        }
        assert_eq!(a.join().unwrap(), b.join().unwrap());
        println!("two hogs {:?}", t.elapsed());
    });
    println!("{:?}", rt.stats());
    println!("{:?}", rt.shutdown());
}
