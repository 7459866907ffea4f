//! Entries in RocksDB, if the system has its library: found at run time, so that nothing but this
//! store needs it.
//!
//! The library's locks are the kernel's. Whoever waits for one whose holder was preempted keeps a
//! kernel thread, and many do: all look into one cache. So no thread is preempted in a call that
//! reads or writes one entry; between the rows of a scan it may be. (Aspen, section 3.1.2.)

mod library;

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use quaver::no_preempt;
use quaver::sync::Mutex;

use super::{Change, Item, Store, StoreError, Versions, record};
use library::{Handle, Library};

/// So many that writers of different keys seldom meet.
const STRIPES: usize = 64;
const WRITE_BUFFER_BYTES: usize = 64 << 20;
const CACHE_BYTES: usize = 1 << 30;

/// The store.
pub struct Rocks {
    library: &'static Library,
    database: Handle,
    options: Handle,
    write: Handle,
    read: Handle,
    /// An entry is read and written under the lock of its stripe.
    stripes: Box<[Mutex<()>]>,
    versions: Versions,
    entries: AtomicU64,
    /// Removed with its content at the end.
    _temporary: Option<tempfile::TempDir>,
}

// SAFETY: all threads may use a RocksDB database and its options at once.
unsafe impl Send for Rocks {}
// SAFETY: as above.
unsafe impl Sync for Rocks {}

impl Rocks {
    /// A store in the directory at `path`, which is made if there is none; in a temporary one
    /// without a path.
    ///
    /// # Errors
    ///
    /// The library is not installed, or cannot open the directory.
    pub fn open(path: Option<&Path>) -> Result<Rocks, StoreError> {
        let library = Library::find().map_err(StoreError::NoLibrary)?;
        let temporary =
            match path {
                Some(_) => None,
                None => Some(tempfile::Builder::new().prefix("quaver-serve-").tempdir().map_err(
                    |error| failed(format!("cannot make a temporary directory: {error}")),
                )?),
            };
        let path = match (&temporary, path) {
            (Some(temporary), _) => temporary.path(),
            (None, path) => path.unwrap_or(Path::new(".")),
        };
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| failed(format!("{} has a zero byte in its name", path.display())))?;
        // SAFETY: fresh options; the path is a C string.
        let (options, database) = unsafe {
            let options = (library.options_create)();
            (library.options_set_create_if_missing)(options, 1);
            (library.options_set_write_buffer_size)(options, WRITE_BUFFER_BYTES);
            let table = (library.block_based_options_create)();
            let cache = (library.cache_create_lru)(CACHE_BYTES);
            (library.block_based_options_set_block_cache)(table, cache);
            (library.options_set_block_based_table_factory)(options, table);
            // Both are counted, and held by the options from here on.
            (library.cache_destroy)(cache);
            (library.block_based_options_destroy)(table);
            let opened = checked(library, |error| (library.open)(options, name.as_ptr(), error));
            match opened {
                Ok(database) => (options, database),
                Err(error) => {
                    (library.options_destroy)(options);
                    return Err(error);
                }
            }
        };
        // SAFETY: makes options.
        let (write, read) =
            unsafe { ((library.writeoptions_create)(), (library.readoptions_create)()) };
        let store = Rocks {
            library,
            database,
            options,
            write,
            read,
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            versions: Versions::new(),
            entries: AtomicU64::new(0),
            _temporary: temporary,
        };
        let mut entries = 0;
        store.each(b"", |_, _| {
            entries += 1;
            Ok(true)
        })?;
        store.entries.store(entries, Ordering::Relaxed);
        Ok(store)
    }

    fn stripe(&self, key: &[u8]) -> &Mutex<()> {
        let sum = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        &self.stripes[(sum >> 32) as usize % STRIPES]
    }

    /// The bytes of a key.
    fn bytes(&self, key: &[u8]) -> Result<Option<Found>, StoreError> {
        let mut length = 0;
        // SAFETY: an open database, a slice, and places for results.
        let start = unsafe {
            whole(self.library, |error| {
                let key_start = key.as_ptr().cast();
                let get = self.library.get;
                get(self.database, self.read, key_start, key.len(), &mut length, error)
            })?
        };
        Ok((!start.is_null()).then_some(Found { library: self.library, start, length }))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let (start, value_start) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: an open database, and slices.
        unsafe {
            whole(self.library, |error| {
                let put = self.library.put;
                put(self.database, self.write, start, key.len(), value_start, value.len(), error);
            })
        }
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        // SAFETY: an open database, and a slice.
        unsafe {
            whole(self.library, |error| {
                let key_start = key.as_ptr().cast();
                (self.library.delete)(self.database, self.write, key_start, key.len(), error);
            })
        }
    }

    /// Shows rows from `start` on until `visit` says `false`.
    fn each(
        &self,
        start: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let (library, database, read) = (self.library, self.database, self.read);
        // SAFETY: an open database.
        let iterator = no_preempt(|| unsafe { (library.create_iterator)(database, read) });
        let iterator = Iterator { library, iterator };
        let (from, length) = (start.as_ptr().cast(), start.len());
        // SAFETY: a slice.
        no_preempt(|| unsafe { (library.iter_seek)(iterator.iterator, from, length) });
        while let Some((key, value)) = iterator.row() {
            if !visit(key, value)? {
                return Ok(());
            }
            // SAFETY: it stands at a row, whose slices are used no more.
            no_preempt(|| unsafe { (library.iter_next)(iterator.iterator) });
        }
        // SAFETY: an iterator that has come to its end, or to an error.
        unsafe { checked(library, |error| (library.iter_get_error)(iterator.iterator, error)) }
    }
}

