//! Integer operations, lane by lane.

use super::lanes::{Lane, make, map, zip};
use crate::cpu::Vector;
use crate::vop::Vop;

fn mask<T>(on: bool, all: T, none: T) -> T {
    if on { all } else { none }
}

/// All lanes shifted by the same count, from the lowest quadword of `b` or the immediate.
fn shift(op: Vop, a: &Vector, n: u64) -> Vector {
    let m = n.min(255) as u32;
    match op {
        Vop::Psllw => map(a, |x: u16| x.checked_shl(m).unwrap_or(0)),
        Vop::Pslld => map(a, |x: u32| x.checked_shl(m).unwrap_or(0)),
        Vop::Psllq => map(a, |x: u64| x.checked_shl(m).unwrap_or(0)),
        Vop::Psrlw => map(a, |x: u16| x.checked_shr(m).unwrap_or(0)),
        Vop::Psrld => map(a, |x: u32| x.checked_shr(m).unwrap_or(0)),
        Vop::Psrlq => map(a, |x: u64| x.checked_shr(m).unwrap_or(0)),
        Vop::Psraw => map(a, |x: i16| x >> m.min(15)),
        Vop::Psrad => map(a, |x: i32| x >> m.min(31)),
        Vop::Pslldq => map(a, |x: u128| if m > 15 { 0 } else { x << (8 * m) }),
        _ => map(a, |x: u128| if m > 15 { 0 } else { x >> (8 * m) }),
    }
}

/// Neighbours combined: those of `a`, then those of `b`, in each half.
fn horizontal<T: Lane>(a: &Vector, b: &Vector, f: impl Fn(T, T) -> T) -> Vector {
    let half = 16 / size_of::<T>();
    make(|i| {
        let (base, within) = (i / half * half, i % half);
        let source = if within < half / 2 { a } else { b };
        let first = base + within % (half / 2) * 2;
        f(T::get(source, first), T::get(source, first + 1))
    })
}

