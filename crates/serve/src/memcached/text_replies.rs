//! Serves a request of the text protocol.

use std::io::Write;

use super::operations::{self, Added, Stored};
use super::text::{self, Command, Malformed, Step, TextLimits};
use crate::VERSION;
use crate::connection::Served;
use crate::limits::{Limits, Room};
use crate::service::Service;
use crate::store::{Item, StoreError};

/// Bytes of a reply's lines for one key at most.
const LINE: usize = 512;

/// Serves the request at the beginning of `input`; with what was used come bytes that follow and
/// are to be skipped.
pub(super) fn serve(service: &Service, input: &[u8], output: &mut Vec<u8>) -> (Served, usize) {
    let limits = TextLimits { value: service.limits.value };
    match text::parse(input, limits) {
        Step::More => (Served::More, 0),
        Step::Wrong { used, skip, why } => {
            line(output, why);
            let last = why == Malformed::Line;
            (if last { Served::Last(used) } else { Served::Request(used) }, skip)
        }
        Step::Command { used, command: Command::Quit, .. } => (Served::Last(used), 0),
        Step::Command { used, command, quiet } => {
            let before = output.len();
            if let Err(error) = service.flush_if_due().and_then(|()| run(service, command, output))
            {
                output.truncate(before);
                failed(output, &error);
            }
            if quiet {
                output.truncate(before);
            }
            (Served::Request(used), 0)
        }
    }
}

fn run(service: &Service, command: Command<'_>, output: &mut Vec<u8>) -> Result<(), StoreError> {
    let reply = match command {
        Command::Get { keys, versions, touch } => {
            return get(service, &keys, versions, touch, output);
        }
        Command::Store { mode, key, flags, expiry, value } => {
            let expires_ms = operations::expires_ms(expiry);
            let item = Item { value: value.to_vec(), flags, expires_ms, version: 0 };
            stored(operations::store(service, key, item, mode, 0)?)
        }
        Command::Delete(key) => match operations::delete(service, key, 0)? {
            Stored::Yes(_) => "DELETED",
            _ => "NOT_FOUND",
        },
        Command::Add { key, amount, down } => {
            match operations::add(service, key, amount, down, None, 0)? {
                Added::Yes(number, _) => {
                    line(output, number);
                    return Ok(());
                }
                Added::NoNumber => "CLIENT_ERROR cannot increment or decrement non-numeric value",
                Added::NotFound | Added::Exists => "NOT_FOUND",
            }
        }
        Command::Touch { key, expiry } => match operations::touch(service, key, expiry)? {
            Some(_) => "TOUCHED",
            None => "NOT_FOUND",
        },
        Command::Stats(what) => {
            stats(service, what, output);
            return Ok(());
        }
        Command::Flush(delay) => {
            operations::flush(service, delay)?;
            "OK"
        }
        Command::Version => {
            line(output, format_args!("VERSION {VERSION}"));
            return Ok(());
        }
        Command::Verbosity | Command::Quit => "OK",
    };
    line(output, reply);
    Ok(())
}

fn stored(stored: Stored) -> &'static str {
    match stored {
        Stored::Yes(_) => "STORED",
        Stored::No => "NOT_STORED",
        Stored::Exists => "EXISTS",
        Stored::NotFound => "NOT_FOUND",
        Stored::TooLarge => "SERVER_ERROR object too large for cache",
    }
}

fn get(
    service: &Service,
    keys: &[&[u8]],
    versions: bool,
    touch: Option<i64>,
    output: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let start = output.len();
    let mut room = Room::new(&service.limits);
    for key in keys {
        let mut has_room = true;
        let mut show = |output: &mut Vec<u8>, item: &Item| {
            has_room = room.covers(output.len() - start + item.value.len() + LINE);
            if !has_room {
                return;
            }
            output.extend_from_slice(b"VALUE ");
            output.extend_from_slice(key);
            if versions {
                let (length, version) = (item.value.len(), item.version);
                line(output, format_args!(" {} {length} {version}", item.flags));
            } else {
                line(output, format_args!(" {} {}", item.flags, item.value.len()));
            }
            output.extend_from_slice(&item.value);
            output.extend_from_slice(b"\r\n");
        };
        match touch {
            Some(expiry) => {
                if let Some(item) = operations::touch(service, key, expiry)? {
                    show(output, &item);
                }
            }
            None => {
                if let Some(item) = operations::get(service, key)? {
                    show(output, &item);
                }
            }
        }
        if !has_room {
            output.truncate(start);
            line(output, "SERVER_ERROR out of memory writing get response");
            return Ok(());
        }
    }
    line(output, "END");
    Ok(())
}

fn stats(service: &Service, what: Option<&[u8]>, output: &mut Vec<u8>) {
    match what {
        None => {
            for (name, value) in operations::stats(service) {
                line(output, format_args!("STAT {name} {value}"));
            }
            line(output, "END");
        }
        Some(b"settings") => {
            let Limits { connections, value, .. } = &service.limits;
            line(output, format_args!("STAT maxconns {connections}"));
            line(output, format_args!("STAT item_size_max {value}"));
            line(output, "END");
        }
        // There are none.
        Some(b"items" | b"slabs" | b"sizes") => line(output, "END"),
        Some(b"reset") => line(output, "RESET"),
        Some(_) => line(output, "ERROR"),
    }
}

fn failed(output: &mut Vec<u8>, error: &StoreError) {
    match error {
        StoreError::Full { .. } => line(output, "SERVER_ERROR out of memory storing object"),
        other => line(output, format_args!("SERVER_ERROR {}", one_line(other))),
    }
}

/// The error without line ends.
fn one_line(error: &StoreError) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}

fn line(output: &mut Vec<u8>, text: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(output, "{text}\r\n");
}
