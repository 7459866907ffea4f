//! The note in which an object says what was done to it.
//!
//! Each object that was assembled with probes has one in its section [`SECTION`], also where no
//! function got a probe. Linkers put the notes of all objects one after the other into a segment
//! `PT_NOTE`: their sum describes the program, and a runtime sees that probes are there. Linkers
//! keep notes whatever they drop: a program whose unused functions were removed has less than its
//! notes say.
//!
//! ```text
//!   4 bytes   7: length of the name
//!   4         length of the descriptor
//!   4         1: the version of [`crate::abi`]
//!   8         "Quaver", filled with zeros
//!   4 each    the counts, in the order of [`Note`], little-endian
//! ```
//!
//! Later versions may append counts: readers take those that they know from a longer descriptor.

use std::fmt::Write;
use std::ops::AddAssign;

use object::elf::{FileHeader64, PT_NOTE, SHT_NOTE};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, SectionKind};
use serde::Serialize;

use crate::report::Report;

/// The section of an object file.
pub const SECTION: &str = ".note.quaver.probes";
/// The name in the note.
pub const OWNER: &str = "Quaver";
/// The type of the note.
pub const TYPE: u32 = 1;
/// Counts in the descriptor.
const COUNTS: usize = 12;
/// The header and the name.
const HEAD: usize = 20;

/// What notes count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Functions found.
    pub functions: u64,
    /// Their instructions, as the compiler made them.
    pub instructions: u64,
    /// Their loops.
    pub loops: u64,
    /// Probes inserted, those at entries included.
    pub probes: u64,
    /// Probes at entries of recursive functions.
    pub entry_probes: u64,
    /// Loops that were replicated.
    pub replicated: u64,
    /// Copies that were added for them.
    pub copies: u64,
    /// Loops without a probe because they end soon.
    pub bounded: u64,
    /// Functions that were left alone.
    pub left_alone: u64,
    /// Cycles in which no probe can stand.
    pub unprobed: u64,
    /// Instructions added by probes, their stubs and copies.
    pub added_instructions: u64,
    /// Bytes of code in the object, with what was added; 0: not measured.
    pub code_bytes: u64,
}

impl Note {
    fn fields(&mut self) -> [&mut u64; COUNTS] {
        [
            &mut self.functions,
            &mut self.instructions,
            &mut self.loops,
            &mut self.probes,
            &mut self.entry_probes,
            &mut self.replicated,
            &mut self.copies,
            &mut self.bounded,
            &mut self.left_alone,
            &mut self.unprobed,
            &mut self.added_instructions,
            &mut self.code_bytes,
        ]
    }

    /// The counts of a text. The size is not known before it is assembled.
    pub fn new(report: &Report) -> Note {
        Note {
            functions: report.functions as u64,
            instructions: report.instructions as u64,
            loops: report.loops as u64,
            probes: report.probes as u64,
            entry_probes: report.entry_probes as u64,
            replicated: report.replicated as u64,
            copies: report.copies as u64,
            bounded: report.bounded as u64,
            left_alone: report.left.len() as u64,
            unprobed: report.unprobed.len() as u64,
            added_instructions: report.added_instructions as u64,
            code_bytes: 0,
        }
    }

    /// The note as assembly text, to stand at the end of a text.
    pub fn text(mut self) -> String {
        let counts = self.fields().map(|count| limited(*count).to_string()).join(", ");
        let mut text = String::new();
        let _ = writeln!(text, "\t.section\t{SECTION},\"a\",@note\n\t.p2align\t2");
        let _ = writeln!(text, "\t.long\t{}, {}, {TYPE}", OWNER.len() + 1, 4 * COUNTS);
        let _ = writeln!(text, "\t.ascii\t\"{OWNER}\\0\\0\"\n\t.long\t{counts}");
        text
    }

