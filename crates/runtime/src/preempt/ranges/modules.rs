//! Modules whose code may hold locks: by their file's name.

use super::Code;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// How the loader's name begins.
const LOADER: &[u8] = b"ld-linux";

/// How the names of libraries begin. `libc-`, `libpthread` and others are parts of older or
/// differently packaged C libraries.
const LIBRARIES: [&[u8]; 13] = [
    b"libc.so",
    b"libc-",
    b"libpthread",
    b"libgcc_s",
    b"libunwind",
    b"libstdc++",
    b"libc++",
    // Allocators.
    b"libjemalloc",
    b"libmimalloc",
    b"libtcmalloc",
    b"libtbbmalloc",
    b"libsnmalloc",
    b"libhoard",
];

fn kind(path: &[u8]) -> Code {
    let file = path.rsplit(|&c| c == b'/').next().unwrap_or(b"");
    if file.starts_with(LOADER) {
        Code::Unsafe
    } else if LIBRARIES.iter().any(|m| file.starts_with(m)) {
        Code::Library
    } else {
        Code::Free
    }
}

/// Executable addresses of what is loaded.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) unsafe_code: Vec<Range<usize>>,
    pub(super) libraries: Vec<Range<usize>>,
    pub(super) program: Vec<Range<usize>>,
}

/// Asks the dynamic loader.
pub(super) fn loaded() -> Loaded {
    // SAFETY: a null name is no valid symbol, so the type of what is found is that of the C header.
    let find = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND_OBJECT.store(find, Release);
    let mut found = (Loaded::default(), 0usize);
    // SAFETY: the callback gets valid module descriptions and our pair.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut found).cast()) };
    found.0
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: `data` is the pair of `loaded`; `info` is valid during the callback.
    let (info, (found, modules)) = unsafe { (&*info, &mut *data.cast::<(Loaded, usize)>()) };
    // The main program comes first.
    let is_program = *modules == 0;
    *modules += 1;
    // SAFETY: dlpi_name is a C string, empty for the main program.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    let into = if is_program {
        &mut found.program
    } else {
        match kind(name.to_bytes()) {
            Code::Unsafe => &mut found.unsafe_code,
            Code::Library => &mut found.libraries,
            Code::Free | Code::Leaf => return 0,
        }
    };
    // SAFETY: dlpi_phdr has dlpi_phnum entries.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for h in headers {
        if h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0 {
            let start = (info.dlpi_addr + h.p_vaddr) as usize;
            into.push(start..start + h.p_memsz as usize);
        }
    }
    0
}

/// `struct dl_find_object` of `dlfcn.h`.
#[repr(C)]
pub(super) struct Object {
    flags: u64,
    map_start: *const c_void,
    map_end: *const c_void,
    link_map: *const LinkMap,
    /// The module's `PT_GNU_EH_FRAME` segment.
    pub(super) eh_frame: *const u8,
    reserved: [u64; 7],
}

/// The beginning of `struct link_map` of `link.h`.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut Object) -> c_int;

/// glibc's `_dl_find_object`, or null.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The loaded module that `address` belongs to. Async-signal-safe, after [`loaded`].
pub(super) fn object_at(address: usize) -> Option<Object> {
    let find = FIND_OBJECT.load(Acquire);
    if find.is_null() {
        return None;
    }
    let mut object = core::mem::MaybeUninit::<Object>::uninit();
    // SAFETY: the function has this type; it fills the object when it returns 0.
    unsafe {
        let find = core::mem::transmute::<*mut c_void, FindObject>(find);
        (find(address as *const c_void, object.as_mut_ptr()) == 0).then(|| object.assume_init())
    }
}

/// What the name of the module of `address` says. Async-signal-safe: for addresses of running code,
/// whose module is not being unloaded.
pub(super) fn code_now(address: usize) -> Code {
    object_at(address).map_or(Code::Free, |o| {
        // SAFETY: the link map of a module that is loaded; its name is a C string.
        unsafe {
            let name = (*o.link_map).name;
            if name.is_null() { Code::Free } else { kind(CStr::from_ptr(name).to_bytes()) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["/lib/x/libc.so.6", "libstdc++.so.6.0.30", "/opt/libmimalloc.so.2.0"] {
            assert_eq!(kind(name.as_bytes()), Code::Library, "{name}");
        }
        assert_eq!(kind(b"/lib64/ld-linux-x86-64.so.2"), Code::Unsafe);
        for name in
            ["", "/home/libc.so/libm.so.6", "libcrypto.so.3", "libcurl.so", "linux-vdso.so.1"]
        {
            assert_eq!(kind(name.as_bytes()), Code::Free, "{name}");
        }
    }

    #[test]
    fn the_loader_knows_whose_code_it_is() {
        let found = loaded();
        let here = the_loader_knows_whose_code_it_is as *const () as usize;
        assert!(found.program.iter().any(|r| r.contains(&here)));
        let malloc = libc::malloc as *const () as usize;
        assert!(found.libraries.iter().any(|r| r.contains(&malloc)));
        if !FIND_OBJECT.load(Acquire).is_null() {
            assert_eq!((code_now(malloc), code_now(here)), (Code::Library, Code::Free));
            assert!(object_at(&raw const found as usize).is_none());
        }
    }
}
