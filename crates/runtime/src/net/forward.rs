//! What several socket types offer alike.

/// Cloning, options and conversions of a type with a field `socket: StdSocket<$std>`.
macro_rules! common {
    ($name:ident, $std:ty) => {
        impl $name {
            /// Another handle to the same socket: what one does to its options, the other sees.
            /// Each closes its own descriptor.
            ///
            /// # Errors
            ///
            /// When the process has no descriptor left.
            pub fn try_clone(&self) -> ::std::io::Result<$name> {
                Ok($name { socket: self.socket.try_clone()? })
            }

            /// Should calls fail with [`WouldBlock`](std::io::ErrorKind::WouldBlock) instead of
            /// waiting? This and its clones remember it; the file itself never blocks.
            ///
            /// # Errors
            ///
            /// None; as in `std`.
            pub fn set_nonblocking(&self, nonblocking: bool) -> ::std::io::Result<()> {
                self.socket.set_nonblocking(nonblocking);
                Ok(())
            }

            /// Takes the error that is pending on the socket (`SO_ERROR`).
            ///
            /// # Errors
            ///
            /// When the option cannot be read.
            pub fn take_error(&self) -> ::std::io::Result<Option<::std::io::Error>> {
                self.socket.with(<$std>::take_error)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.socket.debug(f)
            }
        }

        /// Takes over the socket's mode and timeouts. The file becomes non-blocking, also for
        /// others that have it.
        impl From<$std> for $name {
            fn from(socket: $std) -> $name {
                $name { socket: $crate::net::socket::StdSocket::adopt(socket) }
            }
        }

        /// The file blocks again, unless `set_nonblocking` said otherwise or there is a clone.
        impl From<$name> for $std {
            fn from(this: $name) -> $std {
                this.socket.into_std()
            }
        }

        /// As from `std`'s type.
        impl From<::std::os::fd::OwnedFd> for $name {
            fn from(fd: ::std::os::fd::OwnedFd) -> $name {
                <$std>::from(fd).into()
            }
        }

        /// As to `std`'s type.
        impl From<$name> for ::std::os::fd::OwnedFd {
            fn from(this: $name) -> ::std::os::fd::OwnedFd {
                <$std>::from(this).into()
            }
        }

        /// As from `std`'s type.
        impl ::std::os::fd::FromRawFd for $name {
            unsafe fn from_raw_fd(fd: ::std::os::fd::RawFd) -> $name {
                // SAFETY: the caller's contract is the same.
                unsafe { <$std as ::std::os::fd::FromRawFd>::from_raw_fd(fd) }.into()
            }
        }

        /// As to `std`'s type.
        impl ::std::os::fd::IntoRawFd for $name {
            fn into_raw_fd(self) -> ::std::os::fd::RawFd {
                ::std::os::fd::IntoRawFd::into_raw_fd(<$std>::from(self))
            }
        }

        /// The file does not block: expect `EAGAIN`.
        impl ::std::os::fd::AsFd for $name {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                self.socket.fd()
            }
        }

        /// The file does not block: expect `EAGAIN`.
        impl ::std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                ::std::os::fd::AsRawFd::as_raw_fd(&self.socket.fd())
            }
        }
    };
}

/// Timeouts of a type with a field `socket`.
macro_rules! timeouts {
    ($name:ident, $std:ty) => {
        impl $name {
            /// How long a read may wait, counted from the begin of each call; `None`: for ever.
            /// Then it fails with [`WouldBlock`](std::io::ErrorKind::WouldBlock). Clones share
            /// it.
            ///
            /// # Errors
            ///
            /// `InvalidInput` for a duration of zero.
            pub fn set_read_timeout(
                &self,
                timeout: Option<::std::time::Duration>,
            ) -> ::std::io::Result<()> {
                let set = <$std>::set_read_timeout;
                self.socket.set_timeout($crate::reactor::Direction::Read, timeout, set)
            }

            /// As [`set_read_timeout`](Self::set_read_timeout), for writes.
            ///
            /// # Errors
            ///
            /// `InvalidInput` for a duration of zero.
            pub fn set_write_timeout(
                &self,
                timeout: Option<::std::time::Duration>,
            ) -> ::std::io::Result<()> {
                let set = <$std>::set_write_timeout;
                self.socket.set_timeout($crate::reactor::Direction::Write, timeout, set)
            }

            /// How long a read may wait. The kernel keeps it, in units of its own (milliseconds).
            ///
            /// # Errors
            ///
            /// When the option cannot be read.
            pub fn read_timeout(&self) -> ::std::io::Result<Option<::std::time::Duration>> {
                self.socket.with(<$std>::read_timeout)
            }

            /// As [`read_timeout`](Self::read_timeout), for writes.
            ///
            /// # Errors
            ///
            /// When the option cannot be read.
            pub fn write_timeout(&self) -> ::std::io::Result<Option<::std::time::Duration>> {
                self.socket.with(<$std>::write_timeout)
            }
        }
    };
}

/// `Read` and `Write` of a stream, for itself and for references to it.
macro_rules! stream_io {
    ($name:ident, $std:ty) => {
        /// A read parks the user thread until there is data, the end, or the timeout.
        impl ::std::io::Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> ::std::io::Result<usize> {
                let room = buf.len();
                let read = |mut socket: &$std| ::std::io::Read::read(&mut socket, buf);
                self.socket.read_stream(room, read)
            }

            fn read_vectored(
                &mut self,
                bufs: &mut [::std::io::IoSliceMut<'_>],
            ) -> ::std::io::Result<usize> {
                let room = bufs.iter().map(|buf| buf.len()).sum();
                let read = |mut socket: &$std| ::std::io::Read::read_vectored(&mut socket, bufs);
                self.socket.read_stream(room, read)
            }
        }

        /// A write parks the user thread until there was room for all of the data, or the timeout.
        impl ::std::io::Write for &$name {
            fn write(&mut self, buf: &[u8]) -> ::std::io::Result<usize> {
                self.socket.write_stream(buf.len(), |mut socket: &$std, from| {
                    ::std::io::Write::write(&mut socket, &buf[from..])
                })
            }

            fn write_vectored(
                &mut self,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::std::io::Result<usize> {
                let len = bufs.iter().map(|buf| buf.len()).sum();
                self.socket.write_stream(len, |mut socket: &$std, from| {
                    if from == 0 {
                        return ::std::io::Write::write_vectored(&mut socket, bufs);
                    }
                    let mut rest = bufs.to_vec();
                    let mut rest = &mut rest[..];
                    ::std::io::IoSlice::advance_slices(&mut rest, from);
                    ::std::io::Write::write_vectored(&mut socket, rest)
                })
            }

            /// Does nothing: nothing is kept back.
            fn flush(&mut self) -> ::std::io::Result<()> {
                Ok(())
            }
        }

        /// As for `&Self`.
        impl ::std::io::Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> ::std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(
                &mut self,
                bufs: &mut [::std::io::IoSliceMut<'_>],
            ) -> ::std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }

        /// As for `&Self`.
        impl ::std::io::Write for $name {
            fn write(&mut self, buf: &[u8]) -> ::std::io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(
                &mut self,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::std::io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            /// Does nothing: nothing is kept back.
            fn flush(&mut self) -> ::std::io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(super) use {common, stream_io, timeouts};
