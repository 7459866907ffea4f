//! What users write to say on which network a stack is: `--net tap:NAME`, `--net afxdp:IFACE`.

use crate::device::Device;
use crate::l3fwd::PortSettings;
use crate::net::{Builder, Net};
use crate::tap::Tap;
use crate::xdp::{self, Filter};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The forms, for messages and help.
pub const FORMS: &str = "tap:NAME,address=A/P[,queues=N][,gateway=G] or \
                         afxdp:IFACE,address=A/P[,queues=N][,gateway=G]";

/// How frames come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A TAP interface, which is made if there is none.
    Tap,
    /// An interface of the kernel's, by AF_XDP.
    AfXdp,
}

/// On which network a stack is.
///
/// ```
/// use quaver_net::spec::Spec;
///
/// let spec: Spec = "tap:quaver0,address=10.0.0.2/24,gateway=10.0.0.1".parse().unwrap();
/// assert_eq!(spec.interface, "quaver0");
/// assert_eq!(spec.address, ([10, 0, 0, 2].into(), 24));
/// assert_eq!(spec.to_string(), "tap:quaver0,address=10.0.0.2/24,gateway=10.0.0.1");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// How frames come and go.
    pub medium: Medium,
    /// The interface.
    pub interface: String,
    /// Its queues; `None`: one of a TAP interface, all that an AF_XDP interface has.
    pub queues: Option<usize>,
    /// The stack's own address, and how many bits of it are the network's.
    pub address: (Ipv4Addr, u8),
    /// Who forwards to other networks.
    pub gateway: Option<Ipv4Addr>,
}

/// Why a text does not name a network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// Neither of the media.
    #[error("{0:?} does not begin with tap: or afxdp:; a network is {FORMS}")]
    Medium(String),
    /// There is no interface's name.
    #[error("{0:?} names no interface; a network is {FORMS}")]
    Interface(String),
    /// Not an option.
    #[error("{0:?} is not address=A/P, queues=N or gateway=G")]
    Option(String),
    /// An option is there more than once.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// The stack must know its address.
    #[error("{0:?} lacks the stack's own address: add ,address=A/P, say ,address=10.0.0.2/24")]
    NoAddress(String),
    /// No address with a prefix.
    #[error("{0:?} is no address with a prefix, such as 10.0.0.2/24")]
    Address(String),
    /// An address of IPv6.
    #[error(
        "{0} is an address of IPv6, which the stack does not speak: give it one of IPv4; sockets \
         of IPv6 stay the kernel's"
    )]
    Version6(Ipv6Addr),
    /// No address of a gateway.
    #[error("{0:?} is no IPv4 address of a gateway")]
    Gateway(String),
    /// The gateway cannot be reached.
    #[error("the gateway {gateway} is not in the network {address}/{prefix}")]
    FarGateway {
        /// The gateway.
        gateway: Ipv4Addr,
        /// The stack's address.
        address: Ipv4Addr,
        /// Its network's bits.
        prefix: u8,
    },
    /// No number of queues.
    #[error("{0:?} is no number of queues from 1 to 64")]
    Queues(String),
}

/// The medium, the interface, and the options behind it.
fn split(text: &str) -> Result<(Medium, &str, impl Iterator<Item = &str>), SpecError> {
    let (medium, rest) = match text.split_once(':') {
        Some(("tap", rest)) => (Medium::Tap, rest),
        Some(("afxdp", rest)) => (Medium::AfXdp, rest),
        _ => return Err(SpecError::Medium(text.into())),
    };
    let mut parts = rest.split(',');
    let interface = parts.next().unwrap_or_default();
    if interface.is_empty() || interface.contains('=') {
        return Err(SpecError::Interface(text.into()));
    }
    Ok((medium, interface, parts))
}

/// The form of a port of a [router](crate::l3fwd).
const PORT: &str = "afxdp:NAME or afxdp:NAME,address=10.0.1.1/24";

/// A port of a [router](crate::l3fwd), such as `afxdp:eth1,address=10.0.1.1/24`.
impl FromStr for PortSettings {
    type Err = PortError;

    fn from_str(text: &str) -> Result<PortSettings, PortError> {
        let Ok((Medium::AfXdp, interface, parts)) = split(text) else {
            return Err(PortError::Form(text.into()));
        };
        let mut address = None;
        for part in parts {
            match part.split_once('=') {
                Some(("address", value)) => set(&mut address, parse_address(value)?, "address")?,
                _ => return Err(PortError::Option(part.into())),
            }
        }
        Ok(PortSettings { interface: interface.into(), address })
    }
}

/// Why a text is no port of a router.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PortError {
    /// Not by AF_XDP, or without a name.
    #[error("{0:?} is no port that can forward; it is {PORT}")]
    Form(String),
    /// Not an option.
    #[error("{0:?} is not address=A/P; a port is {PORT}")]
    Option(String),
    /// The address.
    #[error(transparent)]
    Address(#[from] SpecError),
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let (medium, interface, parts) = split(text)?;
        let (mut queues, mut address, mut gateway) = (None, None, None);
        for part in parts {
            match part.split_once('=') {
                Some(("queues", value)) => {
                    let parsed = value.parse().ok().filter(|n| (1..=64).contains(n));
                    let value = parsed.ok_or_else(|| SpecError::Queues(value.into()))?;
                    set(&mut queues, value, "queues")?;
                }
                Some(("address", value)) => set(&mut address, parse_address(value)?, "address")?,
                Some(("gateway", value)) => {
                    let parsed =
                        value.parse().map_err(|_| no_address(value, SpecError::Gateway))?;
                    set(&mut gateway, parsed, "gateway")?;
                }
                _ => return Err(SpecError::Option(part.into())),
            }
        }
        let address = address.ok_or_else(|| SpecError::NoAddress(text.into()))?;
        let spec = Spec { medium, interface: interface.into(), queues, address, gateway };
        if let Some(gateway) = gateway
            && !spec.subnet().contains(gateway)
        {
            let (address, prefix) = address;
            return Err(SpecError::FarGateway { gateway, address, prefix });
        }
        Ok(spec)
    }
}

