//! Options of commands that run a runtime of their own: its settings, as `quaver run` has them.

use quaver::{BuildError, Builder, Runtime};

/// The settings of a runtime. What is not said is what the environment says, else the default.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Runtime")]
pub struct RuntimeArgs {
    /// How many threads run at the same time [default: the CPUs that the process may use]
    #[arg(long, value_name = "N", env = "QUAVER_WORKERS")]
    pub workers: Option<String>,

    /// Pin the workers to these CPUs, such as `0-2,4`
    #[arg(long, value_name = "LIST", env = "QUAVER_CPUS")]
    pub cpus: Option<String>,

    /// How long a thread may run while others wait (`20us`), or `off` [default: auto, what suits
    /// the machine]
    #[arg(long, value_name = "TIME", env = "QUAVER_QUANTUM")]
    pub quantum: Option<String>,

    /// Which thread runs next, such as `two-queue:long=100us`
    #[arg(long, value_name = "POLICY", env = "QUAVER_POLICY")]
    pub policy: Option<String>,

    /// Who keeps time: auto, timer-core, timer-thread, posix-timer, delegated-timer
    #[arg(long, value_name = "CLOCK", env = "QUAVER_CLOCK")]
    pub clock: Option<String>,

    /// How threads are told to stop: auto, signal, probe, user-interrupt,
    /// emulated-user-interrupt
    #[arg(long, value_name = "NOTIFICATION", env = "QUAVER_NOTIFICATION")]
    pub notification: Option<String>,

    /// How much of a worker's time preemptions may take, in percent
    #[arg(long, value_name = "PERCENT", env = "QUAVER_TAX")]
    pub tax: Option<String>,

    /// Any other setting of the runtime, as `max_threads=100000`; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
}

impl RuntimeArgs {
    /// A builder with these settings, whose mistakes it reports when it builds.
    pub fn builder(&self) -> Builder {
        quaver_monitor::provide();
        let named = [
            ("workers", &self.workers),
            ("cpus", &self.cpus),
            ("quantum", &self.quantum),
            ("policy", &self.policy),
            ("clock", &self.clock),
            ("notification", &self.notification),
            ("tax", &self.tax),
        ];
        let builder =
            named.into_iter().fold(Builder::from_env(), |builder, (name, value)| match value {
                Some(value) => builder.set(name, value),
                None => builder,
            });
        self.settings.iter().fold(builder, |builder, list| builder.settings(list))
    }

    /// Builds the runtime.
    ///
    /// # Errors
    ///
    /// A setting cannot be used here.
    pub fn build(&self) -> Result<Runtime, BuildError> {
        self.builder().build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let args = RuntimeArgs { workers: Some("many".into()), ..RuntimeArgs::default() };
        let error = args.builder().validate().unwrap_err().to_string();
        assert!(error.contains("workers") && error.contains("many"), "{error}");
        let args = RuntimeArgs { settings: vec!["quantm=1us".into()], ..RuntimeArgs::default() };
        let error = args.builder().validate().unwrap_err().to_string();
        assert!(error.contains("quantum"), "{error}");
    }
}
