//! Daily prices and volumes of a share that does not exist.

/// Columns of equal length.
pub(super) struct History {
    pub(super) high: Vec<f64>,
    pub(super) low: Vec<f64>,
    pub(super) close: Vec<f64>,
    pub(super) volume: Vec<f64>,
}

impl History {
    /// So many days, the same ones every time: a random walk.
    pub(super) fn new(days: usize) -> History {
        let mut history = History {
            high: Vec::with_capacity(days),
            low: Vec::with_capacity(days),
            close: Vec::with_capacity(days),
            volume: Vec::with_capacity(days),
        };
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            (word >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut price = 100.0;
        for _ in 0..days {
            price = (price * (0.98 + 0.0402 * random())).clamp(1.0, 10_000.0);
            let (up, down) = (1.0 + 0.02 * random(), 1.0 - 0.02 * random());
            history.close.push(price);
            history.high.push(price * up);
            history.low.push(price * down);
            history.volume.push(1e6 * (0.5 + random()));
        }
        history
    }
}
