//! Accounts behind mutexes: transfers between them, by many threads, lose no money.
//!
//! A thread may be preempted in the middle of a transfer, with both mutexes locked. The others wait
//! for it in the mutex's queue and cost no processor time.

use quaver::sync::Mutex;
use std::sync::Arc;

const ACCOUNTS: usize = 8;
const CLERKS: usize = 16;
const TRANSFERS: usize = 10_000;

fn transfer(accounts: &[Mutex<i64>], from: usize, to: usize, amount: i64) {
    // Always in the same order, or two clerks could wait for each other.
    let (low, high) = (from.min(to), from.max(to));
    let mut low_balance = accounts[low].lock().unwrap();
    let mut high_balance = accounts[high].lock().unwrap();
    let sign = if from == low { 1 } else { -1 };
    *low_balance -= sign * amount;
    *high_balance += sign * amount;
}

#[quaver::main]
fn main() {
    let accounts: Arc<[Mutex<i64>]> = (0..ACCOUNTS).map(|_| Mutex::new(1_000)).collect();
    let clerks: Vec<_> = (0..CLERKS)
        .map(|clerk| {
            let accounts = accounts.clone();
            quaver::spawn(move || {
                for i in 0..TRANSFERS {
                    let from = (clerk * 7 + i) % ACCOUNTS;
                    let to = (from + 1 + i % (ACCOUNTS - 1)) % ACCOUNTS;
                    transfer(&accounts, from, to, (i % 10) as i64);
                }
            })
        })
        .collect();
    for clerk in clerks {
        clerk.join().unwrap();
    }
    let total: i64 = accounts.iter().map(|account| *account.lock().unwrap()).sum();
    println!("{} transfers, {total} in all accounts together", CLERKS * TRANSFERS);
    assert_eq!(total, 1_000 * ACCOUNTS as i64);
}
