//! The prices of swaptions by Monte Carlo simulation of the forward curve (Heath, Jarrow, Morton;
//! three factors).
mod common;
use common::{Rng, at_least, erfc, fail, finish_rounded, start};

const PERIODS: usize = 20;
const FACTORS: usize = 3;
const SWAPTIONS: usize = 8;
const PERIOD: f64 = 0.5;
/// 2^-54.
const TINY: f64 = f64::EPSILON / 4.0;

struct Swaption {
    /// In periods.
    expiry: usize,
    strike: f64,
}

struct Market {
    curve: [f64; PERIODS],
    /// By periods to maturity.
    volatility: [[f64; PERIODS]; FACTORS],
    drift: [f64; PERIODS],
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients[1..].iter().fold(coefficients[0], |sum, c| sum * x + c)
}

/// The normal distribution's inverse by rational functions (Acklam), right to 1e-9 of the result.
fn inverse_normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.383577518672690e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 5] = [
        7.784695709041462e-03,
        3.224671290700398e-01,
        2.445134137142996e+00,
        3.754408661907416e+00,
        1.0,
    ];
    let tail = if p < 0.5 { p } else { 1.0 - p };
    if tail < 0.02425 {
        let q = (-2.0 * tail.ln()).sqrt();
        let x = polynomial(&C, q) / polynomial(&D, q);
        return if p < 0.5 { x } else { -x };
    }
    let q = p - 0.5;
    let r = q * q;
    polynomial(&A, r) * q / polynomial(&B, r)
}

impl Market {
    fn new() -> Market {
        let zero = [0.0; PERIODS];
        let mut market = Market { curve: zero, volatility: [zero; FACTORS], drift: zero };
        let (mut sums, mut before) = ([0.0; FACTORS], 0.0);
        for j in 0..PERIODS {
            let age = PERIOD * j as f64;
            market.curve[j] = 0.03 + 0.002 * age - 0.00008 * age * age;
            market.volatility[0][j] = 0.008;
            market.volatility[1][j] = 0.006 / (1.0 + 0.5 * age);
            market.volatility[2][j] = 0.004 * (1.0 - 0.15 * age);
            // The drift that makes discounted bonds martingales in these very steps.
            let mut after = 0.0;
            for (sum, volatility) in sums.iter_mut().zip(&market.volatility) {
                *sum += volatility[j] * PERIOD;
                after += 0.5 * *sum * *sum;
            }
            market.drift[j] = (after - before) / PERIOD;
            before = after;
        }
        market
    }

    /// One path up to the expiry: the rate of each period from then on, and the discount factor to
    /// the expiry.
    fn simulate(&self, rng: &mut Rng, expiry: usize) -> ([f64; PERIODS], f64) {
        let (mut forward, mut rates) = (self.curve, self.curve[0] * PERIOD);
        let root = PERIOD.sqrt();
        for i in 1..=expiry {
            let random = |_| root * inverse_normal(rng.between(TINY, 1.0 - TINY));
            let shock: [f64; FACTORS] = std::array::from_fn(random);
            for (j, forward) in forward[i..].iter_mut().enumerate() {
                let mut change = self.drift[j] * PERIOD;
                for (volatility, shock) in self.volatility.iter().zip(shock) {
                    change += volatility[j] * shock;
                }
                *forward += change;
            }
            if i < expiry {
                rates += forward[i] * PERIOD;
            }
        }
        (forward, (-rates).exp())
    }
}

impl Swaption {
    /// What the right to pay the strike from the expiry to the last period is worth then; and the
    /// last period's bond.
    fn payoff(&self, forward: &[f64; PERIODS]) -> (f64, f64) {
        let (mut rates, mut annuity, mut bond) = (0.0, 0.0, 1.0);
        for rate in &forward[self.expiry..] {
            rates += rate * PERIOD;
            bond = f64::exp(-rates);
            annuity += bond * PERIOD;
        }
        let value = 1.0 - bond - self.strike * annuity;
        (if value > 0.0 { value } else { 0.0 }, bond)
    }
}

/// A mean and its standard error.
#[derive(Default)]
struct Mean {
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.squares += value * value;
    }

    fn of(&self, n: f64) -> (f64, f64) {
        let mean = self.sum / n;
        (mean, ((self.squares / n - mean * mean) / n).sqrt())
    }
}

fn main() {
    let trials = at_least(100, 290000.0 * start());
    let market = Market::new();
    for i in 1..1000 {
        let p = f64::from(i) / 1000.0;
        let back = 0.5 * erfc(-inverse_normal(p) / 2.0f64.sqrt());
        if !((back - p).abs() < 1e-8) {
            fail!("the inverse of the normal distribution at {p} is that of {back}");
        }
    }
    let rates = market.curve.iter().fold(0.0, |sum, rate| sum + rate * PERIOD);
    let today = f64::exp(-rates);
    let (mut rng, mut total) = (Rng(21), 0.0);
    for k in 0..SWAPTIONS {
        let swaption = Swaption { expiry: 3 + k, strike: 0.025 + 0.003 * k as f64 };
        let (mut values, mut bonds) = (Mean::default(), Mean::default());
        for _ in 0..trials {
            let (forward, discount) = market.simulate(&mut rng, swaption.expiry);
            let (value, bond) = swaption.payoff(&forward);
            values.add(discount * value);
            bonds.add(discount * bond);
        }
        let (bond, error) = bonds.of(trials as f64);
        if !((bond - today).abs() < 5.0 * error) {
            fail!("the last bond costs {bond} instead of {today}, 5 errors of {error} off");
        }
        let (price, error) = values.of(trials as f64);
        if !(price > 0.0 && error < 0.3 * price) {
            fail!("swaption {k}: a price of {price} +- {error}");
        }
        total += price;
    }
    finish_rounded("swaptions", total);
}
