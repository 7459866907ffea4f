//! RocksDB through its C interface, if the system has its library: C++ with locks, threads of its
//! own, and files.

use super::{Program, Rng, digest};
use core::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ffi::CString;
use std::path::PathBuf;

type Handle = *mut c_void;
type ErrorOut = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident $symbol:literal: fn($($arg:ty),*) $(-> $ret:ty)?),* $(,)?) => {
        /// The library's functions.
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?),* }

        impl Functions {
            /// # Safety
            ///
            /// `library` is RocksDB.
            unsafe fn find(library: *mut c_void) -> Option<Functions> {
                // SAFETY: the functions have had these types since the C interface exists.
                unsafe {
                    Some(Functions { $($name: {
                        let symbol = CString::new(concat!("rocksdb_", $symbol)).ok()?;
                        let p = libc::dlsym(library, symbol.as_ptr());
                        if p.is_null() {
                            return None;
                        }
                        type Function = unsafe extern "C" fn($($arg),*) $(-> $ret)?;
                        core::mem::transmute::<*mut c_void, Function>(p)
                    }),* })
                }
            }
        }
    };
}

functions! {
    options_create "options_create": fn() -> Handle,
    options_set_create_if_missing "options_set_create_if_missing": fn(Handle, c_uchar),
    options_set_write_buffer_size "options_set_write_buffer_size": fn(Handle, usize),
    open "open": fn(Handle, *const c_char, ErrorOut) -> Handle,
    close "close": fn(Handle),
    writeoptions_create "writeoptions_create": fn() -> Handle,
    writeoptions_disable_wal "writeoptions_disable_WAL": fn(Handle, c_int),
    readoptions_create "readoptions_create": fn() -> Handle,
    put "put": fn(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorOut),
    get "get": fn(Handle, Handle, *const c_char, usize, *mut usize, ErrorOut) -> *mut c_char,
    create_iterator "create_iterator": fn(Handle, Handle) -> Handle,
    iter_seek "iter_seek": fn(Handle, *const c_char, usize),
    iter_valid "iter_valid": fn(Handle) -> c_uchar,
    iter_next "iter_next": fn(Handle),
    iter_key "iter_key": fn(Handle, *mut usize) -> *const c_char,
    iter_value "iter_value": fn(Handle, *mut usize) -> *const c_char,
    iter_destroy "iter_destroy": fn(Handle),
}

/// Debian 12's first.
const LIBRARIES: [&CStr; 3] = [c"librocksdb.so.7.8", c"librocksdb.so", c"librocksdb.so.8.9"];
const KEYS: u64 = 3_000;

struct Rocks {
    f: Functions,
    db: Handle,
    write: Handle,
    read: Handle,
    path: PathBuf,
    seed: u64,
}

// SAFETY: a RocksDB database and its options may be used by all threads at once.
unsafe impl Sync for Rocks {}

pub(super) fn prepare(seed: u64) -> Result<Box<dyn Program>, String> {
    // SAFETY: loading runs the library's constructors, as linking it would.
    let library =
        LIBRARIES.iter().map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) });
    let library = library.into_iter().find(|p| !p.is_null());
    let library = library.ok_or("librocksdb is not installed (Debian: librocksdb7.8)")?;
    // SAFETY: it is RocksDB.
    let f = unsafe { Functions::find(library) }
        .ok_or("this librocksdb lacks functions that are needed")?;
    let path = std::env::temp_dir().join(format!("quaver-selftest-rocksdb-{}", std::process::id()));
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    let mut error = core::ptr::null_mut();
    // SAFETY: fresh options; the path is a C string.
    let rocks = unsafe {
        let options = (f.options_create)();
        (f.options_set_create_if_missing)(options, 1);
        (f.options_set_write_buffer_size)(options, 1 << 20);
        let db = (f.open)(options, name.as_ptr(), &mut error);
        if db.is_null() {
            return Err(format!("cannot open {}", path.display()));
        }
        let (write, read) = ((f.writeoptions_create)(), (f.readoptions_create)());
        (f.writeoptions_disable_wal)(write, 1);
        Rocks { f, db, write, read, path, seed }
    };
    (0..KEYS).for_each(|k| rocks.put(k));
    Ok(Box::new(rocks))
}

impl Rocks {
    fn key(k: u64) -> [u8; 8] {
        (k * 7).to_be_bytes()
    }

    /// A key's value never changes, so that readers know it whoever writes.
    fn put(&self, k: u64) {
        let (key, value) = (Self::key(k), Rng(self.seed ^ k).text(100));
        let mut error = core::ptr::null_mut();
        // SAFETY: an open database, and slices.
        unsafe {
            (self.f.put)(
                self.db,
                self.write,
                key.as_ptr().cast(),
                8,
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
    }

    fn get(&self, k: u64) -> u64 {
        let key = Self::key(k);
        let (mut error, mut size) = (core::ptr::null_mut(), 0);
        // SAFETY: as above; the result was made by malloc.
        unsafe {
            let value =
                (self.f.get)(self.db, self.read, key.as_ptr().cast(), 8, &mut size, &mut error);
            if value.is_null() {
                return 0;
            }
            let found = digest(core::slice::from_raw_parts(value.cast(), size));
            libc::free(value.cast());
            found
        }
    }

    fn scan(&self, from: u64, n: usize) -> u64 {
        let key = Self::key(from);
        let mut sum = 0u64;
        // SAFETY: the iterator's slices are valid until it moves.
        unsafe {
            let it = (self.f.create_iterator)(self.db, self.read);
            (self.f.iter_seek)(it, key.as_ptr().cast(), 8);
            for _ in 0..n {
                if (self.f.iter_valid)(it) == 0 {
                    break;
                }
                for part in [self.f.iter_key, self.f.iter_value] {
                    let mut size = 0;
                    let start = part(it, &mut size);
                    let part = core::slice::from_raw_parts(start.cast(), size);
                    sum = sum.rotate_left(9) ^ digest(part);
                }
                (self.f.iter_next)(it);
            }
            (self.f.iter_destroy)(it);
        }
        sum
    }
}

impl Program for Rocks {
    fn step(&self, i: u64) -> u64 {
        let mut rng = Rng(self.seed ^ i << 20);
        let mut sum = 0u64;
        for _ in 0..8 {
            let k = rng.below(KEYS);
            self.put(k);
            sum = sum.rotate_left(5) ^ self.get(rng.below(KEYS));
        }
        sum ^ self.scan(rng.below(KEYS - 50), 40)
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: nobody uses the database any more.
        unsafe { (self.f.close)(self.db) };
        // What is left behind otherwise is a temporary directory.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
