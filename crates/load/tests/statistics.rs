//! Schedules against the statistics that their descriptions promise. Fixed seeds: the results are
//! always the same.

use std::time::Duration;

use quaver_load::{ArrivalProcess, Limit, Mix, Request, Schedule, ServiceTime};

const N: u64 = 1_000_000;

fn requests(process: ArrivalProcess, rate: f64, mix: &str) -> Vec<Request> {
    let mix: Mix = mix.parse().unwrap();
    Schedule::new(process, rate, &mix, Limit::Requests(N), 1).unwrap().iter().collect()
}

fn gaps(requests: &[Request]) -> Vec<f64> {
    requests.windows(2).map(|w| (w[1].intended_ns - w[0].intended_ns) as f64).collect()
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
}

#[track_caller]
fn assert_within(got: f64, want: f64, relative: f64) {
    assert!(
        (got / want - 1.0).abs() <= relative,
        "{got} differs from {want} by more than {relative}"
    );
}

#[test]
fn poisson_gaps_have_the_moments_and_the_shape_of_an_exponential() {
    let gaps = gaps(&requests(ArrivalProcess::Poisson, 1e5, "a"));
    let (mean, variance) = mean_and_variance(&gaps);
    assert_within(mean, 1e4, 0.005);
    assert_within(variance, 1e8, 0.01);
    for (share, quantile) in [(0.1, 1053.6), (0.5, 6931.5), (0.9, 23025.9), (0.999, 69077.6)] {
        let below = gaps.iter().filter(|&&gap| gap <= quantile).count() as f64;
        assert!((below / gaps.len() as f64 - share).abs() < 0.002, "{share}");
    }
    // Independent: no correlation between neighbours.
    let products: f64 = gaps.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    assert!((products / gaps.len() as f64 / variance).abs() < 0.005);
}

#[test]
fn counts_of_poisson_arrivals_have_variance_equal_to_mean() {
    let requests = requests(ArrivalProcess::Poisson, 1e5, "a");
    let last = requests[requests.len() - 1].intended_ns / 1_000_000;
    let mut counts = vec![0.0; last as usize];
    for request in &requests {
        // The last interval is incomplete.
        if let Some(count) = counts.get_mut((request.intended_ns / 1_000_000) as usize) {
            *count += 1.0;
        }
    }
    let (mean, variance) = mean_and_variance(&counts);
    assert_within(mean, 100.0, 0.005);
    assert_within(variance, 100.0, 0.05);
}

#[test]
fn batches_have_their_size_and_the_rate_stays() {
    let mean_size = 8.0;
    let requests = requests(ArrivalProcess::Batch { mean_size }, 1e5, "a");
    let gaps = gaps(&requests);
    let (mean, variance) = mean_and_variance(&gaps);
    assert_within(mean, 1e4, 0.02);
    // The squared coefficient of variation is 2M - 1.
    assert_within(variance / mean.powi(2), 2.0 * mean_size - 1.0, 0.02);
    let batches = 1 + gaps.iter().filter(|&&gap| gap > 0.0).count();
    assert_within(requests.len() as f64 / batches as f64, mean_size, 0.02);
}

#[test]
fn on_off_arrivals_keep_the_rate_and_clump() {
    let on_off = ArrivalProcess::OnOff { on_ns: 1_000_000, off_ns: 9_000_000 };
    let gaps = gaps(&requests(on_off, 1e5, "a"));
    let (mean, variance) = mean_and_variance(&gaps);
    assert_within(mean, 1e4, 0.03);
    // The squared coefficient of variation is 1 + 2 rate OFF^2 / (ON + OFF), here in milliseconds.
    assert_within(variance / mean.powi(2), 1.0 + 2.0 * 100.0 * 81.0 / 10.0, 0.05);
    // Without off periods it is Poisson.
    let always_on = ArrivalProcess::OnOff { on_ns: 1_000_000, off_ns: 0 };
    let (mean, variance) = mean_and_variance(&self::gaps(&requests(always_on, 1e5, "a")));
    assert_within(mean, 1e4, 0.005);
    assert_within(variance, 1e8, 0.01);
}

