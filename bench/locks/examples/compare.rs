//! A quick comparison of locks without the command: `compare WORKLOAD MILLIS ROUNDS THREADS,...
//! LOCK,... [BACKGROUND]`.

use quaver_bench_common::Outcome;
use quaver_bench_locks::Kind;
use quaver_bench_locks::measure::{OPS, Spec, Workload};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, lock, threads, background, millis] = &args[..]
        && word.ends_with("-child")
    {
        let workload = match word.as_str() {
            "hash-child" => Workload::HashTable,
            _ => Workload::SharedMemory,
        };
        let lock = Kind::ALL.into_iter().find(|kind| kind.name() == lock).unwrap();
        let [threads, background] = [threads, background].map(|text| text.parse().unwrap());
        let duration_ms = millis.parse().unwrap();
        Spec { workload, lock, threads, background, duration_ms }.run().unwrap().print();
        return;
    }
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (word, millis, rounds) = (&args[0], &args[1], args[2].parse::<usize>().unwrap());
    let (threads, locks) = (list(&args[3]), list(&args[4]));
    let background = args.get(5).map_or("0", String::as_str);
    for threads in &threads {
        let mut all = vec![Vec::new(); locks.len()];
        for round in 0..rounds {
            for i in 0..locks.len() {
                let i = if round % 2 == 1 { locks.len() - 1 - i } else { i };
                let output = std::process::Command::new(std::env::current_exe().unwrap())
                    .args([&format!("{word}-child"), &locks[i], threads, background, millis])
                    .output()
                    .unwrap();
                let text = String::from_utf8_lossy(&output.stdout);
                match Outcome::parse(&text) {
                    Ok(Outcome::Sample(sample)) => all[i].push(sample),
                    other => println!("{}: {other:?}", locks[i]),
                }
            }
        }
        for (samples, lock) in all.iter().zip(&locks) {
            let median = |name: &str| {
                let mut values: Vec<f64> =
                    samples.iter().filter_map(|s| s.metrics.get(name).copied()).collect();
                values.sort_by(f64::total_cmp);
                values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
            };
            print!("{threads:>3} {lock:20} {:8.3} M/s", median(OPS) / 1e6);
            for name in [
                "spins_per_op",
                "voluntary_switches_per_s",
                "involuntary_switches_per_s",
                "preempted_per_s",
                "p50_ns",
                "p99_ns",
                "max_ns",
                "fairness",
            ] {
                print!("  {name} {:.4}", median(name));
            }
            println!();
        }
    }
}
