//! Requests with replies: every request carries the sender of a channel for its one answer.

use quaver::sync::{mpsc, oneshot};

struct Request {
    key: u32,
    reply: oneshot::Sender<String>,
}

#[quaver::main]
fn main() {
    let (requests, inbox) = mpsc::channel::<Request>();

    let server = quaver::spawn(move || {
        let mut served = 0;
        for Request { key, reply } in inbox {
            // Whoever asked may have gone away; then nobody needs the answer.
            if !reply.is_closed() && reply.send(format!("value of {key}")).is_ok() {
                served += 1;
            }
        }
        served
    });

    let clients: Vec<_> = (0..100)
        .map(|key| {
            let requests = requests.clone();
            quaver::spawn(move || {
                let (reply, answer) = oneshot::channel();
                requests.send(Request { key, reply }).unwrap();
                assert_eq!(answer.recv().unwrap(), format!("value of {key}"));
            })
        })
        .collect();
    drop(requests);
    for client in clients {
        client.join().unwrap();
    }
    println!("{} requests served", server.join().unwrap());
}
