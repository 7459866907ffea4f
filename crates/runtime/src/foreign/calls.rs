//! Calls of C on files in which a user thread may have to wait.

pub use crate::calls::{
    Caller, CannotWait, Epoll, Operation, Parked, Patience, Span, Tried, WOULD_WAIT, accept,
    can_park, connect, deadline, descriptors, epoll_wait, has_not_waited, park, poll, read,
    receive, receive_several, select, send_message, send_several, send_to, write,
};
pub use crate::preempt::at_call;
