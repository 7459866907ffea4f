//! Integer arithmetic: results and flags. Operands may have bits above their size; they are
//! ignored.
//!
//! `size` is the logarithm of the bytes. Functions that take `flags` return the new ones.

use crate::cpu::MASK;
use crate::cpu::flag::{AF, CF, OF, SF, STATUS, ZF};

fn bits(size: u8) -> u32 {
    8 << size
}

fn mask(size: u8) -> u64 {
    MASK[usize::from(size & 3)]
}

fn top(size: u8, value: u64) -> bool {
    value >> (bits(size) - 1) & 1 == 1
}

fn put(bit: u64, on: bool) -> u64 {
    if on { bit } else { 0 }
}

/// Sign extension to 64 bits.
pub(crate) fn signed(size: u8, value: u64) -> i64 {
    let shift = 64 - bits(size);
    (value << shift) as i64 >> shift
}

/// ZF, SF and PF of a result.
#[inline]
pub(crate) fn zsp(size: u8, value: u64) -> u64 {
    let value = value & mask(size);
    let parity = (value as u8).count_ones() as u64 & 1 ^ 1;
    put(ZF, value == 0) | (value >> (bits(size) - 1)) << 7 | parity << 2
}

#[inline]
pub(crate) fn add(size: u8, flags: u64, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let r = a.wrapping_add(b).wrapping_add(carry);
    let carries = a & b | (a | b) & !r;
    let shift = bits(size) - 1;
    let new = carries >> shift & 1
        | ((a ^ r) & (b ^ r)) >> shift << 11 & OF
        | (a ^ b ^ r) & AF
        | zsp(size, r);
    (r, flags & !STATUS | new)
}

#[inline]
pub(crate) fn sub(size: u8, flags: u64, a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let r = a.wrapping_sub(b).wrapping_sub(borrow);
    let borrows = !a & b | (!a | b) & r;
    let shift = bits(size) - 1;
    let new = borrows >> shift & 1
        | ((a ^ b) & (a ^ r)) >> shift << 11 & OF
        | (a ^ b ^ r) & AF
        | zsp(size, r);
    (r, flags & !STATUS | new)
}

/// Flags of AND, OR, XOR, TEST. AF is undefined; it is cleared.
#[inline]
pub(crate) fn logic(size: u8, flags: u64, r: u64) -> u64 {
    flags & !STATUS | zsp(size, r)
}

/// INC and DEC leave CF.
pub(crate) fn keep_carry(old: u64, (r, flags): (u64, u64)) -> (u64, u64) {
    (r, flags & !CF | old & CF)
}

/// A shift's count: masked by the operand's size as the processor does.
fn count(size: u8, n: u64) -> u32 {
    (n & if size == 3 { 63 } else { 31 }) as u32
}

pub(crate) fn shl(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let a = a & mask(size);
    let wide = u128::from(a) << n;
    let r = wide as u64 & mask(size);
    let carry = wide >> bits(size) & 1 == 1;
    let new = put(CF, carry) | put(OF, top(size, r) != carry) | zsp(size, r);
    (r, flags & !STATUS | new)
}

pub(crate) fn shr(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let a = a & mask(size);
    let r = a >> n;
    let new = a >> (n - 1) & 1 | put(OF, top(size, a)) | zsp(size, r);
    (r, flags & !STATUS | new)
}

pub(crate) fn sar(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let a = signed(size, a);
    let r = (a >> n) as u64 & mask(size);
    let new = (a >> (n - 1)) as u64 & 1 | zsp(size, r);
    (r, flags & !STATUS | new)
}

pub(crate) fn rol(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let masked = count(size, n);
    if masked == 0 {
        return (a, flags);
    }
    let a = a & mask(size);
    let n = masked % bits(size);
    let r = if n == 0 { a } else { (a << n | a >> (bits(size) - n)) & mask(size) };
    let carry = r & 1 == 1;
    (r, flags & !(CF | OF) | put(CF, carry) | put(OF, top(size, r) != carry))
}

