//! The synchronisation primitives, among kernel threads and among user threads.

mod channels;
mod condvar;
mod counting;
mod mutex;
mod once;
mod rwlock;
mod test_attribute;
mod user;