/// The integer operations with two sources; nothing if `op` is none. `imm` is the count of shifts
/// that have one.
pub(super) fn execute(op: Vop, a: &Vector, b: &Vector, imm: Option<u64>) -> Option<Vector> {
    Some(match op {
        Vop::Paddb => zip(a, b, u8::wrapping_add),
        Vop::Paddw => zip(a, b, u16::wrapping_add),
        Vop::Paddd => zip(a, b, u32::wrapping_add),
        Vop::Paddq => zip(a, b, u64::wrapping_add),
        Vop::Psubb => zip(a, b, u8::wrapping_sub),
        Vop::Psubw => zip(a, b, u16::wrapping_sub),
        Vop::Psubd => zip(a, b, u32::wrapping_sub),
        Vop::Psubq => zip(a, b, u64::wrapping_sub),
        Vop::Paddsb => zip(a, b, i8::saturating_add),
        Vop::Paddsw => zip(a, b, i16::saturating_add),
        Vop::Paddusb => zip(a, b, u8::saturating_add),
        Vop::Paddusw => zip(a, b, u16::saturating_add),
        Vop::Psubsb => zip(a, b, i8::saturating_sub),
        Vop::Psubsw => zip(a, b, i16::saturating_sub),
        Vop::Psubusb => zip(a, b, u8::saturating_sub),
        Vop::Psubusw => zip(a, b, u16::saturating_sub),
        Vop::Pmullw => zip(a, b, u16::wrapping_mul),
        Vop::Pmulhw => zip(a, b, |x: i16, y| ((i32::from(x) * i32::from(y)) >> 16) as i16),
        Vop::Pmulhuw => zip(a, b, |x: u16, y| ((u32::from(x) * u32::from(y)) >> 16) as u16),
        Vop::Pmulhrsw => zip(a, b, |x: i16, y| {
            (((i32::from(x) * i32::from(y)) >> 14).wrapping_add(1) >> 1) as i16
        }),
        Vop::Pmulld => zip(a, b, u32::wrapping_mul),
        Vop::Pmuludq => zip(a, b, |x: u64, y| (x & 0xffff_ffff) * (y & 0xffff_ffff)),
        Vop::Pmuldq => zip(a, b, |x: i64, y| i64::from(x as i32) * i64::from(y as i32)),
        Vop::Pmaddwd => make(|i| {
            let product =
                |j| i32::from(<i16 as Lane>::get(a, j)) * i32::from(<i16 as Lane>::get(b, j));
            product(2 * i).wrapping_add(product(2 * i + 1))
        }),
        Vop::Pmaddubsw => make(|i| {
            let product =
                |j| i32::from(<u8 as Lane>::get(a, j)) * i32::from(<i8 as Lane>::get(b, j));
            (product(2 * i) + product(2 * i + 1)).clamp(i16::MIN.into(), i16::MAX.into()) as i16
        }),
        Vop::Psadbw => make(|i| {
            let sum = |j: usize| u64::from(a[j].abs_diff(b[j]));
            (8 * i..8 * i + 8).map(sum).sum::<u64>()
        }),
        Vop::Pavgb => zip(a, b, |x: u8, y| ((u16::from(x) + u16::from(y) + 1) >> 1) as u8),
        Vop::Pavgw => zip(a, b, |x: u16, y| ((u32::from(x) + u32::from(y) + 1) >> 1) as u16),
        Vop::Pminub => zip(a, b, u8::min),
        Vop::Pminsb => zip(a, b, i8::min),
        Vop::Pminuw => zip(a, b, u16::min),
        Vop::Pminsw => zip(a, b, i16::min),
        Vop::Pminud => zip(a, b, u32::min),
        Vop::Pminsd => zip(a, b, i32::min),
        Vop::Pmaxub => zip(a, b, u8::max),
        Vop::Pmaxsb => zip(a, b, i8::max),
        Vop::Pmaxuw => zip(a, b, u16::max),
        Vop::Pmaxsw => zip(a, b, i16::max),
        Vop::Pmaxud => zip(a, b, u32::max),
        Vop::Pmaxsd => zip(a, b, i32::max),
        Vop::Pcmpeqb => zip(a, b, |x: u8, y| mask(x == y, u8::MAX, 0)),
        Vop::Pcmpeqw => zip(a, b, |x: u16, y| mask(x == y, u16::MAX, 0)),
        Vop::Pcmpeqd => zip(a, b, |x: u32, y| mask(x == y, u32::MAX, 0)),
        Vop::Pcmpeqq => zip(a, b, |x: u64, y| mask(x == y, u64::MAX, 0)),
        Vop::Pcmpgtb => zip(a, b, |x: i8, y| mask(x > y, -1, 0)),
        Vop::Pcmpgtw => zip(a, b, |x: i16, y| mask(x > y, -1, 0)),
        Vop::Pcmpgtd => zip(a, b, |x: i32, y| mask(x > y, -1, 0)),
        Vop::Pcmpgtq => zip(a, b, |x: i64, y| mask(x > y, -1, 0)),
        Vop::Pand => zip(a, b, |x: u64, y| x & y),
        Vop::Pandn => zip(a, b, |x: u64, y| !x & y),
        Vop::Por => zip(a, b, |x: u64, y| x | y),
        Vop::Pxor => zip(a, b, |x: u64, y| x ^ y),
        Vop::Pabsb => map(b, i8::wrapping_abs),
        Vop::Pabsw => map(b, i16::wrapping_abs),
        Vop::Pabsd => map(b, i32::wrapping_abs),
        Vop::Psignb => zip(a, b, |x: i8, y| x.wrapping_mul(y.signum())),
        Vop::Psignw => zip(a, b, |x: i16, y| x.wrapping_mul(y.signum())),
        Vop::Psignd => zip(a, b, |x: i32, y| x.wrapping_mul(y.signum())),
        Vop::Psllw | Vop::Pslld | Vop::Psllq | Vop::Psrlw | Vop::Psrld | Vop::Psrlq => {
            shift(op, a, imm.unwrap_or_else(|| u64::get(b, 0)))
        }
        Vop::Psraw | Vop::Psrad => shift(op, a, imm.unwrap_or_else(|| u64::get(b, 0))),
        Vop::Pslldq | Vop::Psrldq => shift(op, a, imm.unwrap_or(0)),
        Vop::Vpsllvd => zip(a, b, |x: u32, n| x.checked_shl(n).unwrap_or(0)),
        Vop::Vpsllvq => zip(a, b, |x: u64, n| x.checked_shl(n.min(64) as u32).unwrap_or(0)),
        Vop::Vpsrlvd => zip(a, b, |x: u32, n| x.checked_shr(n).unwrap_or(0)),
        Vop::Vpsrlvq => zip(a, b, |x: u64, n| x.checked_shr(n.min(64) as u32).unwrap_or(0)),
        Vop::Vpsravd => zip(a, b, |x: i32, n| x >> (n as u32).min(31)),
        Vop::Phaddw => horizontal(a, b, u16::wrapping_add),
        Vop::Phaddd => horizontal(a, b, u32::wrapping_add),
        Vop::Phsubw => horizontal(a, b, u16::wrapping_sub),
        Vop::Phsubd => horizontal(a, b, u32::wrapping_sub),
        _ => return None,
    })
}
