#![doc = include_str!("../README.md")]

mod barrier;
mod c11;
mod cond;
mod mutex;
mod real;
mod rwlock;
mod spin;
mod start;
mod thread;
mod time;
