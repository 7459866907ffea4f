//! A child under ptrace that executes instructions for comparison with the model.

#![allow(dead_code)] // no test uses all of it

use std::arch::x86_64::__cpuid_count;
use std::io;
use std::mem::{size_of, zeroed};
use std::ptr;

use quaver_uarch::cpu::Vector;

/// What is compared.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    pub r: [u64; 16],
    pub rip: u64,
    pub flags: u64,
    pub v: [Vector; 16],
}

/// How a step of the child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Done,
    /// It stopped with this signal; the instruction has not completed.
    Signal(i32),
    /// It has exited with this status.
    Exited(i32),
}

/// The child; it dies with this value, and with this process.
pub struct Native {
    pid: libc::pid_t,
    regs: libc::user_regs_struct,
    xstate: Vec<u8>,
    /// Where the upper halves of YMM are in `xstate`.
    upper: usize,
}

/// A mapping that the child shares, at a fixed address.
pub fn share(address: u64, length: usize) -> io::Result<&'static mut [u8]> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE replaces nothing that is mapped.
    let at = unsafe { libc::mmap(address as *mut _, length, protection, flags, -1, 0) };
    if at as u64 != address {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping has this length, nobody else refers to it, and it is never unmapped. The
    // child writes it only while it is stepped, when nobody here uses the slice.
    Ok(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) })
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Native {
    /// A child that waits to be stepped.
    pub fn new() -> io::Result<Native> {
        // SAFETY: the child makes system calls only, which are safe after a fork with threads.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: as above; it is stopped before `_exit`, and goes on elsewhere.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
                    libc::_exit(1);
                }
                libc::raise(libc::SIGSTOP);
                libc::_exit(1);
            }
        }
        Native::attached(pid)
    }

    /// A child that begins a program, before its first instruction.
    pub fn program(path: &std::path::Path) -> io::Result<Native> {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        let arguments = [path.as_ptr(), ptr::null()];
        let environment = [ptr::null()];
        let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
        let nowhere = std::os::fd::AsRawFd::as_raw_fd(&nowhere);
        // SAFETY: the child makes system calls only; the strings outlive `execve`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: as above.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
                    libc::_exit(1);
                }
                libc::dup2(nowhere, 1);
                libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
                libc::_exit(127);
            }
        }
        Native::attached(pid)
    }

    fn attached(pid: libc::pid_t) -> io::Result<Native> {
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: plain data, for which zeros are a value.
        let regs = unsafe { zeroed() };
        let upper = __cpuid_count(0xd, 2).ebx as usize;
        let mut native = Native { pid, regs, xstate: vec![0; 16384], upper };
        if matches!(native.wait()?, Step::Exited(_)) {
            return Err(io::Error::other("ptrace is not allowed here"));
        }
        let options = libc::PTRACE_O_EXITKILL;
        // SAFETY: the child is stopped; no pointer is passed.
        check(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) })?;
        native.read()?;
        Ok(native)
    }

    fn wait(&mut self) -> io::Result<Step> {
        let mut status = 0;
        // SAFETY: `status` is valid for a write.
        check(unsafe { libc::waitpid(self.pid, &mut status, 0) }.into())?;
        Ok(if libc::WIFSTOPPED(status) {
            Step::Signal(libc::WSTOPSIG(status))
        } else {
            Step::Exited(libc::WEXITSTATUS(status))
        })
    }

    /// Executes one instruction (of a repeated string instruction, one repetition).
    pub fn step(&mut self) -> io::Result<Step> {
        // SAFETY: the child is stopped; no pointer is passed.
        check(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0) })?;
        let step = self.wait()?;
        if matches!(step, Step::Exited(_)) {
            return Ok(step);
        }
        self.read()?;
        Ok(if step == Step::Signal(libc::SIGTRAP) { Step::Done } else { step })
    }

    fn set_of_registers(&mut self) -> libc::iovec {
        libc::iovec { iov_base: self.xstate.as_mut_ptr().cast(), iov_len: self.xstate.len() }
    }

    fn read(&mut self) -> io::Result<()> {
        let regs: *mut libc::user_regs_struct = &mut self.regs;
        // SAFETY: `regs` is valid for a write of its type.
        check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, regs) })?;
        self.xstate.resize(16384, 0);
        let mut vector = self.set_of_registers();
        // SAFETY: the kernel writes at most `iov_len` bytes, which are ours.
        check(unsafe {
            libc::ptrace(libc::PTRACE_GETREGSET, self.pid, 0x202, ptr::from_mut(&mut vector))
        })?;
        self.xstate.truncate(vector.iov_len);
        Ok(())
    }

    /// The registers.
    pub fn state(&self) -> State {
        let g = &self.regs;
        let r = [
            g.rax, g.rcx, g.rdx, g.rbx, g.rsp, g.rbp, g.rsi, g.rdi, g.r8, g.r9, g.r10, g.r11,
            g.r12, g.r13, g.r14, g.r15,
        ];
        let mut v = [[0; 32]; 16];
        for (i, v) in v.iter_mut().enumerate() {
            v[..16].copy_from_slice(&self.xstate[160 + 16 * i..][..16]);
            v[16..].copy_from_slice(&self.xstate[self.upper + 16 * i..][..16]);
        }
        State { r, rip: g.rip, flags: g.eflags, v }
    }

    /// Sets the registers; MXCSR becomes its default.
    pub fn set(&mut self, state: &State) -> io::Result<()> {
        let g = &mut self.regs;
        let places = [
            &mut g.rax, &mut g.rcx, &mut g.rdx, &mut g.rbx, &mut g.rsp, &mut g.rbp, &mut g.rsi,
            &mut g.rdi, &mut g.r8, &mut g.r9, &mut g.r10, &mut g.r11, &mut g.r12, &mut g.r13,
            &mut g.r14, &mut g.r15,
        ];
        for (place, value) in places.into_iter().zip(state.r) {
            *place = value;
        }
        (g.rip, g.eflags, g.orig_rax) = (state.rip, state.flags, u64::MAX);
        for (i, v) in state.v.iter().enumerate() {
            self.xstate[160 + 16 * i..][..16].copy_from_slice(&v[..16]);
            self.xstate[self.upper + 16 * i..][..16].copy_from_slice(&v[16..]);
        }
        self.xstate[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
        self.xstate[512] |= 7;
        let regs: *const libc::user_regs_struct = &self.regs;
        // SAFETY: `regs` is valid for a read of its type.
        check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid, 0, regs) })?;
        let mut vector = self.set_of_registers();
        // SAFETY: the kernel reads `iov_len` bytes, which are ours.
        check(unsafe {
            libc::ptrace(libc::PTRACE_SETREGSET, self.pid, 0x202, ptr::from_mut(&mut vector))
        })
    }

    /// Copies the child's memory from `address` on into `buffer`.
    pub fn peek(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        std::fs::File::open(format!("/proc/{}/mem", self.pid))?.read_exact_at(buffer, address)
    }

    /// The child's memory that may be written: begin and end of each mapping.
    pub fn writable(&self) -> io::Result<Vec<(u64, u64)>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid))?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Ok(maps
            .lines()
            .filter(|line| line.contains(" rw") && !line.contains("[v"))
            .filter_map(|line| line.split(' ').next()?.split_once('-'))
            .filter_map(|(from, to)| Some((hex(from)?, hex(to)?)))
            .collect())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: the child is ours and has not been waited for, or the number is unused.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, ptr::null_mut(), 0);
        }
    }
}

const _: () = assert!(size_of::<libc::user_regs_struct>() == 216);