/// A value that the library has allocated.
struct Found {
    library: &'static Library,
    start: *mut c_char,
    length: usize,
}

impl Found {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the library says so.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: from the library, and given back once.
        unsafe { (self.library.free)(self.start.cast()) };
    }
}

struct Iterator {
    library: &'static Library,
    iterator: Handle,
}

impl Iterator {
    /// Key and value where it stands, until it moves.
    fn row(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: the iterator's slices are valid until it moves, for which `&mut` is not needed;
        // its one user moves it when it needs them no more.
        unsafe {
            if (self.library.iter_valid)(self.iterator) == 0 {
                return None;
            }
            let part = |part: unsafe extern "C" fn(Handle, *mut usize) -> *const c_char| {
                let mut length = 0;
                let start = part(self.iterator, &mut length);
                std::slice::from_raw_parts(start.cast::<u8>(), length)
            };
            Some((part(self.library.iter_key), part(self.library.iter_value)))
        }
    }
}

impl Drop for Iterator {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        no_preempt(|| unsafe { (self.library.iter_destroy)(self.iterator) });
    }
}

fn failed(message: impl Into<String>) -> StoreError {
    StoreError::Backend { store: "rocksdb", message: message.into() }
}

/// [`checked`], for a call that takes a few microseconds and holds locks: it is not preempted.
///
/// # Safety
///
/// As for [`checked`].
unsafe fn whole<T>(
    library: &Library,
    f: impl FnOnce(*mut *mut c_char) -> T,
) -> Result<T, StoreError> {
    // SAFETY: the caller's contract.
    unsafe { checked(library, |error| no_preempt(|| f(error))) }
}

/// Calls the library with a place for its error, and looks there.
///
/// # Safety
///
/// `f` passes the place to a function of the library that takes one.
unsafe fn checked<T>(
    library: &Library,
    f: impl FnOnce(*mut *mut c_char) -> T,
) -> Result<T, StoreError> {
    let mut error: *mut c_char = std::ptr::null_mut();
    let result = f(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: an error is a C string from the library, ours to give back.
    unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        (library.free)(error.cast());
        Err(failed(message))
    }
}

fn live(bytes: &[u8]) -> Result<Option<Item>, StoreError> {
    let item = record::decode(bytes).ok_or_else(|| failed("an entry has no header"))?;
    Ok(item.is_live().then_some(item))
}

impl Store for Rocks {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn get(&self, key: &[u8]) -> Result<Option<Arc<Item>>, StoreError> {
        match self.bytes(key)? {
            Some(found) => Ok(live(found.as_slice())?.map(Arc::new)),
            None => Ok(None),
        }
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<&Item>) -> Change,
    ) -> Result<Option<u64>, StoreError> {
        let _stripe = self.stripe(key).lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.bytes(key)?;
        let old = match &found {
            Some(found) => live(found.as_slice())?,
            None => None,
        };
        match change(old.as_ref()) {
            Change::Keep => Ok(None),
            Change::Put(mut item) => {
                item.version = self.versions.next();
                self.put(key, &record::encode(&item))?;
                self.entries.fetch_add(found.is_none().into(), Ordering::Relaxed);
                Ok(Some(item.version))
            }
            Change::Delete => {
                if found.is_some() {
                    self.remove(key)?;
                    self.entries.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(None)
            }
        }
    }

    fn scan(
        &self,
        start: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &Item) -> bool,
    ) -> Result<(), StoreError> {
        let mut left = count;
        if left == 0 {
            return Ok(());
        }
        self.each(start, |key, bytes| {
            if let Some(item) = live(bytes)? {
                left -= 1;
                return Ok(visit(key, &item) && left > 0);
            }
            Ok(true)
        })
    }

    fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    fn clear(&self) -> Result<(), StoreError> {
        let mut keys = Vec::new();
        self.each(b"", |key, _| {
            keys.push(key.to_vec());
            Ok(true)
        })?;
        for key in keys {
            self.delete(&key)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        // SAFETY: an open database and options that are given back.
        unsafe {
            let options = (self.library.flushoptions_create)();
            let flushed = checked(self.library, |error| {
                (self.library.flush)(self.database, options, error);
            });
            (self.library.flushoptions_destroy)(options);
            flushed
        }
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: nobody uses the database any more, and each is given back once.
        unsafe {
            (self.library.close)(self.database);
            (self.library.writeoptions_destroy)(self.write);
            (self.library.readoptions_destroy)(self.read);
            (self.library.options_destroy)(self.options);
        }
    }
}
