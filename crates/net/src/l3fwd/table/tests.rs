use proptest::prelude::*;

use super::*;

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A table that looks at every route.
#[derive(Default)]
struct Naive(Vec<(Prefix, Value)>);

impl Naive {
    fn add(&mut self, prefix: Prefix, value: Value) -> Option<Value> {
        let before = self.remove(prefix);
        self.0.push((prefix, value));
        before
    }

    fn remove(&mut self, prefix: Prefix) -> Option<Value> {
        let at = self.0.iter().position(|(there, _)| *there == prefix)?;
        Some(self.0.remove(at).1)
    }

    fn lookup(&self, address: Ipv4Addr) -> Option<Value> {
        let around = self.0.iter().filter(|(prefix, _)| prefix.contains(address));
        around.max_by_key(|(prefix, _)| prefix.bits()).map(|(_, value)| *value)
    }
}

/// Addresses that are near each other, so that prefixes contain each other.
fn near() -> impl Strategy<Value = Ipv4Addr> {
    (0..4u32, 0..4u32, any::<u8>())
        .prop_map(|(b, c, d)| Ipv4Addr::from_bits(10 << 24 | b << 20 | c << 8 | u32::from(d)))
}

/// Long ones more often: short ones fill much of the table.
fn length() -> impl Strategy<Value = u8> {
    prop_oneof![1 => 6..16u8, 6 => 16..=24u8, 8 => 25..=32u8]
}

#[derive(Clone, Debug)]
enum Step {
    Add(Prefix, Value),
    Remove(Prefix),
    /// The n-th that is there.
    RemoveNth(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let prefix = || (near(), length()).prop_map(|(near, len)| Prefix::of(near, len).unwrap());
    prop_oneof![
        4 => (prefix(), 0..20u16).prop_map(|(prefix, value)| Step::Add(prefix, value)),
        1 => prefix().prop_map(Step::Remove),
        2 => any::<usize>().prop_map(Step::RemoveNth),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every address that could see a difference is looked up.
    #[test]
    fn it_answers_as_one_that_looks_at_every_route(
        steps in prop::collection::vec(step(), 1..60),
        others in prop::collection::vec(any::<u32>(), 20),
    ) {
        let (mut table, mut naive) = (Table::new(), Naive::default());
        for step in steps {
            match step {
                Step::Add(prefix, value) => {
                    prop_assert_eq!(table.add(prefix, value), Ok(naive.add(prefix, value)));
                }
                Step::Remove(prefix) => {
                    prop_assert_eq!(table.remove(prefix), naive.remove(prefix));
                }
                Step::RemoveNth(nth) => {
                    let Some(nth) = nth.checked_rem(naive.0.len()) else { continue };
                    let (prefix, value) = naive.0[nth];
                    prop_assert_eq!(table.remove(prefix), Some(value));
                    naive.remove(prefix);
                }
            }
            prop_assert_eq!(table.len(), naive.0.len());
            for edge in naive.0.iter().flat_map(|(prefix, _)| edges(*prefix)) {
                prop_assert_eq!(table.lookup(edge), naive.lookup(edge), "{}", edge);
            }
        }
        for other in others {
            let other = Ipv4Addr::from_bits(other);
            prop_assert_eq!(table.lookup(other), naive.lookup(other));
        }
        for (prefix, _) in naive.0 {
            table.remove(prefix);
        }
        prop_assert!(table.is_empty() && table.free.len() == table.groups.len());
        prop_assert!(table.lookup(address("10.0.0.1")).is_none());
    }
}

/// First and last address, and those beside them.
fn edges(prefix: Prefix) -> [Ipv4Addr; 4] {
    let first = prefix.first().to_bits();
    let last = first | u32::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
    [first, last, first.wrapping_sub(1), last.wrapping_add(1)].map(Ipv4Addr::from_bits)
}

#[test]
fn a_default_route_is_for_what_no_other_is() {
    let mut table = Table::new();
    assert_eq!(table.lookup(address("1.2.3.4")), None);
    table.add(prefix("10.1.2.3/32"), 7).unwrap();
    table.add(prefix("0.0.0.0/0"), 0).unwrap();
    for (at, value) in [("0.0.0.0", 0), ("255.255.255.255", 0), ("10.1.2.2", 0), ("10.1.2.3", 7)] {
        assert_eq!(table.lookup(address(at)), Some(value), "{at}");
    }
    assert_eq!(table.remove(prefix("10.1.2.3/32")), Some(7));
    assert_eq!(table.lookup(address("10.1.2.3")), Some(0));
    assert_eq!(table.remove(prefix("0.0.0.0/0")), Some(0));
    assert_eq!(table.lookup(address("10.1.2.3")), None);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut table = Table::new();
    let nth = |n: u32| Prefix::of(Ipv4Addr::from_bits(n << 8), 32).unwrap();
    for n in 0..Table::MOST_GROUPS as u32 {
        table.add(nth(n), 1).unwrap();
    }
    let next = nth(Table::MOST_GROUPS as u32);
    assert_eq!(table.add(next, 1), Err(Full::Groups));
    assert_eq!((table.lookup(next.first()), table.len()), (None, Table::MOST_GROUPS));
    table.remove(nth(5));
    assert_eq!(table.add(next, 2), Ok(None));
    assert_eq!(table.lookup(next.first()), Some(2));
    assert_eq!(table.add(next, Table::MOST_VALUES), Err(Full::Values));
    assert_eq!(table.add(next, Table::MOST_VALUES - 1), Ok(Some(2)));
    assert_eq!(table.lookup(next.first()), Some(Table::MOST_VALUES - 1));
}
