//! The key-value server of Aspen's benchmarks: GET and SCAN in datagrams.
//!
//! The format is in [`quaver_load::net::aspen`]. Keys have numbers; their names and values are
//! those of [`store::fill`](crate::store::fill). A SCAN reads rows from the key on, and as many
//! from the first key as are missing at the end, so that every SCAN reads the same number.

use std::sync::Arc;

use quaver_load::net::aspen::{GET, Message, REFUSED, SCAN, SET};
use quaver_load::net::{key, value};

use crate::digest;
use crate::store::{Item, Store, StoreError};
use crate::udp::Answer;

/// Answers requests from a store.
pub struct KeyValue {
    store: Arc<dyn Store>,
    rows: usize,
    value_bytes: usize,
}

impl KeyValue {
    /// A SCAN reads `rows` rows, a SET writes `value_bytes` bytes.
    pub fn new(store: Arc<dyn Store>, rows: usize, value_bytes: usize) -> KeyValue {
        KeyValue { store, rows, value_bytes }
    }

    fn serve(&self, request: &Message) -> Result<bool, StoreError> {
        let index = u64::from(request.key);
        let name = key(index);
        match request.kind {
            GET => Ok(self.store.get(&name)?.is_some()),
            SET => {
                self.store.set(&name, Item::new(value(index, self.value_bytes)))?;
                Ok(true)
            }
            SCAN => {
                let read = self.scan(&name, self.rows)?;
                if read < self.rows {
                    self.scan(b"", self.rows - read)?;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn scan(&self, start: &[u8], rows: usize) -> Result<usize, StoreError> {
        let (mut read, mut sum) = (0, 0);
        self.store.scan(start, rows, &mut |key, item| {
            read += 1;
            sum = digest::row(sum, key, &item.value);
            true
        })?;
        // The work must not be left out because nobody looks at the sum.
        std::hint::black_box(sum);
        Ok(read)
    }
}

impl Answer for KeyValue {
    fn answer(&self, request: &Message) -> Message {
        match self.serve(request) {
            Ok(true) => *request,
            Ok(false) | Err(_) => Message { kind: request.kind | REFUSED, ..*request },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{fill, memory::Memory};

    #[test]
    fn requests_are_answered_or_refused() {
        let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 20));
        fill(store.as_ref(), 10, 8, &|| true).unwrap();
        let server = KeyValue::new(Arc::clone(&store), 10, 8);
        let ask = |kind, key| server.answer(&Message { id: 3, kind, key, run_ns: 0 });
        assert_eq!(ask(GET, 9), Message { id: 3, kind: GET, key: 9, run_ns: 0 });
        assert_eq!(ask(GET, 10).kind, GET | REFUSED);
        assert_eq!(ask(SET, 10).kind, SET);
        assert_eq!(ask(GET, 10).kind, GET);
        assert_eq!(ask(SCAN, 5).kind, SCAN);
        assert_eq!(ask(77, 0).kind, 77 | REFUSED);
        assert_eq!(server.scan(&key(5), 100).unwrap(), 6);
    }
}
