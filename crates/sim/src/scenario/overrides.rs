//! Costs that a scenario has of its own, in place of those of the entries that it names.

use serde::Deserialize;

use super::read;
use crate::costs::{Mechanism, System};
use crate::delay::Delay;

/// Which fields can be changed: times are read as durations, delays as [`Delay`] reads them.
macro_rules! overrides {
    ($($entry:ident, $change:ident, $type:ty {
        times { $($time:ident)* } delays { $($delay:ident)* }
    })*) => {
        /// Costs that differ from the entries.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        #[allow(missing_docs, reason = "as in Mechanism and System")]
        pub struct Overrides {
            $($(
                #[serde(deserialize_with = "read::maybe_duration")]
                pub $time: Option<u64>,
            )*
            $(pub $delay: Option<Delay>,)*)*
        }

        impl Overrides {
            $(pub(super) fn $change(&self, $entry: &mut $type) {
                $(if let Some(time) = self.$time {
                    $entry.$time = time.into();
                })*
                $(if let Some(delay) = &self.$delay {
                    $entry.$delay = delay.clone().into();
                })*
            })*
        }
    };
}

overrides! {
    mechanism, change_mechanism, Mechanism {
        times { send scan arm price switch lock }
        delays { deliver late receive look }
    }
    system, change_system, System {
        times {
            dispatch preempt_switch steal poll request spin app_switch ingest assign handoff
        }
        delays { wake }
    }
}
