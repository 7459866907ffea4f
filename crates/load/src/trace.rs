//! Traces: requests recorded elsewhere, replayed.
//!
//! A trace is a text of lines `time_us,class[,service_us]`:
//!
//! ```text
//! time_us,class,service_us
//! 0,get,1.2
//! 17.25,scan,650
//! 17.25,get
//! ```
//!
//! Times are microseconds from the start of the run, with fractions if need be (rounded to
//! nanoseconds), and never go back. A header that begins with `time_us`, empty lines, lines whose
//! first character other than white space is `#`, and a byte order mark at the beginning are
//! skipped. Every line ends in a newline, the last one too: a file that was cut short would
//! otherwise be read as if it were complete, perhaps with a shortened number at its end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use crate::error::quoted;
use crate::mix::{self, MAX_CLASSES};
use crate::units;

/// Bounds the memory that a file without newlines can take.
const LONGEST_LINE: u64 = 4096;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it is sent, in nanoseconds from the start of the run.
    pub time_ns: u64,
    /// The index of its class.
    pub class: u32,
    /// How long it takes to serve, in nanoseconds; `None` when the trace does not say.
    pub service_ns: Option<u64>,
}

/// Why a trace cannot be used. Lines and columns count from 1, columns in characters.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("trace {name}: cannot read: {source}")]
    Read {
        /// Which trace.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A field is not what it should be.
    #[error("trace {name}, line {line}, column {column}: expected {expected}, found {found}")]
    Field {
        /// Which trace.
        name: String,
        /// The line.
        line: u64,
        /// The first character of the field.
        column: usize,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// The last line does not end in a newline.
    #[error(
        "trace {name}, line {line}: expected a newline at the end of the last line, found the end \
         of the file; it may have been cut short (if it is complete, add the newline)"
    )]
    Truncated {
        /// Which trace.
        name: String,
        /// The line.
        line: u64,
    },
    /// There is no request in it.
    #[error("trace {name}: expected lines `time_us,class[,service_us]`, found no request")]
    Empty {
        /// Which trace.
        name: String,
    },
}

/// Reads a trace request by request, for traces that do not fit into memory. Ends after the first
/// error.
///
/// The class indices follow the order in which the classes first appear.
pub struct TraceReader<R> {
    name: String,
    input: R,
    line: u64,
    last: Option<(u64, String)>,
    classes: Vec<String>,
    indices: HashMap<String, u32>,
    buffer: Vec<u8>,
    over: bool,
}

impl<R: BufRead> TraceReader<R> {
    /// Reads a trace from `input`; `name` is what errors call it.
    pub fn new(name: impl Into<String>, input: R) -> Self {
        Self {
            name: name.into(),
            input,
            line: 0,
            last: None,
            classes: Vec::new(),
            indices: HashMap::new(),
            buffer: Vec::new(),
            over: false,
        }
    }

