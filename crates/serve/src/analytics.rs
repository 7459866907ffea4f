//! The analytics server of Aspen's second benchmark: the analyses of [`quaver_analytics`], asked
//! for by the kind of a datagram, from 1.

pub use quaver_analytics::{Analytics, KINDS, MICROSECONDS, NAMES, Rows, calibrate};
use quaver_load::net::aspen::{Message, REFUSED};

use crate::udp::Answer;

impl Answer for Analytics {
    fn answer(&self, request: &Message) -> Message {
        let kind = (request.kind as usize).wrapping_sub(1);
        match self.compute(kind) {
            Some(result) => {
                // The work must not be left out because nobody looks at the result.
                std::hint::black_box(result);
                *request
            }
            None => Message { kind: request.kind | REFUSED, ..*request },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_kinds_are_served_and_no_other() {
        let server = Analytics::new(Rows([64; KINDS]));
        for kind in 0..8 {
            let request = Message { id: 1, kind, key: 0, run_ns: 0 };
            let refused = server.answer(&request).kind & REFUSED != 0;
            assert_eq!(refused, !(1..=5).contains(&kind), "{kind}");
        }
        assert_eq!(NAMES, quaver_load::net::KERNELS);
    }
}
