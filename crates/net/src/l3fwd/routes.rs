//! Routes as people write them, and random ones.
//!
//! ```text
//! # network       interface   next hop: an address, a hardware address, or none
//! 10.1.0.0/16     vb          10.0.2.2
//! 10.2.0.0/16     vb          02:00:00:00:00:07
//! 10.3.0.0/24     va
//! ```
//!
//! Without a next hop, destinations are neighbours.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use super::prefix::Prefix;

/// Who gets the packets of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hop {
    /// Whoever has this address, on the network of the port.
    Gateway(Ipv4Addr),
    /// Whoever has this hardware address.
    Hardware([u8; 6]),
    /// Their destination.
    Neighbour,
}

/// A route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// For which destinations.
    pub prefix: Prefix,
    /// By which port; its place in the list of ports.
    pub port: usize,
    /// To whom.
    pub hop: Hop,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Wrong {
    /// Lines count from 1.
    pub line: usize,
    /// What, and what would be right.
    pub what: String,
}

/// Reads routes, one on each line. `ports` are the names of interfaces.
///
/// # Errors
///
/// The first line that is wrong.
pub fn parse(text: &str, ports: &[&str]) -> Result<Vec<Route>, Wrong> {
    let (mut routes, mut seen) = (Vec::new(), HashSet::new());
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let wrong = |what| Wrong { line: n + 1, what };
        let route = route(&words, ports).map_err(wrong)?;
        if !seen.insert(route.prefix) {
            return Err(wrong(format!("there is a route for {} already", route.prefix)));
        }
        routes.push(route);
    }
    Ok(routes)
}

fn route(words: &[&str], ports: &[&str]) -> Result<Route, String> {
    let (prefix, port, hop) = match *words {
        [prefix, port] => (prefix, port, None),
        [prefix, port, hop] => (prefix, port, Some(hop)),
        _ => {
            let found = words.join(" ");
            return Err(format!("expected NETWORK INTERFACE [NEXT-HOP], found {found:?}"));
        }
    };
    let prefix = prefix.parse()?;
    let known = || format!("{port:?} is none of the ports: {}", ports.join(", "));
    let port = ports.iter().position(|name| *name == port).ok_or_else(known)?;
    let hop = match hop {
        None => Hop::Neighbour,
        Some(text) => match (text.parse(), hardware(text)) {
            (Ok(address), _) => Hop::Gateway(address),
            (_, Some(address)) => Hop::Hardware(address),
            _ => {
                return Err(format!(
                    "{text:?} is no next hop such as 10.0.0.2 or 02:00:00:00:00:07"
                ));
            }
        },
    };
    Ok(Route { prefix, port, hop })
}

/// A hardware address as `02:00:00:00:00:07`.
pub fn hardware(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        *byte = u8::from_str_radix(parts.next().filter(|part| part.len() == 2)?, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}

/// So many different random routes, the same for the same seed, spread over `ports` ports. The next
/// hop of port `n` is `02:00:00:00:00:n`.
///
/// Lengths are as on the Internet: most networks have 24 bits, some 16 to 23. Some have more than
/// 24, as inside a network.
pub fn random(count: usize, ports: usize, seed: u64) -> Vec<Route> {
    let (mut numbers, mut seen) = (Numbers(seed), HashSet::new());
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let len = match numbers.below(20) {
            0..12 => 24,
            12..18 => 16 + numbers.below(8) as u8,
            18 => 8 + numbers.below(8) as u8,
            _ => 25 + numbers.below(8) as u8,
        };
        let address = Ipv4Addr::from_bits(numbers.next() as u32);
        // Unicast addresses only.
        let Some(prefix) =
            Prefix::of(address, len).filter(|_| (1..224).contains(&address.octets()[0]))
        else {
            continue;
        };
        if seen.insert(prefix) {
            let port = numbers.below(ports as u64) as usize;
            let hop = Hop::Hardware([2, 0, 0, 0, 0, port as u8]);
            routes.push(Route { prefix, port, hop });
        }
    }
    routes
}

/// Random numbers (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read() {
        let text = "# all\n\n 10.1.0.0/16 vb 10.0.2.2 # there\n10.2.0.0/16\tva 02:00:00:00:00:07\n\
                    0.0.0.0/0 va\n";
        let routes = parse(text, &["va", "vb"]).unwrap();
        let expected = [
            ("10.1.0.0/16", 1, Hop::Gateway([10, 0, 2, 2].into())),
            ("10.2.0.0/16", 0, Hop::Hardware([2, 0, 0, 0, 0, 7])),
            ("0.0.0.0/0", 0, Hop::Neighbour),
        ];
        let route = |(prefix, port, hop): (&str, _, _)| Route {
            prefix: prefix.parse().unwrap(),
            port,
            hop,
        };
        assert_eq!(routes, expected.map(route));
        assert_eq!(parse("", &[]), Ok(Vec::new()));
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong_with_it() {
        for (line, part) in [
            ("10.1.0.0/16", "expected NETWORK INTERFACE"),
            ("10.1.0.0/16 va 10.0.0.1 x", "expected NETWORK INTERFACE"),
            ("10.1.0.0 va", "no network"),
            ("10.1.2.3/16 va", "10.1.0.0/16 is meant?"),
            ("10.1.0.0/16 vx", "\"vx\" is none of the ports: va, vb"),
            ("10.1.0.0/16 va 10.0.0", "no next hop"),
            ("10.1.0.0/16 va 02:00:00:00:00", "no next hop"),
            ("10.1.0.0/16 va 02:00:00:00:00:07:08", "no next hop"),
            ("10.9.0.0/16 vb", "there is a route for 10.9.0.0/16 already"),
        ] {
            let text = format!("10.9.0.0/16 va\n\n{line}\n");
            let error = parse(&text, &["va", "vb"]).unwrap_err();
            assert!(error.line == 3 && error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn random_ones_are_different_and_repeatable() {
        let routes = random(16_000, 2, 1);
        let prefixes: HashSet<_> = routes.iter().map(|route| route.prefix).collect();
        assert_eq!((routes.len(), prefixes.len()), (16_000, 16_000));
        assert_eq!(routes, random(16_000, 2, 1));
        assert_ne!(routes, random(16_000, 2, 2));
        for port in 0..2 {
            let of_port = routes.iter().filter(|route| route.port == port).count();
            assert!((7_000..9_000).contains(&of_port), "{of_port}");
        }
        let long = routes.iter().filter(|route| route.prefix.bits() > 24).count();
        assert!((500..1100).contains(&long), "{long}");
    }
}