pub(crate) fn ror(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let masked = count(size, n);
    if masked == 0 {
        return (a, flags);
    }
    let a = a & mask(size);
    let n = masked % bits(size);
    let r = if n == 0 { a } else { (a >> n | a << (bits(size) - n)) & mask(size) };
    let carry = top(size, r);
    let next = r >> (bits(size) - 2) & 1 == 1;
    (r, flags & !(CF | OF) | put(CF, carry) | put(OF, carry != next))
}

/// Rotation through carry: to the left by `n`.
fn through_carry(size: u8, flags: u64, a: u64, n: u32) -> (u64, bool) {
    let width = bits(size) + 1;
    let value = u128::from(a & mask(size)) | u128::from(flags & CF) << bits(size);
    let n = n % width;
    let r = if n == 0 { value } else { value << n | value >> (width - n) };
    (r as u64 & mask(size), r >> bits(size) & 1 == 1)
}

pub(crate) fn rcl(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let (r, carry) = through_carry(size, flags, a, n);
    (r, flags & !(CF | OF) | put(CF, carry) | put(OF, top(size, r) != carry))
}

pub(crate) fn rcr(size: u8, flags: u64, a: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let width = bits(size) + 1;
    let (r, carry) = through_carry(size, flags, a, width - n % width);
    let overflow = top(size, r) != top(size, r << 1);
    (r, flags & !(CF | OF) | put(CF, carry) | put(OF, overflow))
}

/// SHLD. A count above the operand's size has no defined result; this one is of the two taken as a
/// ring.
pub(crate) fn shld(size: u8, flags: u64, a: u64, b: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let (w, a, b) = (bits(size), a & mask(size), b & mask(size));
    let wide = (u128::from(a) << w | u128::from(b)) << (128 - 2 * w);
    let r = (wide.rotate_left(n) >> (128 - w)) as u64 & mask(size);
    let carry = wide >> (128 - n) & 1 == 1;
    let new = put(CF, carry) | put(OF, top(size, r) != top(size, a)) | zsp(size, r);
    (r, flags & !STATUS | new)
}

/// SHRD. See [`shld`].
pub(crate) fn shrd(size: u8, flags: u64, a: u64, b: u64, n: u64) -> (u64, u64) {
    let n = count(size, n);
    if n == 0 {
        return (a, flags);
    }
    let (w, a, b) = (bits(size), a & mask(size), b & mask(size));
    let wide = u128::from(b) << w | u128::from(a);
    let r = (wide >> n) as u64 & mask(size);
    let carry = wide >> (n - 1) & 1 == 1;
    let new = put(CF, carry) | put(OF, top(size, r) != top(size, a)) | zsp(size, r);
    (r, flags & !STATUS | new)
}

/// Truncating signed product; CF and OF say that it was too large.
pub(crate) fn imul(size: u8, flags: u64, a: u64, b: u64) -> (u64, u64) {
    let wide = i128::from(signed(size, a)) * i128::from(signed(size, b));
    let r = wide as u64 & mask(size);
    let lost = i128::from(signed(size, r)) != wide;
    (r, flags & !STATUS | put(CF | OF, lost) | zsp(size, r))
}

/// The two halves of a product.
pub(crate) fn wide(size: u8, is_signed: bool, a: u64, b: u64) -> (u64, u64, bool) {
    let (a, b) = (a & mask(size), b & mask(size));
    let product = if is_signed {
        (i128::from(signed(size, a)) * i128::from(signed(size, b))) as u128
    } else {
        u128::from(a) * u128::from(b)
    };
    let (low, high) = (product as u64 & mask(size), (product >> bits(size)) as u64 & mask(size));
    let plain = if is_signed && top(size, low) { mask(size) } else { 0 };
    (low, high, high != plain)
}

/// Quotient and remainder of high:low, or nothing where the processor faults.
pub(crate) fn divide(
    size: u8,
    is_signed: bool,
    high: u64,
    low: u64,
    by: u64,
) -> Option<(u64, u64)> {
    let w = bits(size);
    let dividend = u128::from(high & mask(size)) << w | u128::from(low & mask(size));
    if is_signed {
        let dividend = (dividend << (128 - 2 * w)) as i128 >> (128 - 2 * w);
        let by = i128::from(signed(size, by));
        let (q, r) = (dividend.checked_div(by)?, dividend.checked_rem(by)?);
        (i128::from(signed(size, q as u64)) == q).then_some((q as u64, r as u64))
    } else {
        let by = u128::from(by & mask(size));
        let (q, r) = (dividend.checked_div(by)?, dividend.checked_rem(by)?);
        (q <= u128::from(mask(size))).then_some((q as u64, r as u64))
    }
}

