//! The prices of European options by the Black-Scholes formula.
mod common;
use common::{Rng, at_least, erfc, fail, finish_rounded, start};

const OPTIONS: usize = 20000;

#[derive(Clone, Copy)]
struct Contract {
    spot: f64,
    strike: f64,
    rate: f64,
    volatility: f64,
    years: f64,
    put: bool,
}

/// The normal distribution by a polynomial (Abramowitz and Stegun 26.2.17), right to 1e-7.
fn normal(x: f64) -> f64 {
    let size = x.abs();
    let k = 1.0 / (1.0 + 0.2316419 * size);
    let mut poly = 1.330274429;
    poly = poly * k - 1.821255978;
    poly = poly * k + 1.781477937;
    poly = poly * k - 0.356563782;
    poly = poly * k + 0.319381530;
    let tail = 0.39894228040143268 * (-0.5 * size * size).exp() * poly * k;
    if x < 0.0 { tail } else { 1.0 - tail }
}

fn price(o: &Contract) -> f64 {
    let spread = o.volatility * o.years.sqrt();
    let growth = (o.rate + 0.5 * o.volatility * o.volatility) * o.years;
    let d1 = ((o.spot / o.strike).ln() + growth) / spread;
    let (n1, n2) = (normal(d1), normal(d1 - spread));
    let future = o.strike * (-o.rate * o.years).exp();
    if o.put { future * (1.0 - n2) - o.spot * (1.0 - n1) } else { o.spot * n1 - future * n2 }
}

fn main() {
    let runs = at_least(1, 1500.0 * start());
    let mut rng = Rng(19);
    let mut options = Vec::with_capacity(OPTIONS);
    for _ in 0..OPTIONS / 2 {
        let spot = rng.between(20.0, 120.0);
        let call = Contract {
            spot,
            strike: spot * rng.between(0.7, 1.4),
            rate: rng.between(0.0, 0.1),
            volatility: rng.between(0.05, 0.6),
            years: rng.between(0.1, 2.0),
            put: false,
        };
        options.extend([call, Contract { put: true, ..call }]);
    }
    let mut prices = vec![0.0; OPTIONS];
    for _ in 0..runs {
        for (option, of_option) in options.iter_mut().zip(&mut prices) {
            *of_option = price(option);
            // The next run's market.
            option.rate += 1e-9;
        }
    }
    let mut total = 0.0;
    for (pair, prices) in options.chunks_exact(2).zip(prices.chunks_exact(2)) {
        let (o, call, put) = (&pair[0], prices[0], prices[1]);
        let rate = o.rate - 1e-9;
        total += call + put;
        let discount = (-rate * o.years).exp();
        let parity = o.spot - o.strike * discount;
        if !((call - put - parity).abs() < 1e-9 * o.spot) {
            fail!("call less put is {} instead of {parity}", call - put);
        }
        let spread = o.volatility * o.years.sqrt();
        let d1 = ((o.spot / o.strike).ln() + rate * o.years) / spread + 0.5 * spread;
        let root = 0.5f64.sqrt();
        let exact = 0.5 * o.spot * erfc(-d1 * root)
            - 0.5 * o.strike * discount * erfc(-(d1 - spread) * root);
        if !((call - exact).abs() < 1e-6 * o.spot) {
            fail!("a call of {call} instead of {exact}");
        }
    }
    finish_rounded("blackscholes", total);
}
