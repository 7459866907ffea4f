//! Options about what clients may ask for.

use std::sync::Arc;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use quaver_serve::limits::{Budget, Limits};

use crate::parse::{bytes, duration};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

/// What clients may ask for.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Connections at the same time; over UDP requests
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_connections: usize,

    /// Bytes of a value, or of any other word of a request
    #[arg(long, value_name = "SIZE", default_value = "16m",
          value_parser = bytes::within(1024..=512 << 20))]
    max_value: u64,

    /// Bytes of all requests and replies that are held for clients, beyond 64k for each
    #[arg(long, value_name = "SIZE", default_value = "1g",
          value_parser = bytes::within(1 << 20..=1 << 40))]
    max_buffers: u64,

    /// Close connections whose client has sent nothing for so long [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::within(MS..=DAY))]
    idle_timeout: Option<Duration>,

    /// Close connections whose client takes longer to receive a reply
    #[arg(long, value_name = "TIME", default_value = "30s",
          value_parser = duration::within(MS..=DAY))]
    write_timeout: Duration,

    /// How long clients may take to receive what they have asked for when the server stops
    #[arg(long, value_name = "TIME", default_value = "5s",
          value_parser = duration::within(MS..=DAY))]
    grace: Duration,
}

impl LimitArgs {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            value: self.max_value as usize,
            buffers: Arc::new(Budget::new(self.max_buffers as usize)),
            idle: self.idle_timeout,
            write: self.write_timeout,
            grace: self.grace,
            ..Limits::default()
        }
    }
}
