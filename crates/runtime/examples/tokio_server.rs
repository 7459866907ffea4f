//! tokio on user threads: a handler that computes keeps nobody waiting but its own connections.
//!
//! tokio's multi-threaded runtime makes its threads by `std::thread`, and these are kernel threads.
//! So every user thread gets a `current_thread` runtime of its own. One thread accepts connections
//! and gives them to the runtimes in turn; everything else is tokio as it is.
//!
//! Here one worker serves clients whose requests take no time beside clients whose requests compute
//! for 10 ms.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// More than handlers that compute at the same time.
const RUNTIMES: usize = 8;

/// An asynchronous program: it does not know on what kind of thread it runs.
mod service {
    use super::*;

    /// Serves connections until no more come.
    pub async fn serve(mut connections: UnboundedReceiver<TcpStream>) {
        while let Some(stream) = connections.recv().await {
            tokio::spawn(async move {
                // A connection that breaks is the client's affair.
                let _ = talk(stream).await;
            });
        }
    }

    async fn talk(stream: TcpStream) -> io::Result<()> {
        let mut stream = tokio::net::TcpStream::from_std(stream)?;
        let (read, mut write) = stream.split();
        let mut lines = tokio::io::BufReader::new(read).lines();
        while let Some(line) = lines.next_line().await? {
            let answer = match line.as_str() {
                "fast" => 0,
                // It does not give way to other tasks.
                "slow" => compute(Duration::from_millis(10)),
                _ => return Err(io::Error::other("no such request")),
            };
            write.write_all(format!("{answer}\n").as_bytes()).await?;
        }
        Ok(())
    }

    fn compute(time: Duration) -> u64 {
        let start = Instant::now();
        (0..).take_while(|_| start.elapsed() < time).map(std::hint::black_box).sum()
    }
}

/// A runtime of tokio on a user thread, and the way to give it connections.
fn runtime_on_user_thread() -> io::Result<UnboundedSender<TcpStream>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (to, connections) = unbounded_channel();
    quaver::spawn_detached(move || runtime.block_on(service::serve(connections)));
    Ok(to)
}

/// Accepts connections, and gives them to the runtimes in turn.
fn listen() -> io::Result<SocketAddr> {
    let runtimes =
        (0..RUNTIMES).map(|_| runtime_on_user_thread()).collect::<io::Result<Vec<_>>>()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    quaver::spawn_detached(move || {
        for (stream, runtime) in listener.incoming().zip(runtimes.iter().cycle()) {
            let given = stream.and_then(|stream| {
                stream.set_nonblocking(true)?;
                runtime.send(stream).map_err(io::Error::other)
            });
            if let Err(error) = given {
                eprintln!("a connection is lost: {error}");
            }
        }
    });
    Ok(address)
}

/// The longest of some requests.
fn ask(address: SocketAddr, request: &str, times: u32) -> io::Result<Duration> {
    let mut stream = TcpStream::connect(address)?;
    let mut answers = BufReader::new(stream.try_clone()?).lines();
    let mut longest = Duration::ZERO;
    for _ in 0..times {
        let start = Instant::now();
        stream.write_all(format!("{request}\n").as_bytes())?;
        answers.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        longest = longest.max(start.elapsed());
    }
    Ok(longest)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quaver = quaver::Builder::new().workers(1).quantum_str("200us").build()?;
    let address = quaver.run(listen)?;
    // Clients are kernel threads: they could as well be elsewhere.
    let clients =
        [("slow", 20), ("fast", 200), ("fast", 200), ("slow", 20)].map(|(request, times)| {
            std::thread::spawn(move || (request, ask(address, request, times)))
        });
    for client in clients {
        let (request, longest) = client.join().map_err(|_| "a client panicked")?;
        println!("the longest {request} request took {:?}", longest?);
    }
    // The server's threads wait for connections for ever.
    std::process::exit(0);
}
