//! Lanes of vector registers.

use crate::cpu::Vector;

/// A lane's type.
pub(super) trait Lane: Copy {
    /// The `i`th lane of `v`.
    fn get(v: &Vector, i: usize) -> Self;
    /// Replaces the `i`th lane of `v`.
    fn put(self, v: &mut Vector, i: usize);
}

macro_rules! lanes {
    ($($t:ty: $bytes:literal;)*) => { $(
        impl Lane for $t {
            #[inline]
            fn get(v: &Vector, i: usize) -> $t {
                let mut bytes = [0; $bytes];
                bytes.copy_from_slice(&v[i * $bytes..][..$bytes]);
                <$t>::from_le_bytes(bytes)
            }
            #[inline]
            fn put(self, v: &mut Vector, i: usize) {
                v[i * $bytes..][..$bytes].copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

lanes! {
    u8: 1; i8: 1; u16: 2; i16: 2; u32: 4; i32: 4; u64: 8; i64: 8; u128: 16; f32: 4; f64: 8;
}

/// Combines two registers lane by lane.
#[inline]
pub(super) fn zip<T: Lane>(a: &Vector, b: &Vector, f: impl Fn(T, T) -> T) -> Vector {
    let mut out = [0; 32];
    for i in 0..32 / size_of::<T>() {
        f(T::get(a, i), T::get(b, i)).put(&mut out, i);
    }
    out
}

/// Applies a function to each lane.
#[inline]
pub(super) fn map<T: Lane>(a: &Vector, f: impl Fn(T) -> T) -> Vector {
    zip(a, a, |x, _| f(x))
}

/// Makes each lane from its number.
#[inline]
pub(super) fn make<T: Lane>(f: impl Fn(usize) -> T) -> Vector {
    let mut out = [0; 32];
    for i in 0..32 / size_of::<T>() {
        f(i).put(&mut out, i);
    }
    out
}
