//! Ports as they are written on the command line.

use quaver_net::l3fwd::PortSettings;

const EXPECTED: &str = "expected afxdp:NAME or afxdp:NAME,address=10.0.1.1/24";

/// Reads a port such as `afxdp:eth1,address=10.0.1.1/24`.
pub(super) fn parse(text: &str) -> Result<PortSettings, String> {
    let (kind, rest) = text.split_once(':').ok_or(EXPECTED)?;
    if kind != "afxdp" {
        return Err(format!("{kind:?} is no device that can forward: {EXPECTED}"));
    }
    let mut parts = rest.split(',');
    let interface = parts.next().filter(|name| !name.is_empty()).ok_or(EXPECTED)?.to_owned();
    let mut address = None;
    for part in parts {
        match part.split_once('=') {
            Some(("address", value)) if address.is_none() => {
                let parsed = value.split_once('/').and_then(|(ip, bits)| {
                    Some((ip.parse().ok()?, bits.parse().ok().filter(|&bits: &u8| bits <= 32)?))
                });
                let malformed = || format!("{value:?} is no address such as 10.0.1.1/24");
                address = Some(parsed.ok_or_else(malformed)?);
            }
            _ => return Err(format!("{part:?} is not understood: {EXPECTED}")),
        }
    }
    Ok(PortSettings { interface, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let plain = PortSettings { interface: "va".into(), address: None };
        assert_eq!(parse("afxdp:va"), Ok(plain));
        let address = Some(([10, 0, 1, 1].into(), 24));
        let with = PortSettings { interface: "va".into(), address };
        assert_eq!(parse("afxdp:va,address=10.0.1.1/24"), Ok(with));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (text, part) in [
            ("va", "expected afxdp:NAME"),
            ("afxdp:", "expected afxdp:NAME"),
            ("tap:t0", "\"tap\" is no device that can forward"),
            ("afxdp:va,mtu=9", "\"mtu=9\" is not understood"),
            ("afxdp:va,address=10.0.1.1", "no address such as 10.0.1.1/24"),
            ("afxdp:va,address=10.0.1.1/33", "no address such as"),
            ("afxdp:va,address=10.0.1.1/8,address=10.0.1.1/8", "not understood"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
