//! The analyses. Each returns a number that depends on all its results.

use super::history::History;

/// By kind.
pub(super) static KERNELS: [fn(&History, usize) -> f64; super::KINDS] =
    [decay, ad, rmv, ppo, kmeans];

/// Steps by which a decaying average forgets: each value counts less by this share.
const DECAY: f64 = 0.06;

/// Exponentially decaying average of the closing price.
fn decay(history: &History, rows: usize) -> f64 {
    let mut average = history.close[0];
    let mut sum = 0.0;
    for close in &history.close[..rows] {
        average += DECAY * (close - average);
        sum += average;
    }
    sum
}

/// Accumulation and distribution: the volume, weighted by where in the day's range the price ended.
fn ad(history: &History, rows: usize) -> f64 {
    let (mut line, mut sum) = (0.0, 0.0);
    let prices = history.high[..rows].iter().zip(&history.low[..rows]);
    for ((high, low), (close, volume)) in prices.zip(history.close.iter().zip(&history.volume)) {
        let range = high - low;
        let place = if range > 0.0 { ((close - low) - (high - close)) / range } else { 0.0 };
        line += place * volume;
        sum += line;
    }
    sum
}

/// Days that a mid value is taken over.
const WINDOW: usize = 20;

/// Rolling mid value: half of the highest and the lowest price in a window.
fn rmv(history: &History, rows: usize) -> f64 {
    let windows = history.high[..rows].windows(WINDOW).zip(history.low[..rows].windows(WINDOW));
    windows.fold(0.0, |sum, (high, low)| {
        let highest = high.iter().copied().fold(f64::MIN, f64::max);
        let lowest = low.iter().copied().fold(f64::MAX, f64::min);
        sum + (highest + lowest) / 2.0
    })
}

/// Percentage price oscillator: how far a quick average of the price is from a slow one, and how
/// far that is from its own average, the signal line.
fn ppo(history: &History, rows: usize) -> f64 {
    // Of 12, 26 and 9 days.
    const QUICK: f64 = 2.0 / 13.0;
    const SLOW: f64 = 2.0 / 27.0;
    const SIGNAL: f64 = 2.0 / 10.0;
    let (mut quick, mut slow, mut signal, mut sum) = (history.close[0], history.close[0], 0.0, 0.0);
    for close in &history.close[..rows] {
        quick += QUICK * (close - quick);
        slow += SLOW * (close - slow);
        let oscillator = 100.0 * (quick - slow) / slow;
        signal += SIGNAL * (oscillator - signal);
        sum += oscillator - signal;
    }
    sum
}

/// Clusters, and how often their centres are moved.
const CLUSTERS: usize = 5;
const ROUNDS: usize = 8;

/// The means of clusters of days, by price and volume (Lloyd's algorithm).
fn kmeans(history: &History, rows: usize) -> f64 {
    let points = || history.close[..rows].iter().zip(&history.volume).map(|(p, v)| [*p, *v / 1e4]);
    let mut centres = [[0.0; 2]; CLUSTERS];
    for (index, centre) in centres.iter_mut().enumerate() {
        let row = index * rows / CLUSTERS;
        *centre = [history.close[row], history.volume[row] / 1e4];
    }
    for _ in 0..ROUNDS {
        let mut sums = [[0.0; 3]; CLUSTERS];
        for [x, y] in points() {
            let distance = |centre: &[f64; 2]| (centre[0] - x).powi(2) + (centre[1] - y).powi(2);
            let (mut nearest, mut least) = (0, f64::MAX);
            for (index, centre) in centres.iter().enumerate() {
                let distance = distance(centre);
                if distance < least {
                    (nearest, least) = (index, distance);
                }
            }
            let sum = &mut sums[nearest];
            *sum = [sum[0] + x, sum[1] + y, sum[2] + 1.0];
        }
        for (centre, [x, y, count]) in centres.iter_mut().zip(sums) {
            if count > 0.0 {
                *centre = [x / count, y / count];
            }
        }
    }
    centres.iter().map(|[x, y]| x + y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(days: usize, price: f64) -> History {
        History {
            high: vec![price + 1.0; days],
            low: vec![price - 1.0; days],
            close: vec![price; days],
            volume: vec![1e6; days],
        }
    }

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{got} is not {want}");
    }

    #[test]
    fn a_price_that_stays_has_simple_results() {
        let history = flat(100, 50.0);
        near(decay(&history, 100), 5_000.0);
        near(ad(&history, 100), 0.0);
        near(rmv(&history, 100), 50.0 * 81.0);
        near(ppo(&history, 100), 0.0);
        near(kmeans(&history, 100), 50.0 + 100.0 + 4.0 * (50.0 + 100.0));
    }

    #[test]
    fn a_price_at_its_high_accumulates_volume() {
        let mut history = flat(3, 50.0);
        history.close = history.high.clone();
        near(ad(&history, 3), 1e6 * (1.0 + 2.0 + 3.0));
    }

    #[test]
    fn two_groups_of_days_are_found() {
        let mut history = flat(100, 10.0);
        for day in 50..100 {
            history.close[day] = 90.0;
        }
        // Centres begin at days 0, 20, 40, 60 and 80, and those without days stay.
        near(kmeans(&history, 100), 3.0 * 10.0 + 2.0 * 90.0 + 5.0 * 100.0);
    }

    #[test]
    fn every_row_counts() {
        let history = History::new(400);
        for (kind, kernel) in KERNELS.iter().enumerate() {
            let (all, fewer) = (kernel(&history, 400), kernel(&history, 300));
            assert!(all.is_finite() && all != fewer, "{kind}: {all}");
            assert_eq!(all, kernel(&history, 400), "{kind}");
        }
    }
}
