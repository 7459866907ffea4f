//! The same calls on the kernel's sockets and on ours: the same results, and the same readiness
//! after each.

mod common;

use common::kernel::Kernel;
use common::{B, Pair, at, datagrams, receive, send, stream};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use quaver::net::stack::{Kind, Opt, Socket};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The same programs each time; many others in the full form.
fn config() -> ProptestConfig {
    let full = std::env::var_os("QUAVER_TEST_FULL").is_some();
    let (cases, rng_seed) = if full { (5_000, RngSeed::Random) } else { (200, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// A call, on one of the sockets that there are.
#[derive(Clone, Debug)]
enum Call {
    Connect(usize),
    Accept,
    Send(usize, usize),
    Receive(usize, usize, bool),
    Shutdown(usize, Shutdown),
    Close(usize),
    TakeError(usize),
    Pending(usize),
    Names(usize),
    Abort(usize),
    Listen(usize),
    Bind(usize),
}

fn how() -> impl Strategy<Value = Shutdown> {
    prop_oneof![Just(Shutdown::Read), Just(Shutdown::Write), Just(Shutdown::Both)]
}

fn call() -> impl Strategy<Value = Call> {
    let at = || 0usize..8;
    prop_oneof![
        4 => at().prop_map(Call::Connect),
        4 => Just(Call::Accept),
        4 => (at(), 0usize..200).prop_map(|(at, len)| Call::Send(at, len)),
        5 => (at(), 0usize..200, any::<bool>())
            .prop_map(|(at, len, peek)| Call::Receive(at, len, peek)),
        2 => (at(), how()).prop_map(|(at, how)| Call::Shutdown(at, how)),
        2 => at().prop_map(Call::Close),
        1 => at().prop_map(Call::TakeError),
        1 => at().prop_map(Call::Pending),
        2 => at().prop_map(Call::Names),
        1 => at().prop_map(Call::Abort),
        1 => at().prop_map(Call::Listen),
        1 => at().prop_map(Call::Bind),
    ]
}

/// A socket of each kind; the first one listens.
struct Both {
    kernel: Arc<dyn Socket>,
    ours: Arc<dyn Socket>,
}

/// Makes both calls; they must have the same result.
fn same<T: PartialEq + std::fmt::Debug>(
    both: &Both,
    f: impl Fn(&dyn Socket) -> io::Result<T>,
) -> Result<(), String> {
    let number = |result: io::Result<T>| result.map_err(|e| e.raw_os_error());
    let (kernel, ours) = (number(f(&*both.kernel)), number(f(&*both.ours)));
    match kernel == ours {
        true => Ok(()),
        false => Err(format!("the kernel {kernel:?}, ours {ours:?}")),
    }
}

/// Waits until what was sent has come: all sockets are ready for the same.
fn agree(pair: &Pair, sockets: &[Both]) -> Result<(), String> {
    let start = Instant::now();
    loop {
        // Long enough for delayed acknowledgements.
        pair.pass_millis(50);
        let bytes_differ = |both: &Both| both.kernel.pending() != both.ours.pending();
        let differs = |both: &Both| both.kernel.readiness() != both.ours.readiness();
        // Bytes that Nagle's algorithm holds back come later, and change no readiness.
        let comes = start.elapsed() < Duration::from_millis(500);
        let Some(index) = sockets.iter().position(differs) else {
            if comes && sockets.iter().any(bytes_differ) {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            return Ok(());
        };
        if start.elapsed() > Duration::from_secs(10) {
            let Both { kernel, ours } = &sockets[index];
            let (kernel, ours) = (kernel.readiness(), ours.readiness());
            return Err(format!("{index} is ready for {kernel:?}, ours for {ours:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn play(calls: &[Call], trace: &mut Vec<String>) -> Result<(), String> {
    let pair = Pair::new();
    let new = |net| Both { kernel: Kernel::socket(Kind::Stream), ours: stream(net) };
    let mut sockets = vec![new(&pair.b)];
    let listener = &sockets[0];
    listener.kernel.bind(at(Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.ours.bind(at(B, 0)).unwrap();
    let (to_kernel, to_ours) = (listener.kernel.local_addr(), listener.ours.local_addr());
    same(listener, |socket| socket.listen(100))?;
    sockets.extend((0..3).map(|_| new(&pair.a)));
    for call in calls {
        trace.push(format!("{call:?}"));
        let count = sockets.len();
        let both = |at: usize| &sockets[at % count];
        match *call {
            Call::Connect(at) => {
                // What has listened would connect to itself.
                let both = &sockets[(1 + at % (count - 1).max(1)) % count];
                if count == 1 {
                    continue;
                }
                let peer = |socket: &dyn Socket| -> SocketAddr {
                    let kernel = std::ptr::addr_eq(socket, Arc::as_ptr(&both.kernel));
                    if kernel { to_kernel } else { to_ours }
                };
                same(both, |socket| socket.connect(peer(socket)))?;
            }
            Call::Accept => {
                let listener = &sockets[0];
                let (kernel, ours) = (listener.kernel.accept(), listener.ours.accept());
                match (kernel, ours) {
                    (Ok((kernel, _)), Ok((ours, _))) => sockets.push(Both { kernel, ours }),
                    (Err(kernel), Err(ours)) if kernel.raw_os_error() == ours.raw_os_error() => {}
                    (kernel, ours) => {
                        let (kernel, ours) = (kernel.map(|_| ()), ours.map(|_| ()));
                        return Err(format!("the kernel {kernel:?}, ours {ours:?}"));
                    }
                }
            }
            Call::Send(at, len) => {
                let bytes: Vec<u8> = (0..len).map(|i| (at + i) as u8).collect();
                same(both(at), |socket| send(socket, &bytes))?;
            }
            Call::Receive(at, len, peek) => same(both(at), |socket| {
                let mut bytes = vec![0; len];
                let (left, right) = bytes.split_at_mut(len / 3);
                let mut into = [IoSliceMut::new(left), IoSliceMut::new(right)];
                let got = socket.receive(&mut into, peek)?;
                bytes.truncate(got.len);
                Ok(bytes)
            })?,
            Call::Shutdown(at, how) => same(both(at), |socket| socket.shutdown(how))?,
            Call::TakeError(at) => {
                same(both(at), |socket| Ok(socket.take_error().map(|error| error.raw_os_error())))?
            }
            Call::Pending(at) => same(both(at), |socket| Ok(socket.pending()))?,
            Call::Names(at) => same(both(at), |socket| {
                Ok((socket.local_addr().port() != 0, socket.peer_addr().is_some()))
            })?,
            Call::Abort(at) => {
                same(both(at), |socket| socket.set(Opt::Linger(Some(Duration::ZERO))))?;
            }
            Call::Listen(at) => same(both(at), |socket| socket.listen(100))?,
            Call::Bind(at) => {
                same(both(at), |socket| socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))))?
            }
            Call::Close(at) => {
                // What listens stays.
                if count > 1 {
                    let gone = sockets.remove(1 + at % (count - 1));
                    gone.kernel.close();
                    gone.ours.close();
                }
            }
        }
        agree(&pair, &sockets)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn streams_are_the_kernels(calls in proptest::collection::vec(call(), 1..40)) {
        let mut trace = Vec::new();
        let result = play(&calls, &mut trace);
        prop_assert!(result.is_ok(), "{}\nafter {}", result.unwrap_err(), trace.join("; "));
    }
}

/// A call on one of two sockets for datagrams.
#[derive(Clone, Debug)]
enum Datagram {
    Bind(usize),
    Connect(usize, bool),
    Send(usize, usize, bool),
    Receive(usize, usize, bool),
    Shutdown(usize, Shutdown),
    TakeError(usize),
    Pending(usize),
    Names(usize),
    Listen(usize),
    Accept(usize),
}

fn datagram() -> impl Strategy<Value = Datagram> {
    let at = || 0usize..2;
    prop_oneof![
        2 => at().prop_map(Datagram::Bind),
        2 => (at(), any::<bool>()).prop_map(|(at, there)| Datagram::Connect(at, there)),
        8 => (at(), 0usize..300, any::<bool>())
            .prop_map(|(at, len, to)| Datagram::Send(at, len, to)),
        8 => (at(), 0usize..300, any::<bool>())
            .prop_map(|(at, len, peek)| Datagram::Receive(at, len, peek)),
        1 => (at(), how()).prop_map(|(at, how)| Datagram::Shutdown(at, how)),
        1 => at().prop_map(Datagram::TakeError),
        2 => at().prop_map(Datagram::Pending),
        2 => at().prop_map(Datagram::Names),
        1 => at().prop_map(Datagram::Listen),
        1 => at().prop_map(Datagram::Accept),
    ]
}

fn play_datagrams(calls: &[Datagram], trace: &mut Vec<String>) -> Result<(), String> {
    let pair = Pair::new();
    let new = |net| Both { kernel: Kernel::socket(Kind::Datagram), ours: datagrams(net) };
    let sockets = [new(&pair.a), new(&pair.b)];
    let addresses = [common::A, B];
    sockets[1].kernel.bind(at(Ipv4Addr::LOCALHOST, 0)).unwrap();
    sockets[1].ours.bind(at(B, 0)).unwrap();
    // A port at which nobody is.
    let nobody = Kernel::socket(Kind::Datagram);
    nobody.bind(at(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let closed = nobody.local_addr().port();
    nobody.close();
    for call in calls {
        trace.push(format!("{call:?}"));
        // Where the other one is.
        let peer = |index: usize, there: bool, socket: &dyn Socket| -> SocketAddr {
            let other = &sockets[1 - index];
            if std::ptr::addr_eq(socket, Arc::as_ptr(&sockets[index].kernel)) {
                let port = if there { other.kernel.local_addr().port() } else { closed };
                at(Ipv4Addr::LOCALHOST, port)
            } else {
                let port = if there { other.ours.local_addr().port() } else { 9 };
                at(addresses[1 - index], port)
            }
        };
        let bound = |index: usize| sockets[1 - index].ours.local_addr().port() != 0;
        match *call {
            Datagram::Bind(index) => same(&sockets[index], |socket| {
                let kernel = std::ptr::addr_eq(socket, Arc::as_ptr(&sockets[index].kernel));
                socket.bind(at(if kernel { Ipv4Addr::LOCALHOST } else { addresses[index] }, 0))
            })?,
            Datagram::Connect(index, there) => {
                let there = there && bound(index);
                same(&sockets[index], |socket| socket.connect(peer(index, there, socket)))?;
            }
            Datagram::Send(index, len, to) => same(&sockets[index], |socket| {
                let to = (to && bound(index)).then(|| peer(index, true, socket));
                socket.send(&[IoSlice::new(&vec![len as u8; len])], to)
            })?,
            Datagram::Receive(index, len, peek) => same(&sockets[index], |socket| {
                let mut bytes = vec![0; len];
                let got = socket.receive(&mut [IoSliceMut::new(&mut bytes)], peek)?;
                bytes.truncate(got.len);
                Ok((bytes, got.from.is_some()))
            })?,
            Datagram::Shutdown(index, how) => same(&sockets[index], |socket| socket.shutdown(how))?,
            Datagram::TakeError(index) => same(&sockets[index], |socket| {
                Ok(socket.take_error().map(|error| error.raw_os_error()))
            })?,
            Datagram::Pending(index) => same(&sockets[index], |socket| Ok(socket.pending()))?,
            Datagram::Names(index) => same(&sockets[index], |socket| {
                Ok((socket.local_addr().port() != 0, socket.peer_addr().is_some()))
            })?,
            Datagram::Listen(index) => same(&sockets[index], |socket| socket.listen(1))?,
            Datagram::Accept(index) => {
                same(&sockets[index], |socket| socket.accept().map(|_| ()))?;
            }
        }
        agree(&pair, &sockets)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn datagrams_are_the_kernels(calls in proptest::collection::vec(datagram(), 1..40)) {
        let mut trace = Vec::new();
        let result = play_datagrams(&calls, &mut trace);
        prop_assert!(result.is_ok(), "{}\nafter {}", result.unwrap_err(), trace.join("; "));
    }
}

#[test]
fn addresses_of_others_are_refused() {
    let pair = Pair::new();
    let pairs = [
        Both { kernel: Kernel::socket(Kind::Stream), ours: stream(&pair.a) },
        Both { kernel: Kernel::socket(Kind::Datagram), ours: datagrams(&pair.a) },
    ];
    for both in &pairs {
        // TEST-NET-1: nobody has it.
        same(both, |socket| socket.bind(at(Ipv4Addr::new(192, 0, 2, 1), 80))).unwrap();
        same(both, |socket| receive(socket, 1)).unwrap();
        same(both, |socket| send(socket, b"x")).unwrap();
        same(both, |socket| socket.set(Opt::Ttl(0))).unwrap();
    }
    for kind in [Kind::Stream, Kind::Datagram] {
        let new = || match kind {
            Kind::Stream => stream(&pair.a),
            Kind::Datagram => datagrams(&pair.a),
        };
        let (kernel, ours) = (Kernel::socket(kind), new());
        kernel.bind(at(Ipv4Addr::LOCALHOST, 0)).unwrap();
        ours.bind(at(common::A, 80)).unwrap();
        let again = Kernel::socket(kind).bind(kernel.local_addr());
        let numbers = [again, new().bind(ours.local_addr())].map(common::errno);
        assert_eq!(numbers, [libc::EADDRINUSE; 2]);
    }
}