    /// The classes that have appeared so far, in the order of their indices.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    fn next_record(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let mut limited = (&mut self.input).take(LONGEST_LINE);
            let read = limited
                .read_until(b'\n', &mut self.buffer)
                .map_err(|source| TraceError::Read { name: self.name.clone(), source })?;
            if read == 0 {
                return match self.last {
                    Some(_) => Ok(None),
                    None => Err(TraceError::Empty { name: self.name.clone() }),
                };
            }
            let buffer = std::mem::take(&mut self.buffer);
            let record = self.parse_line(&buffer);
            self.buffer = buffer;
            if let Some(record) = record? {
                return Ok(Some(record));
            }
        }
    }

    /// `None` for a line that is to be skipped.
    fn parse_line(&mut self, bytes: &[u8]) -> Result<Option<TraceRecord>, TraceError> {
        let Some(bytes) = bytes.strip_suffix(b"\n") else {
            if bytes.len() as u64 == LONGEST_LINE {
                let expected = format!("a line of fewer than {LONGEST_LINE} bytes");
                return Err(self.error(1, expected, "a longer one"));
            }
            return Err(TraceError::Truncated { name: self.name.clone(), line: self.line });
        };
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let column = before.chars().count() + 1;
                return Err(self.error(column, "UTF-8 text", "other bytes"));
            }
        };
        let text =
            if self.line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        let start = text.trim_start();
        let is_header = self.last.is_none() && start.starts_with("time_us");
        if start.is_empty() || start.starts_with('#') || is_header {
            return Ok(None);
        }
        self.parse_fields(text).map(Some)
    }

    fn parse_fields(&mut self, text: &str) -> Result<TraceRecord, TraceError> {
        let mut fields = [(1, ""); 3];
        let mut column = 1;
        let mut count = 0;
        for field in text.split(',') {
            if count == fields.len() {
                let expected = "the end of the line after three fields";
                return Err(self.error(column, expected, quoted(field)));
            }
            let blank = field.chars().take_while(|c| c.is_whitespace()).count();
            fields[count] = (column + blank, field.trim());
            column += field.chars().count() + 1;
            count += 1;
        }
        if count < 2 {
            let column = text.chars().count() + 1;
            return Err(self.error(
                column,
                "a comma and a class after the time",
                "the end of the line",
            ));
        }

        let (column, time) = fields[0];
        let time_ns = micros(time).ok_or_else(|| {
            self.error(column, "a time in microseconds, a number such as 17.25", quoted(time))
        })?;
        if let Some((_, before)) = self.last.as_ref().filter(|&&(last, _)| time_ns < last) {
            let expected = format!("a time that is not before the previous one, {before}");
            return Err(self.error(column, expected, quoted(time)));
        }

        let (column, class) = fields[1];
        let class = self.class(column, class)?;

        let (column, service) = fields[2];
        let service_ns = match (count, micros(service)) {
            (3, None) => {
                let expected = "a service time in microseconds, a number such as 17.25";
                return Err(self.error(column, expected, quoted(service)));
            }
            (_, service_ns) => service_ns,
        };
        self.last = Some((time_ns, time.to_owned()));
        Ok(TraceRecord { time_ns, class, service_ns })
    }

    fn class(&mut self, column: usize, name: &str) -> Result<u32, TraceError> {
        if let Some(&index) = self.indices.get(name) {
            return Ok(index);
        }
        if !mix::is_name(name) {
            return Err(self.error(column, mix::NAME_RULE, quoted(name)));
        }
        if self.classes.len() == MAX_CLASSES {
            let expected = format!("at most {MAX_CLASSES} different classes");
            return Err(self.error(column, expected, format!("one more, {}", quoted(name))));
        }
        let index = self.classes.len() as u32;
        self.classes.push(name.to_owned());
        self.indices.insert(name.to_owned(), index);
        Ok(index)
    }

    fn error(
        &self,
        column: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> TraceError {
        TraceError::Field {
            name: self.name.clone(),
            line: self.line,
            column,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// Microseconds as nanoseconds.
fn micros(text: &str) -> Option<u64> {
    units::scaled_decimal(text, 1_000)
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let record = self.next_record().transpose();
        self.over = !matches!(record, Some(Ok(_)));
        record
    }
}

/// A whole trace in memory; it holds at least one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    classes: Vec<String>,
    records: Vec<TraceRecord>,
}

impl Trace {
    /// Reads a trace file. Blocks in the kernel.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, holds no request, is cut short, or a line is not as the format
    /// wants it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Self::read(name, BufReader::new(file)),
            Err(source) => Err(TraceError::Read { name, source }),
        }
    }

    /// Reads a trace to its end; `name` is what errors call it.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn read(name: impl Into<String>, input: impl BufRead) -> Result<Self, TraceError> {
        let mut reader = TraceReader::new(name, input);
        let records = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
        Ok(Self { classes: reader.classes, records })
    }

    /// The classes, in the order of their indices.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The requests, in the order of their times.
    pub fn records(&self) -> &[TraceRecord] {
        &self.records
    }

    /// The rate in requests a second, from the first request to the last; `None` when they are all
    /// at the same time.
    pub fn rate(&self) -> Option<f64> {
        let gaps = (self.records.len() - 1) as f64;
        match self.span_ns() {
            0 => None,
            span => Some(gaps * 1e9 / span as f64),
        }
    }

    /// The same trace with the first request at 0, for traces whose times are those of the day.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        let first = self.records[0].time_ns;
        for record in &mut self.records {
            record.time_ns -= first;
        }
        self
    }

    /// The same trace with all times multiplied so that its [`rate`](Self::rate) becomes this one,
    /// for sweeps over the load; `None` when it has no rate or `rate` is not above 0.
    #[must_use]
    pub fn at_rate(mut self, rate: f64) -> Option<Self> {
        let factor = self.rate()? / rate;
        if !(factor.is_finite() && factor > 0.0) {
            return None;
        }
        for record in &mut self.records {
            record.time_ns = (record.time_ns as f64 * factor + 0.5) as u64;
        }
        Some(self)
    }

    fn span_ns(&self) -> u64 {
        self.records[self.records.len() - 1].time_ns - self.records[0].time_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, TraceError> {
        Trace::read("test.csv", text.as_bytes())
    }

    #[test]
    fn a_trace_is_read() {
        let trace =
            read("time_us,class,service_us\r\n0,get,1.25\r\n# pause\n\n7.5, scan,650\n7.5,get\n");
        let trace = trace.unwrap();
        assert_eq!(trace.classes(), ["get", "scan"]);
        let record = |time_ns, class, service_ns| TraceRecord { time_ns, class, service_ns };
        assert_eq!(
            trace.records(),
            [record(0, 0, Some(1_250)), record(7_500, 1, Some(650_000)), record(7_500, 0, None)]
        );
        assert_eq!(trace.rate(), Some(2e9 / 7_500.0));
    }

    /// As spreadsheets write them, and people.
    #[test]
    fn byte_order_marks_and_indented_comments_are_no_records() {
        let plain = read("0,get,1\n5,scan,2\n").unwrap();
        for text in [
            "\u{feff}0,get,1\n5,scan,2\n",
            "\u{feff}time_us,class,service_us\r\n0,get,1\r\n5,scan,2\r\n",
            "\u{feff}# by hand\n  # indented, 7, get\n\t#\n0,get,1\n   \n5,scan,2\n",
            "  time_us,class,service_us\n0,get,1\n5,scan,2\n",
        ] {
            assert_eq!(read(text).unwrap(), plain, "{text:?}");
        }
        let error = read("0,get,1\n\u{feff}5,scan,2\n").unwrap_err().to_string();
        assert!(error.contains("line 2, column 1"), "{error}");
    }

    #[test]
    fn errors_name_line_column_and_expectation() {
        for (text, message) in [
            ("", "trace test.csv: expected lines `time_us,class[,service_us]`, found no request"),
            ("# nothing\n", "found no request"),
            ("0,get\n5,get", "line 2: expected a newline"),
            ("0,get\n5", "line 2: expected a newline"),
            (
                "5,get\n4,get\n",
                "line 2, column 1: expected a time that is not before the previous one, 5",
            ),
            ("-5,get\n", "line 1, column 1: expected a time in microseconds"),
            ("1e3,get\n", "line 1, column 1: expected a time in microseconds"),
            (",get\n", "line 1, column 1: expected a time in microseconds"),
            ("99999999999999999999,get\n", "line 1, column 1: expected a time"),
            ("0\n", "line 1, column 2: expected a comma"),
            ("0,\n", "line 1, column 3: expected a class name"),
            ("0,a b\n", "line 1, column 3: expected a class name"),
            ("0,get,-1\n", "line 1, column 7: expected a service time"),
            (
                "0, get, x\n",
                "line 1, column 9: expected a service time in microseconds, a number such as \
                 17.25, found \"x\"",
            ),
            ("0,get,\n", "line 1, column 7: expected a service time"),
            ("0,get,1,2\n", "line 1, column 9: expected the end of the line"),
            ("0,get\n0,get\ntime_us,class\n", "line 3, column 1: expected a time"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
        let error = Trace::read("x", &b"0,g\xffet\n"[..]).unwrap_err().to_string();
        assert!(error.contains("line 1, column 4: expected UTF-8"), "{error}");
        let error = read(&"1".repeat(10_000)).unwrap_err().to_string();
        assert!(error.contains("fewer than 4096 bytes"), "{error}");
        let error = Trace::open("no/such/file").unwrap_err().to_string();
        assert!(error.contains("no/such/file: cannot read"), "{error}");
    }

    #[test]
    fn too_many_classes_are_refused() {
        let text: String = (0..=MAX_CLASSES).map(|i| format!("0,c{i}\n")).collect();
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("line 1025, column 3: expected at most 1024"), "{error}");
    }

    #[test]
    fn the_reader_ends_after_an_error() {
        let mut reader = TraceReader::new("x", &b"0,get\nbad\n1,get\n"[..]);
        assert!(reader.next().unwrap().is_ok());
        assert!(reader.next().unwrap().is_err());
        assert!(reader.next().is_none());
    }

    #[test]
    fn times_can_be_moved_and_stretched() {
        let trace = read("1000,a\n1001,a\n1003,a\n").unwrap();
        let moved = trace.clone().from_zero();
        let times = |t: &Trace| t.records().iter().map(|r| r.time_ns).collect::<Vec<_>>();
        assert_eq!(times(&moved), [0, 1_000, 3_000]);
        let rate = moved.rate().unwrap();
        let faster = moved.clone().at_rate(rate * 2.0).unwrap();
        assert_eq!(times(&faster), [0, 500, 1_500]);
        assert_eq!(moved.at_rate(0.0), None);
        assert_eq!(read("5,a\n").unwrap().rate(), None);
        assert_eq!(read("5,a\n").unwrap().at_rate(1.0), None);
    }
}
