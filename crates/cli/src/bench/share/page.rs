//! Memory in which the best-effort program says how far it is.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use memmap2::MmapRaw;

/// How long a program may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes: three words.
const SIZE: u64 = 24;

/// A page of a file that two processes have mapped.
pub struct Page(MmapRaw);

impl Page {
    /// Makes the file, for one BE.
    ///
    /// # Errors
    ///
    /// As for files.
    pub fn create(path: &Path) -> anyhow::Result<Page> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(SIZE)?;
        Ok(Page(MmapRaw::map_raw(&file)?))
    }

    /// Maps a file that [`create`](Self::create) has made.
    ///
    /// # Errors
    ///
    /// As for files, and where it is another one.
    pub fn open(path: &Path) -> anyhow::Result<Page> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        ensure!(file.metadata()?.len() == SIZE, "{} is something else", path.display());
        Ok(Page(MmapRaw::map_raw(&file)?))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!((index as u64) < SIZE / 8);
        // SAFETY: inside of the mapping, which is aligned to pages and lives as long as `self`; all
        // accesses of both processes are atomic.
        unsafe { &*self.0.as_mut_ptr().cast::<AtomicU64>().add(index) }
    }

    /// The BE begins; alone it turns so often in a microsecond.
    pub fn begin(&self, turns_per_us: f64) {
        self.word(0).store(turns_per_us.to_bits(), Release);
    }

    /// It has turned so often more.
    pub fn add(&self, turns: u64) {
        self.word(1).store(self.turns() + turns, Relaxed);
    }

    /// How often it has turned.
    pub fn turns(&self) -> u64 {
        self.word(1).load(Relaxed)
    }

    /// Waits until it has begun; how often it turns in a microsecond. `alive` is asked meanwhile.
    ///
    /// # Errors
    ///
    /// It has ended, or takes too long.
    pub fn begun(&self, mut alive: impl FnMut() -> bool) -> anyhow::Result<f64> {
        let since = Instant::now();
        loop {
            let bits = self.word(0).load(Acquire);
            if bits != 0 {
                return Ok(f64::from_bits(bits));
            }
            ensure!(alive(), "the best-effort program has ended");
            ensure!(since.elapsed() < PATIENCE, "the best-effort program does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sees_what_the_other_has_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        assert!(Page::open(&path).is_err());
        let (reader, writer) = (Page::create(&path).unwrap(), Page::open(&path).unwrap());
        assert!(reader.begun(|| false).is_err());
        writer.begin(2.5);
        writer.add(3);
        writer.add(4);
        assert_eq!((reader.begun(|| true).unwrap(), reader.turns()), (2.5, 7));
        std::fs::write(&path, "other").unwrap();
        assert!(Page::open(&path).is_err());
    }
}
