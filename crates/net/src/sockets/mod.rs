//! Sockets as programs see them: the errors are the kernel's.

mod tcp;
mod udp;

pub(crate) use tcp::Tcp;
pub(crate) use udp::Udp;