    /// The counts of a descriptor; none where it is too short.
    fn parse(descriptor: &[u8]) -> Option<Note> {
        let mut note = Note::default();
        let (words, _) = descriptor.as_chunks::<4>();
        if words.len() < COUNTS {
            return None;
        }
        for (field, &word) in note.fields().into_iter().zip(words) {
            *field = u32::from_le_bytes(word).into();
        }
        Some(note)
    }
}

impl AddAssign for Note {
    fn add_assign(&mut self, mut other: Note) {
        for (sum, count) in self.fields().into_iter().zip(other.fields()) {
            *sum += *count;
        }
    }
}

fn limited(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Why a file has no notes to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is another kind of file.
    #[error("it is not a 64-bit ELF file")]
    NotElf,
    /// Its headers contradict each other.
    #[error("its ELF headers are damaged")]
    Damaged,
}

/// The notes in an object file, program or library; none where nothing was instrumented.
///
/// # Errors
///
/// [`Unreadable`].
pub fn read(file: &[u8]) -> Result<Vec<Note>, Unreadable> {
    let damaged = |_| Unreadable::Damaged;
    let elf = FileHeader64::<LittleEndian>::parse(file).map_err(|_| Unreadable::NotElf)?;
    let endian = elf.endian().map_err(|_| Unreadable::NotElf)?;
    let mut notes = Vec::new();
    let segments = elf.program_headers(endian, file).map_err(damaged)?;
    for segment in segments.iter().filter(|segment| segment.p_type(endian) == PT_NOTE) {
        if let Some(found) = segment.notes(endian, file).map_err(damaged)? {
            ours(endian, found, &mut notes)?;
        }
    }
    if segments.is_empty() {
        let sections = elf.sections(endian, file).map_err(damaged)?;
        for section in sections.iter().filter(|section| section.sh_type(endian) == SHT_NOTE) {
            if let Some(found) = section.notes(endian, file).map_err(damaged)? {
                ours(endian, found, &mut notes)?;
            }
        }
    }
    Ok(notes)
}

fn ours(
    endian: LittleEndian,
    mut found: NoteIterator<'_, FileHeader64<LittleEndian>>,
    notes: &mut Vec<Note>,
) -> Result<(), Unreadable> {
    while let Some(note) = found.next().map_err(|_| Unreadable::Damaged)? {
        if note.name() == OWNER.as_bytes() && note.n_type(endian).0 == TYPE {
            notes.extend(Note::parse(note.desc()));
        }
    }
    Ok(())
}

/// Bytes in sections of instructions.
pub fn code_bytes(file: &object::File<'_>) -> u64 {
    let code = |section: &object::Section<'_, '_>| section.kind() == SectionKind::Text;
    file.sections().filter(code).map(|section| section.size()).sum()
}

/// Where in an object file that was just assembled its note lacks the size of its code, and what
/// belongs there. None for a file without a note.
pub fn measure(object: &[u8]) -> Option<(u64, [u8; 4])> {
    let file = object::File::parse(object).ok()?;
    let (start, length) = file.section_by_name(SECTION)?.file_range()?;
    let size = limited(code_bytes(&file)).to_le_bytes();
    (length == (HEAD + 4 * COUNTS) as u64).then_some((start + length - 4, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_may_be_longer_but_not_shorter() {
        let mut bytes = Vec::new();
        for count in 1..=COUNTS as u32 + 3 {
            bytes.extend(count.to_le_bytes());
        }
        let note = Note::parse(&bytes).unwrap();
        assert_eq!((note.functions, note.probes, note.code_bytes), (1, 4, 12));
        assert_eq!(Note::parse(&bytes[..4 * COUNTS]), Some(note));
        assert_eq!(Note::parse(&bytes[..4 * COUNTS - 4]), None);
        let mut sum = note;
        sum += note;
        assert_eq!((sum.functions, sum.code_bytes), (2, 24));
    }

    #[test]
    fn other_files_are_named() {
        assert_eq!(read(b"hello"), Err(Unreadable::NotElf));
        assert_eq!(read(b""), Err(Unreadable::NotElf));
    }
}
