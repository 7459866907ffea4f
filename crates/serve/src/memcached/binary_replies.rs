//! Serves a request of the binary protocol.

use super::binary::{self, Command, Request, Response, Status, Step};
use super::operations::{self, Added, Stored};
use super::text::KEY;
use crate::VERSION;
use crate::connection::Served;
use crate::limits::Room;
use crate::service::Service;
use crate::store::{Item, StoreError};

/// Serves the request at the beginning of `input`; with what was used come bytes that follow and
/// are to be skipped.
pub(super) fn serve(service: &Service, input: &[u8], output: &mut Vec<u8>) -> (Served, usize) {
    // Extras are shorter than 256 bytes.
    let limit = service.limits.value.saturating_add(KEY + 256);
    match binary::parse(input, limit) {
        Step::More => (Served::More, 0),
        Step::Strange => (Served::Last(input.len()), 0),
        Step::Wrong { opcode, opaque, why, used, skip } => {
            error(opcode, opaque, why, output);
            (Served::Request(used), skip)
        }
        Step::Request(used, request) => {
            let before = output.len();
            let status = service
                .flush_if_due()
                .and_then(|()| run(service, &request, output))
                .unwrap_or_else(|error| match error {
                    StoreError::Full { .. } => Status::Full,
                    _ => Status::Failed,
                });
            let is_get = matches!(request.command, Command::Get { .. });
            if status != Status::Ok {
                output.truncate(before);
                // That nothing was found is what a quiet `get` does not say.
                if !(request.quiet && is_get && status == Status::NotFound) {
                    error(request.opcode, request.opaque, status, output);
                }
            } else if request.quiet && !is_get {
                output.truncate(before);
            }
            let last = request.command == Command::Quit;
            (if last { Served::Last(used) } else { Served::Request(used) }, 0)
        }
    }
}

/// Does what is asked for, and appends the reply if it is done.
fn run(
    service: &Service,
    request: &Request<'_>,
    output: &mut Vec<u8>,
) -> Result<Status, StoreError> {
    let Request { opcode, opaque, key, version, .. } = *request;
    let reply = Response { opcode, opaque, ..Response::default() };
    match request.command {
        Command::Get { with_key, touch } => {
            return get(service, request, with_key, touch, output);
        }
        Command::Store { mode, flags, expiry } => {
            let expires_ms = operations::expires_ms(signed(expiry));
            let item = Item { value: request.value.to_vec(), flags, expires_ms, version: 0 };
            let stored = operations::store(service, key, item, mode, version)?;
            let version = match stored {
                Stored::Yes(version) => version,
                other => return Ok(refusal(other, mode)),
            };
            Response { version, ..reply }.write(output);
        }
        Command::Delete => match operations::delete(service, key, version)? {
            Stored::Yes(_) => reply.write(output),
            Stored::Exists => return Ok(Status::Exists),
            _ => return Ok(Status::NotFound),
        },
        Command::Add { amount, down, initial, expiry } => {
            let initial = (expiry != u32::MAX).then(|| (initial, signed(expiry)));
            match operations::add(service, key, amount, down, initial, version)? {
                Added::Yes(number, version) => {
                    let value = &number.to_be_bytes();
                    Response { version, value, ..reply }.write(output);
                }
                Added::NotFound => return Ok(Status::NotFound),
                Added::NoNumber => return Ok(Status::NoNumber),
                Added::Exists => return Ok(Status::Exists),
            }
        }
        Command::Touch(expiry) => match operations::touch(service, key, signed(expiry))? {
            Some(item) => Response { version: item.version, ..reply }.write(output),
            None => return Ok(Status::NotFound),
        },
        Command::Flush(delay) => {
            operations::flush(service, signed(delay))?;
            reply.write(output);
        }
        Command::Version => Response { value: VERSION.as_bytes(), ..reply }.write(output),
        Command::Stat => {
            match key {
                b"" => {
                    for (name, value) in operations::stats(service) {
                        let (key, value) = (name.as_bytes(), value.as_bytes());
                        Response { key, value, ..reply }.write(output);
                    }
                }
                b"reset" | b"settings" | b"items" | b"slabs" | b"sizes" => {}
                _ => return Ok(Status::NotFound),
            }
            // An empty one ends them.
            reply.write(output);
        }
        Command::Noop | Command::Verbosity | Command::Quit => reply.write(output),
    }
    Ok(Status::Ok)
}

fn get(
    service: &Service,
    request: &Request<'_>,
    with_key: bool,
    touch: Option<u32>,
    output: &mut Vec<u8>,
) -> Result<Status, StoreError> {
    let Request { opcode, opaque, key, .. } = *request;
    let mut room = Room::new(&service.limits);
    let mut show = |item: &Item| {
        if !room.covers(output.len() + item.value.len()) {
            return Status::Full;
        }
        let (version, value) = (item.version, item.value.as_slice());
        let (extras, key) = (&item.flags.to_be_bytes(), if with_key { key } else { b"" });
        Response { opcode, opaque, status: 0, version, extras, key, value }.write(output);
        Status::Ok
    };
    Ok(match touch {
        Some(expiry) => {
            operations::touch(service, key, signed(expiry))?.map_or(Status::NotFound, |i| show(&i))
        }
        None => operations::get(service, key)?.map_or(Status::NotFound, |item| show(&item)),
    })
}

/// Why nothing was stored.
fn refusal(stored: Stored, mode: operations::Mode) -> Status {
    use operations::Mode;

    match (stored, mode) {
        (Stored::TooLarge, _) => Status::TooLarge,
        (Stored::NotFound, _) | (Stored::No, Mode::Replace) => Status::NotFound,
        (Stored::No, Mode::Append | Mode::Prepend) => Status::NotStored,
        _ => Status::Exists,
    }
}

/// Times are sent without a sign; those of the text protocol have one.
fn signed(expiry: u32) -> i64 {
    i64::from(expiry)
}

fn error(opcode: u8, opaque: u32, why: Status, output: &mut Vec<u8>) {
    let (status, value) = (why as u16, why.text().as_bytes());
    Response { opcode, opaque, status, value, ..Response::default() }.write(output);
}