#[test]
fn a_higher_rate_only_stretches_the_pattern() {
    let slow = requests(ArrivalProcess::Poisson, 1e4, "a");
    let fast = requests(ArrivalProcess::Poisson, 1e5, "a");
    let same = |(s, f): (&Request, &Request)| s.intended_ns.abs_diff(f.intended_ns * 10) <= 10;
    assert!(slow.iter().zip(&fast).all(same));
}

#[test]
fn shares_and_service_times_are_those_of_the_mix() {
    let text = "a:70:fixed=4us,b:20:exp=10us,c:5:lognormal=10us/1,d:4:uniform=1us..9us,\
                e:1:bimodal=90%/1us/11us";
    let mix: Mix = text.parse().unwrap();
    let requests = requests(ArrivalProcess::Poisson, 1e5, text);
    for (index, class) in mix.classes().iter().enumerate() {
        let times: Vec<f64> = requests
            .iter()
            .filter(|r| r.class as usize == index)
            .map(|r| r.service_ns as f64)
            .collect();
        let (mean, variance) = mean_and_variance(&times);
        assert_within(times.len() as f64 / N as f64, class.weight / 100.0, 0.02);
        let service = class.service.unwrap();
        assert_within(mean, service.mean_ns(), 0.02);
        let expected = match service {
            ServiceTime::Fixed { .. } => 0.0,
            ServiceTime::Exponential { mean_ns } => (mean_ns as f64).powi(2),
            ServiceTime::Lognormal { mean_ns, sigma } => {
                (mean_ns as f64).powi(2) * (sigma.powi(2).exp() - 1.0)
            }
            ServiceTime::Uniform { low_ns, high_ns } => {
                ((high_ns - low_ns + 1) as f64).powi(2) / 12.0
            }
            ServiceTime::Bimodal { short_ns, long_ns, .. } => {
                0.9 * 0.1 * ((long_ns - short_ns) as f64).powi(2)
            }
        };
        if expected == 0.0 {
            assert_eq!(variance, 0.0);
        } else {
            // The lognormal's variance has a heavy-tailed estimate.
            let tolerance =
                if matches!(service, ServiceTime::Lognormal { .. }) { 0.15 } else { 0.05 };
            assert_within(variance, expected, tolerance);
        }
    }
    let mean = requests.iter().map(|r| r.service_ns as f64).sum::<f64>() / N as f64;
    assert_within(mean, mix.mean_service_ns().unwrap(), 0.01);
}

#[test]
fn keys_are_uniform() {
    let requests = requests(ArrivalProcess::Uniform, 1e5, "a");
    for bit in 0..64 {
        let ones = requests.iter().filter(|r| r.key_random >> bit & 1 == 1).count() as f64;
        assert!((ones / N as f64 - 0.5).abs() < 0.002, "bit {bit}");
    }
}

/// The first requests of a seed, computed with another implementation of the generator and of the
/// processes: a new version of a dependency must not change what a seed means.
#[test]
fn a_seed_means_the_same_for_ever() {
    let mix: Mix = "short:99.5%:exp=4us,long:0.5%:lognormal=10ms/1".parse().unwrap();
    let limit = Limit::Duration(Duration::from_secs(1));
    for (process, times) in [
        (ArrivalProcess::Poisson, [22_537, 32_223, 41_188, 42_066]),
        (ArrivalProcess::Batch { mean_size: 3.0 }, [67_611, 67_611, 67_611, 94_508]),
        (
            ArrivalProcess::OnOff { on_ns: 1_000_000, off_ns: 1_000_000 },
            [969_021, 971_630, 972_227, 974_710],
        ),
    ] {
        let schedule = Schedule::new(process, 1e5, &mix, limit, 42).unwrap();
        let requests: Vec<_> = schedule.iter().take(4).collect();
        assert_eq!(requests.iter().map(|r| r.intended_ns).collect::<Vec<_>>(), times, "{process}");
        let services: Vec<_> = requests.iter().map(|r| (r.class, r.service_ns)).collect();
        assert_eq!(services, [(0, 3_249), (0, 5_681), (0, 9), (0, 8_215)]);
        let keys: Vec<_> = requests.iter().map(|r| r.key_random).collect();
        assert_eq!(
            keys,
            [10698273067049034462, 13008171029641244066, 8417872631993530363, 6279553371922720181]
        );
    }
}
