//! Functions of pthreads that `libquaver.so` must define for its programs: see
//! `quaver::foreign::pthread`.

use core::ffi::c_int;
use libc::{
    cpu_set_t, pthread_attr_t, pthread_mutex_t, pthread_mutexattr_t, pthread_t, sched_param,
};
use quaver::foreign::pthread;

macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) = $function:path;)*) => {$(
        #[doc = concat!("libc's `", stringify!($name), "`, for user threads too.")]
        ///
        /// # Safety
        ///
        /// As for libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: handed on.
            unsafe { $function($($argument),*) }
        }
    )*};
}

export! {
    pthread_mutex_init(mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t)
        = pthread::mutex_init;
    pthread_getattr_np(thread: pthread_t, attr: *mut pthread_attr_t) = pthread::getattr;
    pthread_getaffinity_np(thread: pthread_t, size: usize, set: *mut cpu_set_t)
        = pthread::getaffinity;
    pthread_getschedparam(thread: pthread_t, policy: *mut c_int, parameter: *mut sched_param)
        = pthread::getschedparam;
}
