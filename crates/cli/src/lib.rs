//! The `quaver` command: what each subcommand does is the documentation of its module.
//!
//! This crate is a program; it is a library only so that its parts can be tested and documented. It
//! promises no stable interface.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "bench")]
pub mod bench;
pub mod cache;
pub mod cc;
pub mod chart;
pub mod companion;
#[cfg(feature = "core")]
pub mod core;
pub mod demo;
pub mod doctor;
pub mod html;
pub mod interrupt;
#[cfg(feature = "serve")]
pub mod l3fwd;
pub mod load;
pub mod lock;
pub mod lockd;
pub mod output;
pub mod parse;
#[cfg(feature = "sim")]
pub mod plan;
#[cfg(feature = "probes")]
pub mod probes;
pub mod process;
#[cfg(feature = "sim")]
pub mod report;
pub mod run;
pub mod runtime_args;
#[cfg(feature = "selftest")]
pub mod selftest;
#[cfg(feature = "serve")]
pub mod serve;
pub mod share;
#[cfg(feature = "sim")]
pub mod sim;
pub mod slice;

/// Preemptive user-level threads for Linux.
#[derive(Parser, Debug)]
#[command(name = "quaver", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Say what this machine offers and which mechanisms would be used, and why
    Doctor(doctor::Args),
    Demo(Box<demo::Args>),
    /// Measure the runtime's operations, beside other thread libraries
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    /// Find out whether preemption changes a result on this machine
    #[cfg(feature = "selftest")]
    Selftest(Box<selftest::Args>),
    Run(Box<run::Args>),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    Load(Box<load::Args>),
    #[cfg(feature = "serve")]
    L3fwd(l3fwd::Args),
    Lock(lock::Args),
    Lockd(lockd::Args),
    Share(Box<share::Args>),
    Cc(cc::Args),
    #[cfg(feature = "probes")]
    Probes(probes::Args),
    #[cfg(feature = "sim")]
    Sim(Box<sim::Args>),
    #[cfg(feature = "core")]
    Core(core::Args),
    #[cfg(feature = "sim")]
    Plan(plan::Args),
    #[cfg(feature = "sim")]
    Report(report::Args),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        // Of these the codes from 0 to 124 are the program's.
        let mut words = std::env::args_os().skip(1);
        let is_program = match words.next() {
            Some(name) if name == "share" => words.next().is_some_and(|name| name == "run"),
            name => name.is_some_and(|name| name == "run" || name == "lock"),
        };
        if error.use_stderr() && is_program {
            let _ = error.print();
            std::process::exit(run::exit::SETTINGS.into());
        }
        error.exit()
    });
    let result = match cli.command {
        Command::Doctor(args) => doctor::run(args),
        Command::Demo(args) => demo::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(args),
        #[cfg(feature = "selftest")]
        Command::Selftest(args) => selftest::run(*args),
        Command::Run(args) => Ok(run::run(*args)),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args),
        Command::Load(args) => load::run(&args),
        #[cfg(feature = "serve")]
        Command::L3fwd(args) => l3fwd::run(&args),
        Command::Lock(args) => Ok(lock::run(&args)),
        Command::Lockd(args) => lockd::run(&args),
        Command::Share(args) => share::run(&args),
        Command::Cc(args) => Ok(cc::run(&args)),
        #[cfg(feature = "probes")]
        Command::Probes(args) => probes::run(&args),
        #[cfg(feature = "sim")]
        Command::Sim(args) => sim::run(&args),
        #[cfg(feature = "core")]
        Command::Core(args) => core::run(&args),
        #[cfg(feature = "sim")]
        Command::Plan(args) => plan::run(&args),
        #[cfg(feature = "sim")]
        Command::Report(args) => report::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("quaver: {error:#}");
        ExitCode::FAILURE
    })
}
