//! Who gets how much when everybody wants more than there is: equal shares for equals, on any
//! number of workers and however they began; shares by weight; and nobody starves.

use super::{
    contest::{Got, Program, contest},
    *,
};

const US: Time = 1_000;
const QUANTUM: Time = 50 * US;

/// Every policy that preempts.
fn preemptive() -> impl Iterator<Item = String> {
    let preempts = |name: &&str| name.parse::<Spec>().unwrap().quantum().is_some();
    all().filter(preempts).map(|name| format!("{name}:quantum=50us"))
}

fn run(spec: &str, workers: usize, programs: &[Program], span: Time) -> Vec<Got> {
    let policy = build(spec, workers, programs.len() as u32);
    contest(&*policy, workers, QUANTUM, programs, span)
}

/// However the tasks come to be where they are: from elsewhere, made by one worker, or one by the
/// first worker and the others by the second.
#[test]
fn equal_hogs_get_equal_shares() {
    for spec in preemptive() {
        for workers in [1, 2, 4] {
            let last = Place::Local(workers - 1);
            let places = [
                [Place::Shared; 8],
                [Place::Local(0); 8],
                std::array::from_fn(|i| if i == 0 { Place::Local(0) } else { last }),
                std::array::from_fn(|i| if i < 4 { Place::Shared } else { last }),
            ];
            for (start, places) in places.into_iter().enumerate() {
                let span = 500_000 * US;
                let got = run(&spec, workers, &places.map(Program::hog), span);
                let fair = span * workers as Time / 8;
                for task in &got {
                    let ran: Vec<_> = got.iter().map(|task| task.ran * 100 / fair).collect();
                    let what = format!("{spec}, {workers} workers, start {start}: {ran:?} %");
                    assert!(task.ran >= fair * 8 / 10 && task.ran <= fair * 12 / 10, "{what}");
                    assert!(task.longest_wait <= 100_000 * US, "{what}");
                }
                // Nobody idles.
                let all: Time = got.iter().map(|task| task.ran).sum();
                assert_eq!(all, span * workers as Time, "{spec}");
            }
        }
    }
}

/// Numbers that do not come out even: nobody has less than half of what is fair.
#[test]
fn odd_numbers_of_hogs_starve_nobody() {
    for spec in preemptive() {
        for (workers, hogs) in [(2, 3), (2, 7), (4, 5), (4, 9), (4, 30)] {
            let programs = vec![Program::hog(Place::Local(0)); hogs];
            let span = 1_000_000 * US;
            let fair = span * workers as Time / hogs as Time;
            for task in run(&spec, workers, &programs, span) {
                assert!(task.ran >= fair / 2, "{spec} {workers} {hogs}: {} of {fair}", task.ran);
            }
        }
    }
}

#[test]
fn shares_follow_weights_on_any_number_of_workers() {
    for spec in ["cfs:quantum=50us", "eevdf:quantum=50us"] {
        for workers in [1, 2, 4] {
            for place in [Place::Shared, Place::Local(0)] {
                let weights = [200, 100, 200, 100, 200, 100, 200, 100, 100, 100, 100, 100];
                let programs = weights.map(|weight| {
                    let attributes = Attributes { weight, ..Attributes::default() };
                    Program { attributes, ..Program::hog(place) }
                });
                let span = 500_000 * US;
                let got = run(spec, workers, &programs, span);
                let all: u32 = weights.iter().sum();
                for (got, weight) in got.iter().zip(weights) {
                    let fair = span * workers as Time * Time::from(weight) / Time::from(all);
                    let share = got.ran * 100 / fair;
                    assert!((70..=140).contains(&share), "{spec} {workers} {weight}: {share} %");
                }
                let of = |weight| {
                    let chosen = got.iter().zip(weights).filter(move |(_, w)| *w == weight);
                    chosen.map(|(got, _)| got.ran)
                };
                assert!(of(200).min() > of(100).max(), "{spec} {workers}: weights cross over");
            }
        }
    }
}

/// A task that is woken gets the same share whoever wakes it, and its wake-ups make no switches
/// that are undone at once.
#[test]
fn it_does_not_matter_who_wakes_a_task() {
    for spec in ["cfs:quantum=20us", "eevdf:quantum=20us"] {
        let share = |place| {
            let sleeper = Program { work: 19 * US, sleep: US, ..Program::hog(place) };
            let programs = [sleeper, Program::hog(Place::Local(0))];
            let span = 1_000_000 * US;
            let got = run(spec, 1, &programs, span);
            let runs: u32 = got.iter().map(|task| task.runs).sum();
            let useless: u32 = got.iter().map(|task| task.useless).sum();
            assert!(useless * 50 <= runs, "{spec} {place:?}: {useless} of {runs} runs");
            got[0].ran as f64 / span as f64
        };
        let (local, shared) = (share(Place::Local(0)), share(Place::Shared));
        assert!((0.45..=0.52).contains(&local), "{spec}: {local}");
        assert!((shared - local).abs() <= 0.02, "{spec}: {shared}, woken by its worker {local}");
    }
}

/// Low priorities get what their age gives them, on any number of workers.
#[test]
fn low_priorities_run_in_the_end() {
    for workers in [1, 2, 4] {
        let priorities = [0, 1, 3, 3, 5, 5, 7, 7, 7];
        let programs = priorities.map(|priority| {
            let attributes = Attributes { priority, ..Attributes::default() };
            Program { attributes, ..Program::hog(Place::Shared) }
        });
        let span = 1_000_000 * US;
        let spec = "priority:quantum=50us,max-age=1ms";
        for (got, priority) in run(spec, workers, &programs, span).iter().zip(priorities) {
            // Seven climbs and the turns of the others.
            assert!(got.longest_wait <= 10_000 * US, "{priority}: {}", got.longest_wait);
            assert!(got.ran >= span / 10_000 * 50, "{priority}: {}", got.ran);
        }
    }
}
