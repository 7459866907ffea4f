//! Operations that move lanes to other places. Most work within each half of 16 bytes.

use super::lanes::{Lane, make, map};
use crate::cpu::Vector;
use crate::vop::Vop;

/// Lanes of the lower (`high` 0) or upper halves of `a` and `b` in turn.
fn unpack<T: Lane>(a: &Vector, b: &Vector, high: usize) -> Vector {
    let half = 16 / size_of::<T>();
    make(|i| {
        let source = if i % 2 == 0 { a } else { b };
        T::get(source, i / half * half + high * half / 2 + i % half / 2)
    })
}

/// Lanes of `a`, then of `b`, made narrower.
fn pack<W: Lane, N: Lane>(a: &Vector, b: &Vector, f: impl Fn(W) -> N) -> Vector {
    let half = 16 / size_of::<N>();
    make(|i| {
        let (base, within) = (i / half * half / 2, i % half);
        let source = if within < half / 2 { a } else { b };
        f(W::get(source, base + within % (half / 2)))
    })
}

/// The lowest lanes of `b`, made wider.
fn widen<N: Lane, W: Lane>(b: &Vector, f: impl Fn(N) -> W) -> Vector {
    make(|i| f(N::get(b, i)))
}

/// Four lanes of each half chosen by two bits each.
fn choose4(b: &Vector, imm: usize) -> Vector {
    make(|i| u32::get(b, i / 4 * 4 + (imm >> (2 * (i % 4)) & 3)))
}

fn words(b: &Vector, imm: usize, first: usize) -> Vector {
    make(|i| {
        let within = i % 8;
        let from =
            if within / 4 * 4 == first { first + (imm >> (2 * (within % 4)) & 3) } else { within };
        u16::get(b, i / 8 * 8 + from)
    })
}

/// `a` with its lowest lane from `b`.
fn low<T: Lane>(a: &Vector, b: &Vector) -> Vector {
    let mut out = *a;
    T::get(b, 0).put(&mut out, 0);
    out
}

/// Lane by lane `b` where `choice` says so.
fn blend<T: Lane>(a: &Vector, b: &Vector, choice: impl Fn(usize) -> bool) -> Vector {
    make(|i| T::get(if choice(i) { b } else { a }, i))
}

