//! Making processes. They inherit what the calling thread blocks, of which the kernel is told for
//! that time.

use super::aliases;
use crate::cancel;
use crate::exec::in_place_for_program;
use crate::real::real;
use crate::signal::mask::{self, told_to_kernel};
use crate::signal::{action, bit, courier, set_of};
use crate::{state, sys};
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use libc::*;

type Strings = *const *mut c_char;

aliases! {
    /// See `posix_spawn(3)`.
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const posix_spawnattr_t, argv: Strings,
        envp: Strings) -> c_int = {
            let attributes = &with_mask(attributes);
            // SAFETY: handed on.
            in_place_for_program(|| unsafe {
                real!(posix_spawn(pid => *mut pid_t, path => *const c_char,
                    actions => *const c_void,
                    attributes => *const posix_spawnattr_t, argv => Strings, envp => Strings)
                        -> c_int)
            })
        };
    /// See `posix_spawnp(3)`.
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void,
        attributes: *const posix_spawnattr_t, argv: Strings,
        envp: Strings) -> c_int = {
            let attributes = &with_mask(attributes);
            // SAFETY: handed on.
            in_place_for_program(|| unsafe {
                real!(posix_spawnp(pid => *mut pid_t, file => *const c_char,
                    actions => *const c_void,
                    attributes => *const posix_spawnattr_t, argv => Strings, envp => Strings)
                        -> c_int)
            })
        };
    /// See `popen(3)`.
    fn popen(command: *const c_char, kind: *const c_char) -> *mut FILE = told_to_kernel(|| {
        // SAFETY: handed on.
        in_place_for_program(|| unsafe {
            real!(popen(command => *const c_char, kind => *const c_char) -> *mut FILE)
        })
    });
    /// See `system(3)`.
    fn system(command: *const c_char) -> c_int = {
        if command.is_null() {
            return 1;
        }
        // SAFETY: a C string.
        unsafe { run_shell(command) }
    };
}

/// The attributes of a new process, which blocks what the calling thread blocks unless they say
/// otherwise.
fn with_mask(given: *const posix_spawnattr_t) -> posix_spawnattr_t {
    // SAFETY: null or the caller's, plain data; else initialised here.
    unsafe {
        let mut attributes = MaybeUninit::uninit();
        posix_spawnattr_init(attributes.as_mut_ptr());
        let mut attributes = given.as_ref().copied().unwrap_or(attributes.assume_init());
        let mut flags = 0;
        posix_spawnattr_getflags(&attributes, &mut flags);
        if flags & POSIX_SPAWN_SETSIGMASK as i16 == 0
            && let Some(me) = state::me()
        {
            posix_spawnattr_setsigmask(&mut attributes, &set_of(mask::for_exec(me)));
            posix_spawnattr_setflags(&mut attributes, flags | POSIX_SPAWN_SETSIGMASK as i16);
        }
        attributes
    }
}

/// What `system` is about, ended also when the thread is cancelled in it.
struct InSystem {
    blocked: sigset_t,
    child: pid_t,
}

impl Drop for InSystem {
    fn drop(&mut self) {
        // SAFETY: a child that nobody else waits for; a complete set.
        unsafe {
            if self.child > 0 {
                kill(self.child, SIGKILL);
                waitpid(self.child, ptr::null_mut(), 0);
            }
            // What was sent meanwhile is ignored.
            courier::synchronise();
            action::enter_system(false);
            mask::sigprocmask(SIG_SETMASK, &self.blocked, ptr::null_mut());
        }
    }
}

unsafe fn run_shell(command: *const c_char) -> c_int {
    cancel::test();
    // SAFETY: complete sets and attributes; C strings.
    unsafe {
        let (mut only_child, mut defaults): (sigset_t, sigset_t) = core::mem::zeroed();
        sigaddset(&mut only_child, SIGCHLD);
        let mut this = InSystem { blocked: core::mem::zeroed(), child: 0 };
        let ignored = action::enter_system(true);
        mask::sigprocmask(SIG_BLOCK, &only_child, &mut this.blocked);
        for signal in [SIGINT, SIGQUIT] {
            if ignored & bit(signal) == 0 {
                sigaddset(&mut defaults, signal);
            }
        }
        let mut attributes = MaybeUninit::<posix_spawnattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        posix_spawnattr_init(attributes);
        posix_spawnattr_setsigmask(attributes, &this.blocked);
        posix_spawnattr_setsigdefault(attributes, &defaults);
        let flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        posix_spawnattr_setflags(attributes, flags as i16);
        let argv = [c"sh".as_ptr(), c"-c".as_ptr(), c"--".as_ptr(), command, ptr::null()];
        let argv = argv.map(<*const c_char>::cast_mut);
        let mut child = 0;
        let (shell, variables) = (c"/bin/sh".as_ptr(), environ);
        let r = posix_spawn(&mut child, shell, ptr::null(), attributes, argv.as_ptr(), variables);
        posix_spawnattr_destroy(attributes);
        // What the shell says when it cannot run a command.
        let mut status = 127 << 8;
        let mut errno = r;
        if r == 0 {
            this.child = child;
            while waitpid(child, &mut status, 0) < 0 {
                errno = sys::saved_errno();
                if errno != EINTR {
                    status = -1;
                    break;
                }
            }
            this.child = 0;
        }
        drop(this);
        if errno != 0 && errno != EINTR {
            sys::set_errno(errno);
        }
        status
    }
}

unsafe extern "C" {
    static environ: *const *mut c_char;
}
