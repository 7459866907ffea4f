//! Commands on values as numbers.

use super::commands::{After, Context, Wrong};
use super::integer;
use crate::store::Change;

pub(super) fn incr(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    add(c, 1)
}

pub(super) fn decr(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    add(c, -1)
}

pub(super) fn incrby(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let amount = c.integer(2)?;
    add(c, amount)
}

pub(super) fn decrby(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let amount = c.integer(2)?.checked_neg().ok_or(Wrong::Overflow)?;
    add(c, amount)
}

fn add(c: &mut Context<'_, '_>, amount: i64) -> Result<After, Wrong> {
    let mut result = Err(Wrong::Integer);
    c.service.store.update(c.key(1)?, &mut |old| {
        let mut item = old.cloned().unwrap_or_default();
        let value = if old.is_some() { integer(&item.value) } else { Some(0) };
        result = match value {
            None => Err(Wrong::Integer),
            Some(value) => value.checked_add(amount).ok_or(Wrong::Overflow),
        };
        match &result {
            Ok(sum) => {
                item.value = sum.to_string().into_bytes();
                Change::Put(item)
            }
            Err(_) => Change::Keep,
        }
    })?;
    c.reply.integer(result?);
    Ok(After::GoOn)
}
