//! Calls on sockets of a [network stack in user space](crate::net::stack).

pub use crate::overlay::call;
