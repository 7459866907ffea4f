//! Calls of C on sockets. The kernel's own on kernel threads say what is right: the same bodies run
//! there, on user threads, and (`tests/overlay`) on sockets of a stack.

pub mod flags;
pub mod many;
pub mod options;
pub mod several;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::RawFd;

/// Each body becomes a test. The program that includes this has an `everywhere_in_c`.
macro_rules! c_tests {
    ($($module:ident: $($name:ident)+;)+) => {
        mod in_c {
            $(
                mod $module {
                    $(
                        #[test]
                        fn $name() {
                            crate::everywhere_in_c(crate::c::$module::$name);
                        }
                    )+
                }
            )+
        }
    };
}

/// Those of TCP and UDP.
macro_rules! c_tests_of_internet {
    () => {
        c_tests! {
            several:
                a_burst
                all_of_them_are_waited_for
                what_there_is
                with_a_time
                with_the_times_of_the_socket
                errors_come_first
                errors_behind_a_message
                whole_messages_of_streams
                streams_end_in_them
                nobody_sends_too_much;
            many:
                poll_of_a_hundred
                select_of_sixty;
            options:
                kinds
                errors_are_taken_once
                who_listens
                states
                values_are_cut;
            flags:
                bytes_that_can_be_read
                peeking_and_cutting
                all_or_the_end
                errors_behind_a_part
                nobody_reads
                what_is_not_there;
        }
    };
}

/// The result of a call, or its error.
pub fn done(result: impl TryInto<i64>) -> Result<i64, i32> {
    match result.try_into().unwrap_or(-1) {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        result => Ok(result),
    }
}

/// Two ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((crate::HOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// Two sockets, of which the second sends to the first.
fn datagrams() -> (UdpSocket, UdpSocket) {
    let one = UdpSocket::bind((crate::HOST, 0)).unwrap();
    let other = UdpSocket::bind((crate::HOST, 0)).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    (one, other)
}

/// Waits until one of these events of `poll`, or an error, is there.
fn until(fd: RawFd, events: i16) {
    let mut file = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    assert_eq!(done(unsafe { libc::poll(&mut file, 1, -1) }), Ok(1));
}

/// `recv` into so many bytes: what has come, or the error.
fn receive(fd: RawFd, most: usize, flags: i32) -> Result<Vec<u8>, i32> {
    let mut room = vec![0u8; most];
    // SAFETY: room for so many bytes.
    let n = done(unsafe { libc::recv(fd, room.as_mut_ptr().cast(), most, flags) })?;
    room.truncate(n as usize);
    Ok(room)
}

fn send(fd: RawFd, bytes: &[u8], flags: i32) -> Result<i64, i32> {
    // SAFETY: so many bytes.
    done(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}
