//! `cargo run -p quaver-uarch --profile fast --example core --
//! PROGRAM [MECHANISM SOURCE MICROSECONDS]`:
//! a program with and without interrupts on the timing model.
//! A file of other parameters may follow.

use quaver_uarch::Machine;
use quaver_uarch::core::{Config, Core, Mechanism, Parameters, Source, When, measure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().ok_or("which program?")?;
    let file = std::fs::read(name)?;
    let machine = || Machine::with_program(&file, &[name]);
    let mut config = Config::default();
    if let Some(path) = words.get(4) {
        config.parameters = Parameters::load(&std::fs::read_to_string(path)?)?;
    }
    let begin = std::time::Instant::now();
    if let [_, mechanism, source, time, ..] = &words[..] {
        config.mechanism = match &**mechanism {
            "flush" => Mechanism::Flush,
            "drain" => Mechanism::Drain,
            _ => Mechanism::Tracked,
        };
        config.source = if source == "uipi" { Source::Uipi } else { Source::KbTimer };
        config.when = When::Every(config.parameters.cycles(time.parse()?));
        let measured = measure(machine, &config)?;
        println!(
            "{:?} cycles an interrupt, {:.3} % slower",
            measured.cycles_per_interrupt(),
            100.0 * measured.slowdown()
        );
        println!("{:?}\n{:?}", measured.baseline, measured.run);
        return Ok(());
    }
    let report = Core::new(machine()?, &config).run()?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{report:#?}");
    println!(
        "{:.2} instructions a cycle; {:.2} million a second",
        report.instructions as f64 / report.cycles as f64,
        report.instructions as f64 / seconds / 1e6
    );
    Ok(())
}
