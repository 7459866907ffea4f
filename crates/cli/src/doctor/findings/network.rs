//! Sockets without the kernel's stack: by TAP, by AF_XDP.

use super::{Facts, Finding};
use crate::doctor::detect::network::{Network, Refused};

const GROUP: &str = "Network past the kernel";

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![tap(&facts.network), afxdp(facts)]
}

fn tap(network: &Network) -> Finding {
    let finding = |value: &str| Finding::new(GROUP, "tap", value);
    match (&network.tap, network.net_admin) {
        (Ok(()), true) => finding("yes").ok("--net tap:NAME makes an interface"),
        (Ok(()), false) => finding("prepared ones")
            .missing("--net tap:NAME can use an interface of this user's, and make none")
            .advice("ip tuntap add dev NAME mode tap user \"$USER\" (as root), or CAP_NET_ADMIN"),
        (Err(Refused::Absent), _) => finding("no driver")
            .missing("--net tap:NAME needs /dev/net/tun")
            .advice("modprobe tun, a kernel with CONFIG_TUN, or the device in the container"),
        (Err(Refused::Rights), _) => finding("no rights")
            .missing("--net tap:NAME needs /dev/net/tun")
            .advice("let this user read and write /dev/net/tun"),
        (Err(Refused::Other(why)), _) => {
            finding(&format!("no: {why}")).missing("--net tap:NAME needs /dev/net/tun")
        }
    }
}

fn afxdp(facts: &Facts) -> Finding {
    const WHAT: &str = "--net afxdp:IFACE and `quaver l3fwd` need AF_XDP";
    let network = &facts.network;
    let finding = |value: &str| Finding::new(GROUP, "afxdp", value);
    let loads = facts.bpf.map_create.is_ok() && facts.bpf.capable;
    match (&network.xdp_socket, network.xdp_program_built) {
        (Err(Refused::Absent), _) => {
            finding("no").missing(WHAT).advice("use a kernel built with CONFIG_XDP_SOCKETS")
        }
        (_, false) => finding("not built")
            .missing(WHAT)
            .advice("install clang, then `cargo clean -p quaver-net` and build again"),
        (Err(Refused::Other(why)), _) => finding(&format!("no: {why}")).missing(WHAT),
        (Ok(()), true) if network.net_admin && loads => {
            finding(&names(network)).ok("in skb mode on all of them, natively where the driver can")
        }
        _ => finding("no rights").missing(WHAT).advice(
            "run as root, or with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON of the \
             machine (a user namespace has no XDP programs)",
        ),
    }
}

/// Interfaces, with drivers and queues.
fn names(network: &Network) -> String {
    let one = |interface: &crate::doctor::detect::network::Interface| {
        let driver = interface.driver.as_deref().unwrap_or("virtual");
        let queues = interface.queues;
        format!(
            "{} ({driver}, {queues} queue{})",
            interface.name,
            if queues == 1 { "" } else { "s" }
        )
    };
    let all: Vec<String> = network.interfaces.iter().map(one).collect();
    if all.is_empty() { "yes, and no interface".into() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::tests::{find, perfect};
    use super::*;

    #[test]
    fn tap_tells_drivers_from_rights() {
        let mut facts = perfect();
        assert_eq!(find(&facts, "tap").status, Status::Ok);
        facts.network.net_admin = false;
        assert!(find(&facts, "tap").advice.unwrap().contains("ip tuntap add"));
        facts.network.tap = Err(Refused::Rights);
        assert!(find(&facts, "tap").advice.unwrap().contains("/dev/net/tun"));
        facts.network.tap = Err(Refused::Absent);
        assert!(find(&facts, "tap").advice.unwrap().contains("CONFIG_TUN"));
        facts.network.tap = Err(Refused::Other("too many".into()));
        assert_eq!(find(&facts, "tap").value, "no: too many");
    }

    #[test]
    fn afxdp_names_interfaces_or_what_is_missing() {
        let mut facts = perfect();
        assert_eq!(find(&facts, "afxdp").value, "eth0 (ixgbe, 4 queues)");
        facts.network.interfaces.clear();
        assert!(find(&facts, "afxdp").value.contains("no interface"));
        facts.network.net_admin = false;
        assert!(find(&facts, "afxdp").advice.unwrap().contains("CAP_NET_ADMIN"));
        facts.network.xdp_program_built = false;
        assert!(find(&facts, "afxdp").advice.unwrap().contains("clang"));
        facts.network.xdp_socket = Err(Refused::Absent);
        assert!(find(&facts, "afxdp").advice.unwrap().contains("CONFIG_XDP_SOCKETS"));
    }
}
