//! Archives, with one member replaced: rlibs and static libraries.
//!
//! They are written as rustc itself writes them. GNU ar would read the members of static libraries
//! through clang's plugin where that is installed, and lose the symbols of std.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use ar_archive_writer::{
    ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember, write_archive_to_stream,
};
use object::read::archive::ArchiveFile;

/// A member's name and content.
pub type Member = (String, Vec<u8>);

/// The members, in their order.
///
/// # Errors
///
/// It is no archive.
pub fn read(archive: &Path) -> anyhow::Result<Vec<Member>> {
    let cannot = || format!("cannot read {}", archive.display());
    let data = fs::read(archive).with_context(cannot)?;
    let mut members = Vec::new();
    for member in ArchiveFile::parse(&*data).with_context(cannot)?.members() {
        let member = member.with_context(cannot)?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        members.push((name, member.data(&*data).with_context(cannot)?.to_vec()));
    }
    Ok(members)
}

/// Writes an archive of `members`, whole or not at all.
///
/// # Errors
///
/// It cannot be written.
pub fn write(archive: &Path, members: &[Member]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", archive.display());
    let member = |(name, data): &Member| NewArchiveMember {
        buf: Box::new(data.clone()),
        object_reader: &DEFAULT_OBJECT_READER,
        member_name: name.clone(),
        mtime: 0,
        uid: 0,
        gid: 0,
        perms: 0o644,
    };
    let members: Vec<_> = members.iter().map(member).collect();
    let folder = archive.parent().unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    let mut writer = BufWriter::new(file);
    write_archive_to_stream(&mut writer, &members, ArchiveKind::Gnu, false, None)
        .with_context(cannot)?;
    writer.flush().with_context(cannot)?;
    let file = writer.into_inner().map_err(|error| error.into_error()).with_context(cannot)?;
    let mode = fs::metadata(archive).with_context(cannot)?.permissions();
    file.as_file().set_permissions(mode).with_context(cannot)?;
    file.persist(archive).with_context(cannot)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("lib.rlib");
        fs::write(&archive, "").unwrap();
        let long = "a-name-of-more-than-fifteen-letters.rcgu.o".to_owned();
        let members = [("lib.rmeta".to_owned(), vec![1, 2, 3]), (long, b"odd".to_vec())];
        write(&archive, &members).unwrap();
        assert_eq!(read(&archive).unwrap(), members);
        fs::write(&archive, "no archive").unwrap();
        assert!(read(&archive).unwrap_err().to_string().contains("lib.rlib"));
    }
}
