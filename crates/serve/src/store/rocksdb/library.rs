//! The functions of RocksDB's C interface that are used, as the dynamic loader finds them.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

/// An object of the library.
pub(super) type Handle = *mut c_void;
type ErrorOut = *mut *mut c_char;

/// Debian 12's first.
const NAMES: [&CStr; 3] = [c"librocksdb.so.7.8", c"librocksdb.so", c"librocksdb.so.8.9"];

macro_rules! functions {
    ($($name:ident $symbol:literal: fn($($arg:ty),*) $(-> $ret:ty)?),* $(,)?) => {
        /// The library.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?),*
        }

        impl Library {
            /// The name of what is missing, if something is.
            ///
            /// # Safety
            ///
            /// `library` is RocksDB.
            unsafe fn load(library: *mut c_void) -> Result<Library, &'static str> {
                Ok(Library {
                    $($name: {
                        type Function = unsafe extern "C" fn($($arg),*) $(-> $ret)?;
                        // SAFETY: RocksDB's function of this name has had this type since the C
                        // interface exists.
                        unsafe {
                            let found = symbol(library, $symbol).ok_or($symbol)?;
                            core::mem::transmute::<*mut c_void, Function>(found)
                        }
                    }),*
                })
            }
        }
    };
}

functions! {
    options_create "options_create": fn() -> Handle,
    options_destroy "options_destroy": fn(Handle),
    options_set_create_if_missing "options_set_create_if_missing": fn(Handle, c_uchar),
    options_set_write_buffer_size "options_set_write_buffer_size": fn(Handle, usize),
    options_set_block_based_table_factory "options_set_block_based_table_factory":
        fn(Handle, Handle),
    block_based_options_create "block_based_options_create": fn() -> Handle,
    block_based_options_destroy "block_based_options_destroy": fn(Handle),
    block_based_options_set_block_cache "block_based_options_set_block_cache": fn(Handle, Handle),
    cache_create_lru "cache_create_lru": fn(usize) -> Handle,
    cache_destroy "cache_destroy": fn(Handle),
    open "open": fn(Handle, *const c_char, ErrorOut) -> Handle,
    close "close": fn(Handle),
    free "free": fn(*mut c_void),
    writeoptions_create "writeoptions_create": fn() -> Handle,
    writeoptions_destroy "writeoptions_destroy": fn(Handle),
    readoptions_create "readoptions_create": fn() -> Handle,
    readoptions_destroy "readoptions_destroy": fn(Handle),
    flushoptions_create "flushoptions_create": fn() -> Handle,
    flushoptions_destroy "flushoptions_destroy": fn(Handle),
    flush "flush": fn(Handle, Handle, ErrorOut),
    put "put": fn(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorOut),
    get "get": fn(Handle, Handle, *const c_char, usize, *mut usize, ErrorOut) -> *mut c_char,
    delete "delete": fn(Handle, Handle, *const c_char, usize, ErrorOut),
    create_iterator "create_iterator": fn(Handle, Handle) -> Handle,
    iter_seek "iter_seek": fn(Handle, *const c_char, usize),
    iter_valid "iter_valid": fn(Handle) -> c_uchar,
    iter_next "iter_next": fn(Handle),
    iter_key "iter_key": fn(Handle, *mut usize) -> *const c_char,
    iter_value "iter_value": fn(Handle, *mut usize) -> *const c_char,
    iter_get_error "iter_get_error": fn(Handle, ErrorOut),
    iter_destroy "iter_destroy": fn(Handle),
}

impl Library {
    /// The library of this system, loaded once.
    pub(super) fn find() -> Result<&'static Library, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let found = LIBRARY.get_or_init(|| {
            let mut opened = NAMES.iter().map(|name| {
                let mode: c_int = libc::RTLD_NOW;
                // SAFETY: loading runs the library's constructors, as linking it would.
                unsafe { libc::dlopen(name.as_ptr(), mode) }
            });
            let library = opened.find(|library| !library.is_null()).ok_or(
                "librocksdb is not installed (Debian: apt-get install librocksdb7.8); \
                 choose another store, or install it",
            )?;
            // SAFETY: it is RocksDB.
            unsafe { Library::load(library) }
                .map_err(|name| format!("this librocksdb has no function rocksdb_{name}"))
        });
        found.as_ref().map_err(Clone::clone)
    }
}

/// # Safety
///
/// `library` is a handle from the loader.
unsafe fn symbol(library: *mut c_void, name: &str) -> Option<*mut c_void> {
    let name = CString::new(format!("rocksdb_{name}")).ok()?;
    // SAFETY: the caller vouches for the handle; the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
