//! A network stack in user space, if the user wants one: `quaver run --net`, which says it in
//! `QUAVER_NET`. Its threads are user threads beside the program's.

use crate::exec;
use crate::say::fatal;
use quaver::Runtime;
use quaver::net::stack;
use quaver_net::spec::Spec;

const VARIABLE: &str = "QUAVER_NET";

/// Starts the stack, before `main`. It is this process's: programs that it starts have none.
pub(crate) fn start(runtime: &Runtime) {
    let Some(text) = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()) else { return };
    exec::replace_variable(VARIABLE, "");
    let spec: Spec = match text.parse() {
        Ok(spec) => spec,
        Err(e) => fatal(format_args!("--net: {e}")),
    };
    let running = spec.builder().and_then(|builder| builder.start(&runtime.handle()));
    let running = running.unwrap_or_else(|e| fatal(format_args!("--net {text}: {e}")));
    match stack::install(running.stack()) {
        // They end with the process.
        Ok(installed) => core::mem::forget((running, installed)),
        Err(e) => fatal(format_args!("--net {text}: {e}")),
    }
}
