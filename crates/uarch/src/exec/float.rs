//! Floating point: IEEE 754 with the processor's rules for NaNs, rounding to nearest.

use super::lanes::{Lane, make, map, zip};
use crate::cpu::Vector;
use crate::vop::Vop;

/// What arithmetic needs of f32 and f64.
trait Float: Lane + PartialOrd {
    const INDEFINITE: Self;
    fn nan(self) -> bool;
    /// A NaN that does not signal, with the same payload.
    fn quiet(self) -> Self;
    fn apply(self, op: Arith, other: Self) -> Self;
    fn sqrt(self) -> Self;
    fn round(self, how: usize) -> Self;
}

#[derive(Clone, Copy, PartialEq)]
enum Arith {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

macro_rules! float {
    ($t:ty, $quiet:literal, $indefinite:literal) => {
        impl Float for $t {
            const INDEFINITE: $t = <$t>::from_bits($indefinite);
            fn nan(self) -> bool {
                self.is_nan()
            }
            fn quiet(self) -> $t {
                <$t>::from_bits(self.to_bits() | $quiet)
            }
            fn apply(self, op: Arith, other: $t) -> $t {
                match op {
                    Arith::Add => self + other,
                    Arith::Sub => self - other,
                    Arith::Mul => self * other,
                    Arith::Div => self / other,
                    Arith::Min => {
                        if self < other {
                            self
                        } else {
                            other
                        }
                    }
                    Arith::Max => {
                        if self > other {
                            self
                        } else {
                            other
                        }
                    }
                }
            }
            fn sqrt(self) -> $t {
                <$t>::sqrt(self)
            }
            fn round(self, how: usize) -> $t {
                match how & 7 {
                    1 => self.floor(),
                    2 => self.ceil(),
                    3 => self.trunc(),
                    // 4 to 7 take MXCSR's way, which is to nearest as well
                    _ => self.round_ties_even(),
                }
            }
        }
    };
}
float!(f32, 0x0040_0000, 0xffc0_0000);
float!(f64, 0x0008_0000_0000_0000, 0xfff8_0000_0000_0000);

/// The processor's result: the first NaN among the operands wins, made quiet.
fn arith<T: Float>(op: Arith, a: T, b: T) -> T {
    if matches!(op, Arith::Min | Arith::Max) {
        // A NaN on either side gives the second operand as it is: comparisons with it fail.
        return a.apply(op, b);
    }
    if a.nan() {
        return a.quiet();
    }
    if b.nan() {
        return b.quiet();
    }
    let r = a.apply(op, b);
    if r.nan() { T::INDEFINITE } else { r }
}

fn sqrt<T: Float>(a: T) -> T {
    if a.nan() {
        return a.quiet();
    }
    let r = a.sqrt();
    if r.nan() { T::INDEFINITE } else { r }
}

fn round<T: Float>(a: T, how: usize) -> T {
    if a.nan() { a.quiet() } else { a.round(how) }
}

/// The sixteen predicates of VCMPPS; the other sixteen differ in exceptions only.
fn compare<T: Float>(a: T, b: T, predicate: usize) -> bool {
    let unordered = a.nan() || b.nan();
    match predicate & 15 {
        0 => a == b,
        1 => a < b,
        2 => a <= b,
        3 => unordered,
        4 => a != b,
        5 => unordered || a >= b,
        6 => unordered || a > b,
        7 => !unordered,
        8 => a == b || unordered,
        9 => unordered || a < b,
        10 => unordered || a <= b,
        11 => false,
        12 => a != b && !unordered,
        13 => a >= b,
        14 => a > b,
        _ => true,
    }
}

/// CF, PF and ZF of UCOMISS and its like.
pub(super) fn flags(op: Vop, a: &Vector, b: &Vector) -> u64 {
    use crate::cpu::flag::{CF, PF, ZF};
    let (a, b) = match op {
        Vop::Comiss => (f64::from(f32::get(a, 0)), f64::from(f32::get(b, 0))),
        _ => (f64::get(a, 0), f64::get(b, 0)),
    };
    if a.is_nan() || b.is_nan() {
        CF | PF | ZF
    } else if a < b {
        CF
    } else if a == b {
        ZF
    } else {
        0
    }
}

pub(super) fn wider(a: f32) -> f64 {
    if a.is_nan() {
        let bits = u64::from(a.to_bits());
        f64::from_bits((bits >> 31) << 63 | 0x7ff8 << 48 | (bits & 0x3f_ffff) << 29)
    } else {
        a.into()
    }
}

pub(super) fn narrower(a: f64) -> f32 {
    if a.is_nan() {
        let bits = a.to_bits();
        let payload = (bits >> 29) as u32 & 0x3f_ffff;
        f32::from_bits(((bits >> 63) as u32) << 31 | 0x7fc0_0000 | payload)
    } else {
        a as f32
    }
}

/// To an integer of `bits` bits; what does not fit becomes the smallest one.
pub(super) fn to_integer(a: f64, bits: u32, truncate: bool) -> i64 {
    let a = if truncate { a.trunc() } else { a.round_ties_even() };
    let limit = 2f64.powi(bits as i32 - 1);
    if a >= -limit && a < limit { a as i64 } else { i64::MIN >> (64 - bits) }
}

fn int32(a: f64, truncate: bool) -> i32 {
    to_integer(a, 32, truncate) as i32
}

fn low<T: Lane>(a: &Vector, value: T) -> Vector {
    let mut out = *a;
    value.put(&mut out, 0);
    out
}

fn scalar<T: Float>(op: Arith, a: &Vector, b: &Vector) -> Vector {
    low(a, arith(op, T::get(a, 0), T::get(b, 0)))
}

fn horizontal<T: Float>(op: Arith, a: &Vector, b: &Vector) -> Vector {
    let half = 16 / size_of::<T>();
    make(|i| {
        let (base, within) = (i / half * half, i % half);
        let source = if within < half / 2 { a } else { b };
        let first = base + within % (half / 2) * 2;
        arith(op, T::get(source, first), T::get(source, first + 1))
    })
}

fn alternating<T: Float>(a: &Vector, b: &Vector) -> Vector {
    make(|i| {
        let op = if i % 2 == 0 { Arith::Sub } else { Arith::Add };
        arith(op, T::get(a, i), T::get(b, i))
    })
}

/// Executes `op`; nothing if it is none of these.
pub(super) fn execute(op: Vop, a: &Vector, b: &Vector, imm: usize) -> Option<Vector> {
    use Arith::{Add, Div, Max, Min, Mul, Sub};
    let all32 = |op| zip(a, b, |x: f32, y| arith(op, x, y));
    let all64 = |op| zip(a, b, |x: f64, y| arith(op, x, y));
    Some(match op {
        Vop::Addps => all32(Add),
        Vop::Addpd => all64(Add),
        Vop::Addss => scalar::<f32>(Add, a, b),
        Vop::Addsd => scalar::<f64>(Add, a, b),
        Vop::Subps => all32(Sub),
        Vop::Subpd => all64(Sub),
        Vop::Subss => scalar::<f32>(Sub, a, b),
        Vop::Subsd => scalar::<f64>(Sub, a, b),
        Vop::Mulps => all32(Mul),
        Vop::Mulpd => all64(Mul),
        Vop::Mulss => scalar::<f32>(Mul, a, b),
        Vop::Mulsd => scalar::<f64>(Mul, a, b),
        Vop::Divps => all32(Div),
        Vop::Divpd => all64(Div),
        Vop::Divss => scalar::<f32>(Div, a, b),
        Vop::Divsd => scalar::<f64>(Div, a, b),
        Vop::Minps => all32(Min),
        Vop::Minpd => all64(Min),
        Vop::Minss => scalar::<f32>(Min, a, b),
        Vop::Minsd => scalar::<f64>(Min, a, b),
        Vop::Maxps => all32(Max),
        Vop::Maxpd => all64(Max),
        Vop::Maxss => scalar::<f32>(Max, a, b),
        Vop::Maxsd => scalar::<f64>(Max, a, b),
        Vop::Sqrtps => map(b, sqrt::<f32>),
        Vop::Sqrtpd => map(b, sqrt::<f64>),
        Vop::Sqrtss => low(a, sqrt(f32::get(b, 0))),
        Vop::Sqrtsd => low(a, sqrt(f64::get(b, 0))),
        Vop::Roundps => map(b, |x: f32| round(x, imm)),
        Vop::Roundpd => map(b, |x: f64| round(x, imm)),
        Vop::Roundss => low(a, round(f32::get(b, 0), imm)),
        Vop::Roundsd => low(a, round(f64::get(b, 0), imm)),
        Vop::Cmpps => {
            make(|i| (compare(f32::get(a, i), f32::get(b, i), imm) as u32).wrapping_neg())
        }
        Vop::Cmppd => {
            make(|i| (compare(f64::get(a, i), f64::get(b, i), imm) as u64).wrapping_neg())
        }
        Vop::Cmpss => {
            low(a, u32::from(compare(f32::get(a, 0), f32::get(b, 0), imm)).wrapping_neg())
        }
        Vop::Cmpsd => {
            low(a, u64::from(compare(f64::get(a, 0), f64::get(b, 0), imm)).wrapping_neg())
        }
        Vop::Haddps => horizontal::<f32>(Add, a, b),
        Vop::Haddpd => horizontal::<f64>(Add, a, b),
        Vop::Hsubps => horizontal::<f32>(Sub, a, b),
        Vop::Hsubpd => horizontal::<f64>(Sub, a, b),
        Vop::Addsubps => alternating::<f32>(a, b),
        Vop::Addsubpd => alternating::<f64>(a, b),
        Vop::Cvtss2sd => low(a, wider(f32::get(b, 0))),
        Vop::Cvtsd2ss => low(a, narrower(f64::get(b, 0))),
        Vop::Cvtps2pd => make(|i| wider(f32::get(b, i))),
        Vop::Cvtpd2ps => make(|i| if i < 4 { narrower(f64::get(b, i)) } else { 0.0 }),
        Vop::Cvtdq2ps => make(|i| i32::get(b, i) as f32),
        Vop::Cvtdq2pd => make(|i| f64::from(i32::get(b, i))),
        Vop::Cvtps2dq => make(|i| int32(f32::get(b, i).into(), false)),
        Vop::Cvttps2dq => make(|i| int32(f32::get(b, i).into(), true)),
        Vop::Cvtpd2dq => make(|i| if i < 4 { int32(f64::get(b, i), false) } else { 0 }),
        Vop::Cvttpd2dq => make(|i| if i < 4 { int32(f64::get(b, i), true) } else { 0 }),
        _ => return None,
    })
}
