//! Kernel threads and user threads alike.

use std::time::Duration;

/// What a test's threads are.
#[derive(Clone, Copy)]
pub enum On {
    Kernel,
    User,
}

/// A thread.
pub enum Running<T> {
    Kernel(std::thread::JoinHandle<T>),
    User(quaver::JoinHandle<T>),
}

impl On {
    pub fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> Running<T> {
        match self {
            On::Kernel => Running::Kernel(std::thread::spawn(f)),
            On::User => Running::User(quaver::spawn(f)),
        }
    }
}

impl<T> Running<T> {
    pub fn join(self) -> T {
        match self {
            Running::Kernel(thread) => thread.join().unwrap(),
            Running::User(thread) => thread.join().unwrap(),
        }
    }
}

/// Gives the others time to get where they wait. If that does not suffice, they wait later, which
/// must be right, too.
pub fn a_moment() {
    quaver::sleep(Duration::from_millis(5));
}
