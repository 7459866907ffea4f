//! Loops as rustc compiles them; `main` is in C.
#![no_std]
#![crate_type = "lib"]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// A table by open addressing.
#[unsafe(no_mangle)]
pub extern "C" fn distinct(seed: u64) -> u64 {
    let mut table = [0u64; 512];
    let mut state = seed;
    let mut count = 0;
    for _ in 0..400 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let key = (state >> 33) % 300 + 1;
        let mut at = (key.wrapping_mul(0x9e3779b97f4a7c15) >> 55) as usize;
        while table[at] != 0 && table[at] != key {
            at = (at + 1) % 512;
        }
        count += u64::from(table[at] == 0);
        table[at] = key;
    }
    count
}

/// Sorting, searching, and a match with a table.
#[unsafe(no_mangle)]
pub extern "C" fn mixed(n: u32) -> u64 {
    let mut values = [0u32; 200];
    for (i, value) in values.iter_mut().enumerate() {
        *value = (i as u32).wrapping_mul(2654435761).wrapping_add(n) % 1000;
    }
    values.sort_unstable();
    let mut found = 0;
    for key in 0..1000 {
        found += u64::from(values.binary_search(&key).is_ok());
    }
    values.iter().fold(found, |sum, &value| match value % 9 {
        0 => sum + u64::from(value),
        1 => sum * 3,
        2 => sum ^ 0x55,
        3 => sum.rotate_left(value % 13),
        4 => sum.wrapping_sub(7),
        5 => sum | 1,
        6 => sum.wrapping_mul(11),
        _ => sum + 1,
    })
}

/// Strings: bytes to words.
///
/// # Safety
///
/// `text` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn words(text: *const u8, length: usize) -> u64 {
    let bytes = unsafe { core::slice::from_raw_parts(text, length) };
    let Ok(text) = core::str::from_utf8(bytes) else { return 0 };
    let mut sum = 0;
    for word in text.split_whitespace() {
        sum = sum * 31 + word.chars().rev().map(u64::from).fold(0, |a, b| a * 7 + b) % 1009;
    }
    sum
}

/// Vectors, if the compiler likes them.
#[unsafe(no_mangle)]
pub extern "C" fn mean(n: usize) -> f64 {
    let mut values = [0f64; 128];
    for (i, value) in values.iter_mut().enumerate() {
        *value = (i * n) as f64 / 3.0;
    }
    values.iter().zip(values.iter().skip(1)).map(|(a, b)| (b - a) * a).sum::<f64>() / 127.0
}
