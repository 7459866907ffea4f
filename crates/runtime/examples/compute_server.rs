//! A compute server over channels: a thread for each request, an answer through a channel of its
//! own, a limit on how many run at a time, and clients that do not wait for ever.
//!
//! The requests differ a thousandfold. Preemption lets the short ones pass the long ones, on one
//! worker.

use quaver::sync::{Semaphore, mpsc, oneshot};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Request {
    rounds: u32,
    answer: oneshot::Sender<u32>,
}

fn compute(rounds: u32) -> u32 {
    (0..rounds).fold(1, |a: u32, b| std::hint::black_box(a.wrapping_mul(31).wrapping_add(b)))
}

fn serve(requests: mpsc::Receiver<Request>) -> u32 {
    // Beyond it the queue is the channel, and then the clients.
    let room = Arc::new(Semaphore::new(64));
    let mut served = 0;
    for Request { rounds, answer } in requests {
        let Ok(permit) = room.clone().acquire_owned() else { break };
        quaver::spawn_detached(move || {
            let _permit = permit;
            // The client may have given up.
            let _ = answer.send(compute(rounds));
        });
        served += 1;
    }
    served
}

#[quaver::main(workers = 1, quantum = "20us")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (to_server, requests) = mpsc::sync_channel::<Request>(128);
    let server = quaver::spawn(move || serve(requests));

    let clients: Vec<_> = (0..8)
        .map(|client| {
            let to_server = to_server.clone();
            quaver::spawn(move || {
                let mut slowest = Duration::ZERO;
                for i in 0..25 {
                    let rounds = if (client + i) % 20 == 0 { 1_000_000 } else { 1_000 };
                    let (answer, mut reply) = oneshot::channel();
                    let start = Instant::now();
                    if to_server.send(Request { rounds, answer }).is_err() {
                        break;
                    }
                    match reply.recv_timeout(Duration::from_secs(30)) {
                        Ok(value) => assert_eq!(value, compute(rounds)),
                        Err(_) => println!("client {client}: no answer to request {i}"),
                    }
                    if rounds == 1_000 {
                        slowest = slowest.max(start.elapsed());
                    }
                }
                slowest
            })
        })
        .collect();
    drop(to_server);

    for (client, thread) in clients.into_iter().enumerate() {
        let slowest = thread.join().map_err(|_| "a client panicked")?;
        println!("client {client}: slowest short request {slowest:?}");
    }
    let served = server.join().map_err(|_| "the server panicked")?;
    assert_eq!(served, 8 * 25);
    println!("{served} requests served");
    Ok(())
}
