//! An endpoint of UDP, and its client.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quaver_bench_common::Sample;
use quaver_bench_common::namespace::{Namespace, connect};
use quaver_net::device::Device;
use quaver_net::xdp::{Filter, Xdp, open};

use super::frames::{BATCH, PATIENCE_MS, PAYLOAD, datagram, is_for, put, turn, wait, wait_for};
use super::kernel::{Batch, Epoll};
use super::thread::Measured;
use super::{By, L3fwdSpec, Load};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7;
/// Datagrams that are under way.
const WINDOW: usize = 32;
/// For how long a server sleeps before it looks whether it should end.
const NAP_MS: i32 = 20;

pub(super) fn run(spec: &L3fwdSpec, server: By, client: By) -> Result<Sample> {
    let [there, here] = [Namespace::new()?, Namespace::new()?];
    let own = |by, address| (by == By::Kernel).then_some(address);
    let a = (&there, "va", own(server, "10.0.0.1/24"));
    connect(a, (&here, "vb", own(client, "10.0.0.2/24")), "")?;
    let device = |place: &Namespace, name: &'static str, address| -> Result<Xdp> {
        let filter = Filter::Addresses(vec![address]);
        let devices = place.run(move || open(name, None, &filter))?;
        devices.into_iter().next().context("an interface without a queue")
    };
    let (measured, mac) = match server {
        By::Kernel => {
            let socket = there.run(|| UdpSocket::bind((SERVER, PORT)))?;
            (Measured::start(spec.cpu, by_kernel(socket)?), None)
        }
        By::Afxdp => {
            let device = device(&there, "va", SERVER)?;
            let mac = device.address();
            (Measured::start(spec.cpu, by_device(device)), Some(mac))
        }
    };
    match client {
        By::Kernel => {
            if let Some(mac) = mac {
                let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
                here.ip(&format!("neigh add {SERVER} lladdr {mac} dev vb"))?;
            }
            let socket = here.run(|| UdpSocket::bind((CLIENT, 0)))?;
            socket.connect((SERVER, PORT))?;
            socket.set_nonblocking(true)?;
            let batch = Batch::new(WINDOW);
            super::measure(spec, &mut Sockets { socket, batch }, Some(&measured))
        }
        By::Afxdp => {
            let device = device(&here, "vb", CLIENT)?;
            let server = (mac.context("the server is no device")?, SERVER, PORT);
            let frame = datagram((device.address(), CLIENT, PORT), server, PAYLOAD);
            super::measure(spec, &mut Frames { device, frame }, Some(&measured))
        }
    }
}

/// Rounds of a server with the kernel's sockets.
fn by_kernel(socket: UdpSocket) -> Result<impl FnMut() -> Result<()>> {
    socket.set_nonblocking(true)?;
    let (epoll, mut batch) = (Epoll::of(socket.as_fd())?, Batch::new(BATCH));
    Ok(move || {
        if epoll.wait(NAP_MS)? {
            loop {
                let got = batch.receive(socket.as_fd())?;
                batch.send(socket.as_fd(), got)?;
                if got < BATCH {
                    break;
                }
            }
        }
        Ok(())
    })
}

/// Rounds of a server with a device.
fn by_device(mut device: Xdp) -> impl FnMut() -> Result<()> {
    let mut answers: Vec<Vec<u8>> = Vec::new();
    move || {
        let mut count = 0;
        let taken = device.receive(BATCH, &mut |frame| {
            if is_for(frame, PORT) {
                if answers.len() == count {
                    answers.push(Vec::new());
                }
                answers[count].clear();
                answers[count].extend_from_slice(frame);
                turn(&mut answers[count]);
                count += 1;
            }
        })?;
        answers[..count].iter().try_for_each(|answer| put(&mut device, answer))?;
        device.flush()?;
        if taken == 0 {
            wait_for(&device, NAP_MS)?;
        }
        Ok(())
    }
}

/// A client with the kernel's sockets.
struct Sockets {
    socket: UdpSocket,
    batch: Batch,
}

impl Load for Sockets {
    fn run_for(&mut self, time: Duration) -> Result<u64> {
        let (end, mut came) = (Instant::now() + time, 0);
        while Instant::now() < end {
            self.batch.fill(PAYLOAD);
            let mut under_way = self.batch.send(self.socket.as_fd(), WINDOW)?;
            while under_way > 0 {
                if !wait(self.socket.as_fd(), PATIENCE_MS) {
                    ensure!(came > 0, "no answer has come for {PATIENCE_MS} ms");
                    break;
                }
                let got = self.batch.receive(self.socket.as_fd())?;
                came += got as u64;
                under_way = under_way.saturating_sub(got);
            }
        }
        Ok(came)
    }
}

/// A client with a device.
struct Frames {
    device: Xdp,
    frame: Vec<u8>,
}

impl Load for Frames {
    fn run_for(&mut self, time: Duration) -> Result<u64> {
        let (end, mut came) = (Instant::now() + time, 0);
        while Instant::now() < end {
            for _ in 0..WINDOW {
                put(&mut self.device, &self.frame)?;
            }
            self.device.flush()?;
            let mut under_way = WINDOW;
            while under_way > 0 {
                let mut got = 0;
                let count = &mut |frame: &[u8]| got += usize::from(is_for(frame, PORT));
                let taken = self.device.receive(BATCH, count)?;
                came += got as u64;
                under_way = under_way.saturating_sub(got);
                if taken == 0 && !wait_for(&self.device, PATIENCE_MS)? {
                    ensure!(came > 0, "no answer has come for {PATIENCE_MS} ms");
                    break;
                }
            }
        }
        Ok(came)
    }
}