/// Executes `op`; nothing if it is none of these. `c` is the mask of blends.
pub(super) fn execute(op: Vop, a: &Vector, b: &Vector, c: &Vector, imm: usize) -> Option<Vector> {
    let byte = |v: i16| v.clamp(-128, 127) as i8;
    Some(match op {
        Vop::Packsswb => pack(a, b, byte),
        Vop::Packssdw => pack(a, b, |v: i32| v.clamp(i16::MIN.into(), i16::MAX.into()) as i16),
        Vop::Packuswb => pack(a, b, |v: i16| v.clamp(0, 255) as u8),
        Vop::Packusdw => pack(a, b, |v: i32| v.clamp(0, 65535) as u16),
        Vop::Punpcklbw => unpack::<u8>(a, b, 0),
        Vop::Punpcklwd => unpack::<u16>(a, b, 0),
        Vop::Punpckldq => unpack::<u32>(a, b, 0),
        Vop::Punpcklqdq => unpack::<u64>(a, b, 0),
        Vop::Punpckhbw => unpack::<u8>(a, b, 1),
        Vop::Punpckhwd => unpack::<u16>(a, b, 1),
        Vop::Punpckhdq => unpack::<u32>(a, b, 1),
        Vop::Punpckhqdq => unpack::<u64>(a, b, 1),
        Vop::Pshufd => choose4(b, imm),
        Vop::Pshufhw => words(b, imm, 4),
        Vop::Pshuflw => words(b, imm, 0),
        Vop::Pshufb => make(|i| {
            let from = b[i];
            if from & 0x80 != 0 { 0 } else { a[i / 16 * 16 + usize::from(from & 15)] }
        }),
        Vop::Palignr => make(|i| {
            let (base, from) = (i / 16 * 16, i % 16 + imm);
            match from {
                0..16 => b[base + from],
                16..32 => a[base + from - 16],
                _ => 0,
            }
        }),
        Vop::Shufps => make(|i| {
            let source = if i % 4 < 2 { a } else { b };
            u32::get(source, i / 4 * 4 + (imm >> (2 * (i % 4)) & 3))
        }),
        Vop::Shufpd => {
            make(|i| u64::get(if i % 2 == 0 { a } else { b }, i / 2 * 2 + (imm >> i & 1)))
        }
        Vop::Movlps | Vop::Movsd => low::<u64>(a, b),
        Vop::Movss => low::<u32>(a, b),
        Vop::Movhps | Vop::Movlhps => {
            make(|i| if i == 1 { u64::get(b, 0) } else { u64::get(a, i) })
        }
        Vop::Movhlps => make(|i| if i == 0 { u64::get(b, 1) } else { u64::get(a, i) }),
        Vop::Movq => make(|i| if i == 0 { u64::get(b, 0) } else { 0 }),
        Vop::Movddup => make(|i| u64::get(b, i / 2 * 2)),
        Vop::Movshdup => make(|i| u32::get(b, i | 1)),
        Vop::Movsldup => make(|i| u32::get(b, i & !1)),
        Vop::Pblendw => blend::<u16>(a, b, |i| imm >> (i % 8) & 1 == 1),
        Vop::Vpblendd | Vop::Blendps => blend::<u32>(a, b, |i| imm >> i & 1 == 1),
        Vop::Blendpd => blend::<u64>(a, b, |i| imm >> i & 1 == 1),
        Vop::Pblendvb => blend::<u8>(a, b, |i| c[i] & 0x80 != 0),
        Vop::Blendvps => blend::<u32>(a, b, |i| i32::get(c, i) < 0),
        Vop::Blendvpd => blend::<u64>(a, b, |i| i64::get(c, i) < 0),
        Vop::Pmovzxbw => widen(b, |x: u8| u16::from(x)),
        Vop::Pmovzxbd => widen(b, |x: u8| u32::from(x)),
        Vop::Pmovzxbq => widen(b, |x: u8| u64::from(x)),
        Vop::Pmovzxwd => widen(b, |x: u16| u32::from(x)),
        Vop::Pmovzxwq => widen(b, |x: u16| u64::from(x)),
        Vop::Pmovzxdq => widen(b, |x: u32| u64::from(x)),
        Vop::Pmovsxbw => widen(b, |x: i8| i16::from(x)),
        Vop::Pmovsxbd => widen(b, |x: i8| i32::from(x)),
        Vop::Pmovsxbq => widen(b, |x: i8| i64::from(x)),
        Vop::Pmovsxwd => widen(b, |x: i16| i32::from(x)),
        Vop::Pmovsxwq => widen(b, |x: i16| i64::from(x)),
        Vop::Pmovsxdq => widen(b, |x: i32| i64::from(x)),
        Vop::Broadcastb => map(b, |_: u8| b[0]),
        Vop::Broadcastw => map(b, |_: u16| u16::get(b, 0)),
        Vop::Broadcastd => map(b, |_: u32| u32::get(b, 0)),
        Vop::Broadcastq => map(b, |_: u64| u64::get(b, 0)),
        Vop::Broadcast128 => map(b, |_: u128| u128::get(b, 0)),
        Vop::Vinsert128 => make(|i| if i == imm & 1 { u128::get(b, 0) } else { u128::get(a, i) }),
        Vop::Vextract128 => make(|i| if i == 0 { u128::get(b, imm & 1) } else { 0 }),
        Vop::Vperm2i128 => make(|i| {
            let choice = imm >> (4 * i);
            let source = if choice & 2 == 0 { a } else { b };
            if choice & 8 != 0 { 0 } else { u128::get(source, choice & 1) }
        }),
        Vop::Vpermq => make(|i| u64::get(b, imm >> (2 * i) & 3)),
        Vop::Vpermd => make(|i| u32::get(b, u32::get(a, i) as usize & 7)),
        Vop::Insertps => {
            let value = u32::get(b, imm >> 6 & 3);
            make(|i| match i {
                0..4 if imm >> i & 1 == 1 => 0,
                0..4 if imm >> 4 & 3 == i => value,
                _ => u32::get(a, i),
            })
        }
        Vop::Whole => *b,
        _ => return None,
    })
}
