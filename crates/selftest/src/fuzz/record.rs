//! What a run has left behind.

use std::path::Path;

/// Bytes of a record in the trace's file: as in `interpreter/fuzz.h`.
pub const SIZE: usize = 32;

/// What came of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// It has begun.
    pub begun: bool,
    /// It has returned (1), or its thread was cancelled in it (2).
    pub done: u32,
    /// The result.
    pub r: i64,
    /// `errno`.
    pub e: i64,
    /// Something more.
    pub x: i64,
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.begun, self.done) {
            (false, _) => return f.write_str("not begun"),
            (true, 0) => return f.write_str("does not return"),
            (true, 2) => f.write_str("cancelled, ")?,
            _ => {}
        }
        write!(f, "{}", self.r)?;
        if self.e != 0 {
            write!(f, " errno {}", self.e)?;
        }
        if self.x != 0 {
            write!(f, " ({:#x})", self.x)?;
        }
        Ok(())
    }
}

/// Reads a trace.
///
/// # Errors
///
/// The file cannot be read.
pub fn read(path: &Path) -> std::io::Result<Vec<Record>> {
    let bytes = std::fs::read(path)?;
    let number = |b: &[u8], at: usize| -> i64 {
        let mut eight = [0; 8];
        eight.copy_from_slice(&b[at..at + 8]);
        i64::from_le_bytes(eight)
    };
    let record = |b: &[u8]| Record {
        begun: number(b, 0) as u32 != 0,
        done: (number(b, 0) as u64 >> 32) as u32,
        r: number(b, 8),
        e: number(b, 16),
        x: number(b, 24),
    };
    Ok(bytes.chunks_exact(SIZE).map(record).collect())
}
