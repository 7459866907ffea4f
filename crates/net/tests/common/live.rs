//! Sockets of stacks that are driven, with calls that wait: each is used by one user thread.

use super::errno;
use quaver::net::stack::{Kind, Readiness, Socket, Stack};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex};

/// A socket whose calls wait.
pub struct Waiting {
    pub socket: Arc<dyn Socket>,
    /// Who is told: whoever waits.
    waiter: Arc<Mutex<Option<quaver::thread::Thread>>>,
}

impl Waiting {
    pub fn new(socket: Arc<dyn Socket>) -> Waiting {
        let waiter: Arc<Mutex<Option<quaver::thread::Thread>>> = Arc::default();
        let told = waiter.clone();
        socket.announce_to(Arc::new(move |_: Readiness| {
            if let Some(thread) = &*told.lock().unwrap() {
                thread.unpark();
            }
        }));
        Waiting { socket, waiter }
    }

    pub fn stream(stack: &dyn Stack) -> Waiting {
        Waiting::new(stack.socket(Kind::Stream).unwrap())
    }

    /// Calls `f` until it does not say that it would have to wait.
    pub fn wait_for<R>(&self, mut f: impl FnMut(&dyn Socket) -> io::Result<R>) -> io::Result<R> {
        let me = quaver::thread::current().expect("a user thread");
        quaver::no_preempt(|| *self.waiter.lock().unwrap() = Some(me));
        loop {
            match quaver::no_preempt(|| f(&*self.socket)) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => quaver::thread::park(),
                done => return done,
            }
        }
    }

    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        match self.socket.connect(peer) {
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
            done => return done,
        }
        self.wait_for(|socket| match socket.connect(peer) {
            Err(e) if e.raw_os_error() == Some(libc::EALREADY) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            done => done,
        })
    }

    pub fn listen(stack: &dyn Stack, address: SocketAddr, backlog: usize) -> Waiting {
        let socket = stack.socket(Kind::Stream).unwrap();
        socket.bind(address).unwrap();
        socket.listen(backlog).unwrap();
        Waiting::new(socket)
    }

    pub fn accept(&self) -> io::Result<Waiting> {
        self.wait_for(|socket| socket.accept()).map(|(socket, _)| Waiting::new(socket))
    }

    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.wait_for(|socket| socket.receive(&mut [IoSliceMut::new(into)], false))
            .map(|got| got.len)
    }

    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.wait_for(|socket| socket.send(&[IoSlice::new(bytes)], None))?;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Reads until the end.
    pub fn read_to_end(&self) -> io::Result<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(all),
                n => all.extend_from_slice(&buffer[..n]),
            }
        }
    }

    pub fn read_exact(&self, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            match self.read(&mut into[done..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => done += n,
            }
        }
        Ok(())
    }

    pub fn shutdown(&self) {
        assert_eq!(errno(self.socket.shutdown(Shutdown::Write)), 0);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        quaver::no_preempt(|| self.socket.close());
    }
}
