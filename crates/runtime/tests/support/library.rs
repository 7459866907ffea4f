//! Libraries in C, compiled by the test that loads them.

use std::ffi::{CStr, CString, c_void};
use std::path::PathBuf;
use std::process::Command;

/// The library of one test; `None` without a C compiler, which is said.
pub fn compile(name: &str, code: &str, options: &[&str]) -> Option<CString> {
    let path = |suffix| {
        PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}{suffix}", std::process::id()))
    };
    let (source, library) = (path(".c"), path(".so"));
    std::fs::write(&source, code).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]).args(options);
    if !cc.status().is_ok_and(|s| s.success()) {
        println!("skipped: there is no working C compiler `cc` here");
        return None;
    }
    Some(CString::new(library.to_str().unwrap()).unwrap())
}

/// Loads a library.
pub fn load(path: &CStr) -> *mut c_void {
    // SAFETY: a valid path; constructors of the tests' libraries work as they are meant to.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{path:?} cannot be loaded");
    handle
}

/// The address of a function of a loaded library.
pub fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a valid name, of a library that is loaded.
    let p = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!p.is_null(), "{name:?} is not there");
    p
}

/// Is it gone? Whoever has loaded it must have unloaded it.
///
/// # Safety
///
/// Nobody uses what was loaded.
pub unsafe fn unload(handle: *mut c_void, path: &CStr) -> bool {
    // SAFETY: the caller's contract. The last asks only whether it is there.
    unsafe {
        assert_eq!(libc::dlclose(handle), 0);
        libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD).is_null()
    }
}