/// TZCNT, LZCNT, POPCNT: the count, and its flags.
pub(crate) fn tzcnt(size: u8, flags: u64, a: u64) -> (u64, u64) {
    let a = a & mask(size);
    counted(flags, a, u64::from(a.trailing_zeros().min(bits(size))))
}

pub(crate) fn lzcnt(size: u8, flags: u64, a: u64) -> (u64, u64) {
    let a = a & mask(size);
    counted(flags, a, u64::from(a.leading_zeros() - (64 - bits(size))))
}

fn counted(flags: u64, a: u64, r: u64) -> (u64, u64) {
    (r, flags & !STATUS | put(CF, a == 0) | put(ZF, r == 0))
}

pub(crate) fn popcnt(size: u8, flags: u64, a: u64) -> (u64, u64) {
    let r = u64::from((a & mask(size)).count_ones());
    (r, flags & !STATUS | put(ZF, r == 0))
}

/// ZF says that there is no bit; the destination then stays.
pub(crate) fn bit_scan(size: u8, reverse: bool, flags: u64, a: u64, old: u64) -> (u64, u64) {
    let a = a & mask(size);
    if a == 0 {
        return (old, flags & !STATUS | ZF);
    }
    let r = if reverse { 63 - a.leading_zeros() } else { a.trailing_zeros() };
    (r.into(), flags & !STATUS)
}

/// Start and length are the low bytes of `control`.
pub(crate) fn bextr(size: u8, flags: u64, a: u64, control: u64) -> (u64, u64) {
    let (start, length) = (control & 0xff, control >> 8 & 0xff);
    let r = if start >= 64 { 0 } else { (a & mask(size)) >> start };
    let r = if length >= 64 { r } else { r & ((1 << length) - 1) };
    (r, flags & !STATUS | put(ZF, r == 0))
}

pub(crate) fn bzhi(size: u8, flags: u64, a: u64, index: u64) -> (u64, u64) {
    let index = index & 0xff;
    let beyond = index >= bits(size).into();
    let r = if beyond { a } else { a & ((1 << index) - 1) } & mask(size);
    (r, flags & !STATUS | put(CF, beyond) | put(ZF | SF, false) | zsp(size, r) & (ZF | SF))
}

/// BLSI, BLSR, BLSMSK: `carry` is CF.
pub(crate) fn lowest(size: u8, flags: u64, r: u64, carry: bool) -> (u64, u64) {
    let r = r & mask(size);
    (r, flags & !STATUS | put(CF, carry) | zsp(size, r) & (ZF | SF))
}

pub(crate) fn pdep(a: u64, mask: u64) -> u64 {
    let (mut r, mut rest, mut from) = (0, mask, 0);
    while rest != 0 {
        let bit = rest & rest.wrapping_neg();
        if a >> from & 1 == 1 {
            r |= bit;
        }
        from += 1;
        rest &= rest - 1;
    }
    r
}

pub(crate) fn pext(a: u64, mask: u64) -> u64 {
    let (mut r, mut rest, mut to) = (0, mask, 0);
    while rest != 0 {
        if a & rest & rest.wrapping_neg() != 0 {
            r |= 1 << to;
        }
        to += 1;
        rest &= rest - 1;
    }
    r
}

/// CRC-32C of `1 << size` bytes.
pub(crate) fn crc32(size: u8, crc: u64, data: u64) -> u64 {
    let mut r = (crc as u32) ^ (data & mask(size)) as u32;
    let mut high = (data & mask(size)) >> 32;
    for round in 0..1 << size {
        if round == 4 {
            r ^= std::mem::take(&mut high) as u32;
        }
        for _ in 0..8 {
            r = r >> 1 ^ if r & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    r.into()
}
