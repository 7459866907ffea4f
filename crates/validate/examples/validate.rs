//! As `quaver sim --validate`, without the command around it.

fn main() -> anyhow::Result<()> {
    let quick = std::env::args().any(|arg| arg == "--quick");
    print!("{}", quaver_validate::validate(quick, quaver::Clock::Auto)?.text());
    Ok(())
}
