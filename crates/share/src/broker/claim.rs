//! The right to use a socket's path: a locked file beside it. The kernel unlocks it, however its
//! owner ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The right, until it is dropped. Socket and file are then removed.
#[derive(Debug)]
pub(super) struct Claim {
    file: File,
    lock: PathBuf,
    socket: PathBuf,
}

impl Claim {
    /// Takes the right, and removes the socket of a broker that was killed. `WouldBlock`: another
    /// broker has it.
    pub(super) fn take(socket: &Path) -> io::Result<Claim> {
        let mut lock = socket.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let options = || {
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(false).mode(0o600);
            options.custom_flags(libc::O_NOFOLLOW);
            options
        };
        loop {
            let file = options().open(&lock)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(e)) => return Err(e),
            }
            // Its last owner may have removed it since it was opened.
            let ours = file.metadata()?;
            match std::fs::symlink_metadata(&lock) {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                    let claim = Claim { file, lock, socket: socket.into() };
                    claim.clear()?;
                    return Ok(claim);
                }
                _ => {}
            }
        }
    }

    /// The path is ours, so a socket there belongs to nobody. Anything else is left alone.
    fn clear(&self) -> io::Result<()> {
        match std::fs::symlink_metadata(&self.socket) {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(&self.socket),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While the file is locked, nobody else removes either or makes them anew.
        let _ = self.clear();
        let _ = std::fs::remove_file(&self.lock);
        let _ = self.file.unlock();
    }
}
