//! Calls of C on sockets of this stack, which talk to others of the same one: the results that the
//! kernel's sockets have (`quaver`'s `tests/net`), on kernel threads and on user threads.

#[macro_use]
#[path = "../../runtime/tests/net/c/mod.rs"]
mod c;
#[path = "../../runtime/tests/net/on.rs"]
mod on;

use on::On;
use quaver::net::stack;
use quaver_net::Net;
use quaver_net::clock::Clock;
use quaver_net::device::Device;
use quaver_net::memory::Wire;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const HOST: &str = "10.1.0.1";

/// There is one stack in a process at a time.
static ONE: Mutex<()> = Mutex::new(());

fn everywhere_in_c(body: fn(On)) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for workers in [1, 2] {
        let quantum = Some(Duration::from_micros(100));
        let runtime = quaver::Builder::new().workers(workers).quantum(quantum).build().unwrap();
        // Nobody is at the other end of the wire.
        let (devices, _others) = Wire::new(Clock::real()).connect().unwrap();
        let devices = devices.into_iter().map(|device| Box::new(device) as Box<dyn Device>);
        let net = Net::builder(HOST.parse().unwrap(), 24).devices(devices);
        let running = net.start(&runtime.handle()).unwrap();
        let installed = stack::install(running.stack()).unwrap();
        println!("-- {workers} workers");
        runtime.run(move || body(On::User));
        println!("-- kernel threads");
        std::thread::spawn(move || body(On::Kernel)).join().unwrap();
        let start = Instant::now();
        while running.net().stats().connections > 0 {
            assert!(start.elapsed() < Duration::from_secs(100), "{:?}", running.net().stats());
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(installed);
        running.stop();
        runtime.shutdown();
    }
}

c_tests_of_internet! {}