fn set<T>(option: &mut Option<T>, value: T, name: &'static str) -> Result<(), SpecError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(SpecError::Twice(name)),
    }
}

fn parse_address(text: &str) -> Result<(Ipv4Addr, u8), SpecError> {
    let parsed = text.split_once('/').and_then(|(address, prefix)| {
        Some((address.parse().ok()?, prefix.parse().ok().filter(|bits| (1..=32).contains(bits))?))
    });
    parsed.ok_or_else(|| no_address(text, SpecError::Address))
}

/// Why a text is no address of IPv4.
fn no_address(text: &str, otherwise: impl FnOnce(String) -> SpecError) -> SpecError {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    match address.trim_matches(['[', ']']).parse() {
        Ok(address) => SpecError::Version6(address),
        Err(_) => otherwise(text.into()),
    }
}

impl Spec {
    fn subnet(&self) -> crate::Subnet {
        let (address, prefix) = self.address;
        crate::Subnet { address, prefix, gateway: self.gateway }
    }

    /// Opens its devices, and prepares a stack on them.
    ///
    /// # Errors
    ///
    /// With what to do: see [`Tap::open`] and [`xdp::open`].
    pub fn builder(&self) -> io::Result<Builder> {
        let (address, prefix) = self.address;
        Ok(Net::builder(address, prefix).gateway(self.gateway).devices(self.devices()?))
    }

    /// Opens a device for each queue.
    fn devices(&self) -> io::Result<Vec<Box<dyn Device>>> {
        match self.medium {
            Medium::Tap => {
                let taps = Tap::open(&self.interface, self.queues.unwrap_or(1))?;
                Ok(taps.into_iter().map(|tap| Box::new(tap) as Box<dyn Device>).collect())
            }
            Medium::AfXdp => {
                let queues = self.queues.map(|queues| queues as u32);
                let filter = Filter::Addresses(vec![self.address.0]);
                let queues = xdp::open(&self.interface, queues, &filter)?;
                Ok(queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Device>).collect())
            }
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medium = match self.medium {
            Medium::Tap => "tap",
            Medium::AfXdp => "afxdp",
        };
        let (address, prefix) = self.address;
        write!(f, "{medium}:{},address={address}/{prefix}", self.interface)?;
        if let Some(queues) = self.queues {
            write!(f, ",queues={queues}")?;
        }
        if let Some(gateway) = self.gateway {
            write!(f, ",gateway={gateway}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "tap:t0,address=10.0.0.2/24",
            "tap:t0,address=10.0.0.2/24,queues=3",
            "afxdp:eth0,address=192.168.7.9/16,queues=64,gateway=192.168.0.1",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("", "does not begin with tap: or afxdp:"),
            ("eth0", "does not begin with tap: or afxdp:"),
            ("tun:t0", "does not begin with tap: or afxdp:"),
            ("tap:", "names no interface"),
            ("tap:address=10.0.0.2/24", "names no interface"),
            ("tap:t0", "add ,address=A/P"),
            ("tap:t0,address=10.0.0.2", "no address with a prefix"),
            ("tap:t0,address=10.0.0.2/33", "no address with a prefix"),
            ("tap:t0,address=fd00::1/64", "fd00::1 is an address of IPv6, which the stack"),
            ("tap:t0,address=[fd00::1]/64", "fd00::1 is an address of IPv6"),
            ("tap:t0,address=10.0.0.2/24,gateway=fe80::1", "fe80::1 is an address of IPv6"),
            ("tap:t0,address=10.0.0.2/24,address=10.0.0.2/24", "address is given twice"),
            ("tap:t0,address=10.0.0.2/24,queues=0", "no number of queues"),
            ("tap:t0,address=10.0.0.2/24,gateway=x", "no IPv4 address of a gateway"),
            ("tap:t0,address=10.0.0.2/24,gateway=10.0.1.1", "is not in the network 10.0.0.2/24"),
            ("tap:t0,address=10.0.0.2/24,mtu=9000", "is not address=A/P, queues=N or gateway=G"),
        ] {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn ports_of_a_router() {
        let port = |text: &str| text.parse::<PortSettings>();
        let plain = PortSettings { interface: "va".into(), address: None };
        assert_eq!(port("afxdp:va"), Ok(plain));
        let address = Some(([10, 0, 1, 1].into(), 24));
        let with = PortSettings { interface: "va".into(), address };
        assert_eq!(port("afxdp:va,address=10.0.1.1/24"), Ok(with));
        for (text, says) in [
            ("va", "it is afxdp:NAME"),
            ("afxdp:", "it is afxdp:NAME"),
            ("tap:t0", "\"tap:t0\" is no port that can forward"),
            ("afxdp:va,mtu=9", "\"mtu=9\" is not address=A/P"),
            ("afxdp:va,address=10.0.1.1", "no address with a prefix"),
            ("afxdp:va,address=10.0.1.1/33", "no address with a prefix"),
            ("afxdp:va,address=fd00::1/64", "fd00::1 is an address of IPv6"),
            ("afxdp:va,address=10.0.1.1/8,address=10.0.1.1/8", "address is given twice"),
        ] {
            let error = port(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
