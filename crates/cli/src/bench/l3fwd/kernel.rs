//! Datagrams by the kernel's sockets, many with each system call.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::event::epoll;

use super::frames::PAYLOAD;

/// Room for datagrams, with their addresses.
pub(super) struct Batch {
    data: Vec<[u8; 2 * PAYLOAD]>,
    lens: Vec<usize>,
    /// Whom they are from; `None`: the socket is connected.
    from: Vec<libc::sockaddr_in>,
    named: bool,
}

impl Batch {
    pub(super) fn new(room: usize) -> Batch {
        // SAFETY: zeros are valid for it.
        let nobody: libc::sockaddr_in = unsafe { zeroed() };
        Batch {
            data: vec![[0; 2 * PAYLOAD]; room],
            lens: vec![0; room],
            from: vec![nobody; room],
            named: false,
        }
    }

    /// All are of this length, and go to whom the socket is connected to.
    pub(super) fn fill(&mut self, len: usize) {
        self.lens.fill(len);
        self.named = false;
    }

    /// Receives as many as there are and have room; 0: none.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.lens.fill(2 * PAYLOAD);
        self.named = true;
        let room = self.data.len();
        let got = self.call(room, |messages, count| {
            let (socket, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
            // SAFETY: there are as many messages, whose buffers live as long as `self`.
            unsafe { libc::recvmmsg(socket, messages, count, flags, std::ptr::null_mut()) }
        })?;
        Ok(got)
    }

    /// Sends the first `count`; how many went.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        if count == 0 {
            return Ok(0);
        }
        self.call(count, |messages, count| {
            // SAFETY: as above.
            unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count, libc::MSG_DONTWAIT) }
        })
    }

    fn call(
        &mut self,
        count: usize,
        call: impl FnOnce(*mut libc::mmsghdr, libc::c_uint) -> libc::c_int,
    ) -> io::Result<usize> {
        let parts = self.data.iter_mut().zip(&self.lens).take(count);
        let mut parts: Vec<libc::iovec> = parts
            .map(|(data, &len)| libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: len })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .zip(&mut self.from)
            .map(|(part, from)| {
                // SAFETY: zeros are valid for it.
                let mut message: libc::mmsghdr = unsafe { zeroed() };
                (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut *part, 1);
                if self.named {
                    message.msg_hdr.msg_name = (&raw mut *from).cast();
                    message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
                }
                message
            })
            .collect();
        match call(messages.as_mut_ptr(), count as libc::c_uint) {
            done @ 0.. => {
                for (len, message) in self.lens.iter_mut().zip(&messages).take(done as usize) {
                    *len = message.msg_len as usize;
                }
                Ok(done as usize)
            }
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            },
        }
    }
}

/// An epoll instance for one socket.
pub(super) struct Epoll(std::os::fd::OwnedFd);

impl Epoll {
    pub(super) fn of(socket: BorrowedFd<'_>) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, socket, data, epoll::EventFlags::IN)?;
        Ok(Epoll(epoll))
    }

    /// Is it readable, at the latest after so long?
    pub(super) fn wait(&self, ms: i32) -> io::Result<bool> {
        use std::os::fd::AsFd;

        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one.
        match unsafe { libc::epoll_wait(self.0.as_fd().as_raw_fd(), &raw mut event, 1, ms) } {
            count @ 0.. => Ok(count > 0),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }
}
