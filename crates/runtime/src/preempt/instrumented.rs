//! Was any of this program's code instrumented? `quaver-as` leaves a note in each object that it
//! has assembled, and linkers gather these in a segment that stays in memory.
//!
//! ```text
//!   u32  length of the owner's name, with its final 0
//!   u32  length of the descriptor
//!   u32  type: the version of what probes and runtime agree on
//!        the name, the descriptor: each padded to a multiple of 4
//! ```

use core::ffi::{c_int, c_void};
use core::slice::from_raw_parts;

/// Who writes the notes.
const OWNER: &[u8] = b"Quaver\0";
/// The version that this runtime knows.
const VERSION: usize = 1;

/// Has the program, or a library loaded by now, probes that this runtime knows?
pub(crate) fn instrumented() -> bool {
    // SAFETY: the callback gets valid module descriptions and makes nothing of its pointer.
    unsafe { libc::dl_iterate_phdr(Some(look), core::ptr::null_mut()) != 0 }
}

/// Ends the walk, with 1, at a module that has probes.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> c_int {
    // SAFETY: `info` is valid during the callback, and dlpi_phdr has dlpi_phnum entries.
    let (base, headers) = unsafe {
        ((*info).dlpi_addr, from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into()))
    };
    let readable = |h: &&libc::Elf64_Phdr| h.p_flags & libc::PF_R != 0;
    let found = headers.iter().filter(|h| h.p_type == libc::PT_NOTE).filter(readable).any(|h| {
        // SAFETY: the loader has mapped the segment, for reading, and it stays during the callback.
        has_note(unsafe { from_raw_parts((base + h.p_vaddr) as *const u8, h.p_filesz as usize) })
    });
    c_int::from(found)
}

/// Is ours among the notes of a segment? Whatever is there, nothing is read beyond it.
fn has_note(mut notes: &[u8]) -> bool {
    while let Some((&header, rest)) = notes.split_first_chunk::<12>() {
        let (words, _) = header.as_chunks::<4>();
        let [name, descriptor, version] = [0, 1, 2].map(|i| u32::from_le_bytes(words[i]) as usize);
        if rest.get(..name) == Some(OWNER) && version == VERSION {
            return true;
        }
        let next = name.next_multiple_of(4) + descriptor.next_multiple_of(4);
        notes = rest.get(next..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], version: u32, descriptor: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [owner.len() as u32, descriptor.len() as u32, version] {
            note.extend(word.to_le_bytes());
        }
        for part in [owner, descriptor] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_note_is_found_among_others() {
        let (gnu, ours) = (note(b"GNU\0", 3, &[7; 21]), note(OWNER, 1, &[0; 48]));
        assert!(has_note(&ours));
        assert!(has_note(&[gnu.clone(), ours.clone(), gnu.clone()].concat()));
        assert!(!has_note(&gnu));
        assert!(!has_note(&note(OWNER, 2, &[])), "a version that this runtime does not know");
        assert!(!has_note(&note(b"Quavers\0", 1, &[])));
    }

    #[test]
    fn a_broken_segment_is_read_no_further_than_it_goes() {
        let ours = [note(b"GNU\0", 3, &[7; 5]), note(OWNER, 1, &[])].concat();
        for n in 0..ours.len() - 1 {
            assert!(!has_note(&ours[..n]), "{n}");
        }
        let mut long = note(b"GNU\0", 3, &[]);
        long[..8].fill(255);
        assert!(!has_note(&[long, note(OWNER, 1, &[])].concat()));
        assert!(!instrumented(), "these tests are not");
    }
}
