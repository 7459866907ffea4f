//! Which best-effort application has the cores that are left.

use crate::Time;
use alloc::vec::Vec;

/// An application that wants cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its number.
    pub app: u32,
    /// Its weight, at least 1.
    pub weight: u32,
    /// What it has used since it came, as the kernel has measured it.
    pub used: Time,
    /// It has something to run.
    pub wants: bool,
}

/// The account of one application.
#[derive(Clone, Copy, Debug)]
struct Account {
    app: u32,
    used: Time,
    /// What it has used by its weight, since all accounts began.
    pass: u64,
}

/// Takes turns among best-effort applications, by weights.
///
/// Each has an account of what it used, by its weight; who has used the least is next (stride
/// scheduling). What counts is what the kernel has measured, so a turn that the kernel gave to
/// somebody else is not lost, and one that was used twice is paid for. Who wants nothing saves
/// nothing: when it comes back it begins where the others are.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    accounts: Vec<Account>,
    holder: Option<u32>,
}

/// Of passes: so that weights up to [`MAX_SHARE_WEIGHT`](super::MAX_SHARE_WEIGHT) divide well.
const SCALE: u64 = 1 << 12;

impl Turns {
    /// Nobody has a turn.
    pub fn new() -> Turns {
        Turns::default()
    }

    /// Who has the next turn; `None`: nobody wants one. Accounts of applications that are not among
    /// the candidates are dropped.
    pub fn next(&mut self, candidates: &[Candidate]) -> Option<u32> {
        self.accounts.retain(|account| candidates.iter().any(|c| c.app == account.app));
        // Who wants something was here before, or begins with the one that has used the least.
        let wanting =
            |account: &&Account| candidates.iter().any(|c| c.app == account.app && c.wants);
        let least = self.accounts.iter().filter(wanting).map(|account| account.pass).min();
        let begin = least.or(self.accounts.iter().map(|a| a.pass).max()).unwrap_or(0);
        for c in candidates {
            match self.accounts.iter_mut().find(|account| account.app == c.app) {
                Some(account) => {
                    let ran = c.used.saturating_sub(account.used);
                    account.used = c.used;
                    let cost = ran.saturating_mul(SCALE) / u64::from(c.weight.max(1));
                    account.pass = account.pass.saturating_add(cost);
                    if !c.wants {
                        account.pass = account.pass.max(begin);
                    }
                }
                None => self.accounts.push(Account { app: c.app, used: c.used, pass: begin }),
            }
        }
        let wanting = self.accounts.iter().filter(wanting);
        // Among equals the holder goes on: a change costs something.
        let holder = self.holder;
        self.holder = wanting.min_by_key(|a| (a.pass, Some(a.app) != holder, a.app)).map(|a| a.app);
        self.holder
    }

    /// Who has the turn.
    pub fn holder(&self) -> Option<u32> {
        self.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives turns of `slice`; each application uses all of its turn. How much each has used.
    fn run(turns: &mut Turns, apps: &mut [Candidate], rounds: usize, slice: Time) {
        for _ in 0..rounds {
            if let Some(next) = turns.next(apps) {
                apps.iter_mut().find(|c| c.app == next).unwrap().used += slice;
            }
        }
    }

    fn app(app: u32, weight: u32) -> Candidate {
        Candidate { app, weight, used: 0, wants: true }
    }

    #[test]
    fn shares_are_as_the_weights() {
        let mut apps = [app(7, 1), app(3, 2), app(9, 5)];
        run(&mut Turns::new(), &mut apps, 8000, 10);
        for c in &apps {
            let fair = 80_000 * u64::from(c.weight) / 8;
            assert!(c.used.abs_diff(fair) <= 30, "{c:?}, not {fair}");
        }
    }

    #[test]
    fn who_wants_nothing_gets_nothing_and_saves_nothing() {
        let mut turns = Turns::new();
        let mut apps = [app(1, 1), app(2, 1)];
        apps[1].wants = false;
        run(&mut turns, &mut apps, 1000, 10);
        assert_eq!((apps[0].used, apps[1].used), (10_000, 0));
        apps[1].wants = true;
        run(&mut turns, &mut apps, 100, 10);
        assert!(apps[1].used.abs_diff(500) <= 20, "{apps:?}");
    }

    #[test]
    fn a_newcomer_begins_where_the_others_are() {
        let mut turns = Turns::new();
        let mut one = [app(1, 1)];
        run(&mut turns, &mut one, 1000, 10);
        // It used much before it came, too: that is nobody's affair.
        let mut both = [one[0], Candidate { used: 1 << 40, ..app(2, 1) }];
        run(&mut turns, &mut both, 100, 10);
        assert!((both[1].used - (1 << 40)).abs_diff(500) <= 20, "{both:?}");
    }

    #[test]
    fn who_uses_others_turns_pays_for_them() {
        let mut turns = Turns::new();
        let mut apps = [app(1, 1), app(2, 1)];
        for _ in 0..100 {
            let next = turns.next(&apps).unwrap();
            // The first one runs half of the second one's turns.
            match next {
                1 => apps[0].used += 10,
                _ => apps.iter_mut().for_each(|c| c.used += 5),
            }
        }
        assert!(apps[0].used.abs_diff(apps[1].used) <= 20, "{apps:?}");
    }

    #[test]
    fn nobody_is_nobody() {
        let mut turns = Turns::new();
        assert_eq!(turns.next(&[]), None);
        assert_eq!(turns.next(&[app(1, 1)]), Some(1));
        assert_eq!(turns.next(&[]), None);
        assert_eq!(turns.holder(), None);
    }

    #[test]
    fn a_clock_that_goes_back_and_a_weight_of_nothing_do_no_harm() {
        let mut turns = Turns::new();
        turns.next(&[Candidate { used: 100, ..app(1, 0) }]);
        assert_eq!(turns.next(&[Candidate { used: 50, ..app(1, 0) }]), Some(1));
        let much = Candidate { used: Time::MAX, ..app(1, u32::MAX) };
        assert_eq!(turns.next(&[much, app(2, 1)]), Some(2));
    }
}
