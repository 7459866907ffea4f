//! A router between two devices, which make its load.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quaver_bench_common::Sample;
use quaver_bench_common::namespace::{Namespace, connect};
use quaver_net::device::Device;
use quaver_net::l3fwd::{Forwarder, Hop, PortSettings, Route, hardware, random};
use quaver_net::xdp::{Filter, Xdp, open};

use super::frames::{self, BATCH, PATIENCE_MS, datagram};
use super::thread::Measured;
use super::{By, L3fwdSpec, Load};

const ROUTES: usize = 16_000;
const DESTINATIONS: usize = 1024;
/// Packets that are under way.
const WINDOW: usize = 256;
/// Of the smallest Ethernet frame, which has 60 bytes without its checksum.
const PAYLOAD: usize = 60 - frames::HEADERS;

/// Where the kernel's router has its addresses.
const LEFT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);

pub(super) fn run(spec: &L3fwdSpec, by: By) -> Result<Sample> {
    let [left, middle, right] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
    let own = |address| (by == By::Kernel).then_some(address);
    connect((&middle, "pl", own("10.1.0.1/24")), (&left, "vl", None), "")?;
    connect((&middle, "pr", own("10.2.0.1/24")), (&right, "vr", None), "")?;
    let device = |place: &Namespace, name: &'static str| -> Result<Xdp> {
        let devices = place.run(move || open(name, None, &Filter::All))?;
        devices.into_iter().next().context("an interface without a queue")
    };
    let (from, to) = (device(&left, "vl")?, device(&right, "vr")?);
    let hop = Hop::Hardware(to.address());
    // The kernel refuses routes to itself, and 10.0.0.0/8 leads to the devices.
    let usable = |route: &Route| ![10, 127].contains(&route.prefix.first().octets()[0]);
    let mut routes = random(ROUTES + ROUTES / 10, 1, 1);
    routes.retain(usable);
    routes.truncate(ROUTES);
    routes.iter_mut().for_each(|route| (route.port, route.hop) = (1, hop));

    let router = address_of(&middle, "pl")?;
    let frames = routes.iter().step_by(ROUTES / DESTINATIONS).map(|route| {
        let to = (router, route.prefix.first(), 9);
        datagram((from.address(), LEFT, 9), to, PAYLOAD)
    });
    let mut load = Stream { frames: frames.collect(), from, to, next: 0, under_way: 0 };
    match by {
        By::Kernel => {
            route_by_kernel(&middle, &routes, load.to.address())?;
            super::measure(spec, &mut load, None)
        }
        By::Afxdp => {
            let ports =
                ["pl", "pr"].map(|name| PortSettings { interface: name.to_owned(), address: None });
            let mut forwarder = middle.run(move || Forwarder::open(&ports, None))?;
            routes.iter().try_for_each(|route| forwarder.add(route))?;
            let measured = Measured::start(spec.cpu, move || {
                if forwarder.poll()? == 0 {
                    forwarder.wait(Duration::from_millis(20))?;
                }
                Ok(())
            });
            super::measure(spec, &mut load, Some(&measured))
        }
    }
}

/// The hardware address of an interface.
fn address_of(place: &Namespace, name: &str) -> Result<[u8; 6]> {
    let line = place.ip(&format!("-o link show {name}"))?;
    let text = line.split("link/ether ").nth(1).and_then(|rest| rest.get(..17));
    text.and_then(hardware).context("an interface without an address")
}

/// Lets the kernel in `middle` forward, with the same routes.
fn route_by_kernel(middle: &Namespace, routes: &[Route], to: [u8; 6]) -> Result<()> {
    middle.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
    let to = to.map(|byte| format!("{byte:02x}")).join(":");
    middle.ip(&format!("neigh add {RIGHT} lladdr {to} dev pr"))?;
    let mut batch = String::new();
    for route in routes {
        writeln!(batch, "route add {} via {RIGHT} dev pr", route.prefix)?;
    }
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(batch.as_bytes())?;
    let path = file.path().to_str().context("a temporary file's name")?;
    middle.ip(&format!("-batch {path}"))?;
    Ok(())
}

/// Packets into one end, which come out at the other.
struct Stream {
    frames: Vec<Vec<u8>>,
    from: Xdp,
    to: Xdp,
    next: usize,
    under_way: usize,
}

impl Load for Stream {
    fn run_for(&mut self, time: Duration) -> Result<u64> {
        let (end, mut came) = (Instant::now() + time, 0);
        while Instant::now() < end {
            while self.under_way + BATCH <= WINDOW {
                for _ in 0..BATCH {
                    frames::put(&mut self.from, &self.frames[self.next])?;
                    self.next = (self.next + 1) % self.frames.len();
                }
                self.from.flush()?;
                self.under_way += BATCH;
            }
            let mut got = 0;
            self.to.receive(BATCH, &mut |frame| got += usize::from(frame.len() == 60))?;
            came += got as u64;
            self.under_way = self.under_way.saturating_sub(got);
            // What is sent comes back at the same place only if nobody needs it.
            self.from.receive(BATCH, &mut |_| {})?;
            if got == 0 && !frames::wait_for(&self.to, PATIENCE_MS)? {
                // Lost, on a machine that is too busy; it is not counted.
                ensure!(came > 0, "no packet has come through for {PATIENCE_MS} ms");
                self.under_way = 0;
            }
        }
        Ok(came)
    }
}
