//! What a stack has done.

use std::ops::AddAssign;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a stack has done since its start.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)+
        }

        pub(crate) type Counters = Stats;

        impl AddAssign for Stats {
            fn add_assign(&mut self, other: Stats) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counters! {
    /// Frames that have come.
    frames_in,
    /// Their bytes.
    bytes_in,
    /// Frames that were sent.
    frames_out,
    /// Their bytes.
    bytes_out,
    /// Connections that peers have opened.
    accepted,
    /// Connections that there are, with those that wait for their last segments.
    connections,
    /// Connections that have ended, and whose last segments may still be repeated.
    time_waits,
    /// Dropped: not for the stack's addresses.
    not_for_us,
    /// Dropped: no frame, packet or datagram that anybody understands, or a wrong checksum.
    malformed,
    /// Dropped: part of a packet that was too long for some network. They are not put together.
    fragments,
    /// Dropped: nobody listens there. Refused, within limits.
    unwanted,
    /// Requests for connections that were dropped: too many wait already.
    backlog_full,
    /// Datagrams that were dropped: the socket's queue was full.
    queue_full,
    /// Half-open connections that gave way to new ones.
    half_open_dropped,
    /// Answers that were not sent: too many at once.
    limited,
    /// Frames that were made and lost: there was no room.
    lost,
}
