//! The object with probes in place of the compiler's: made once for a crate, put wherever it goes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use object::{Object, ObjectSymbol};
use quaver_probes::driver;
use quaver_probes::report::LeftAlone;
use quaver_probes::rustc::for_gnu;
use quaver_probes::settings::{Settings, Switch};

use crate::archive;

/// The end of the names of rustc's objects.
const OBJECT: &str = ".rcgu.o";

/// A folder for one call of rustc, and what is in it.
#[derive(Clone, Debug)]
pub struct Workshop {
    folder: PathBuf,
    name: String,
}

impl Workshop {
    /// The workshop of crate `name` in `folder`.
    pub fn new(folder: &Path, name: &str) -> Workshop {
        Workshop { folder: folder.to_owned(), name: name.to_owned() }
    }

    /// Where rustc writes its text.
    pub fn text(&self) -> PathBuf {
        self.folder.join(format!("{}.s", self.name))
    }

    /// Where it is said why the text was left alone.
    fn left(&self) -> PathBuf {
        self.folder.join("left-alone")
    }

    /// The object with probes; none for a crate without code. It is made by whoever asks first.
    ///
    /// # Errors
    ///
    /// The text cannot be assembled.
    pub fn object(&self) -> anyhow::Result<Option<PathBuf>> {
        let output = self.folder.join("probed.o");
        if output.exists() {
            return Ok(Some(output));
        }
        let input = self.text();
        if !input.exists() {
            return Ok(None);
        }
        let settings = settings()?;
        let cannot = || format!("cannot read {}", input.display());
        let text =
            String::from_utf8(fs::read(&input).with_context(cannot)?).with_context(cannot)?;
        if settings.assembler.as_ref().is_none_or(|program| !is_clang(program)) {
            let text = for_gnu(&text);
            fs::write(&input, text.as_bytes()).with_context(cannot)?;
        }
        drop(text);
        // rustc has said already what there was to say.
        let mut arguments: Vec<OsString> = ["--64", "--no-warn", "-o"].map(Into::into).into();
        arguments.extend([output.clone().into(), input.clone().into()]);
        // Its errors contain their causes.
        let (code, report) = driver::assemble(&settings, "as", arguments)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        if code != 0 {
            bail!("the assembler refuses what rustc wrote; QUAVER_PROBES_ASSEMBLER names another");
        }
        if let Some(LeftAlone { line, why, .. }) = report.left_file {
            fs::write(self.left(), format!("line {line} of its assembly: {why}"))?;
        }
        Ok(Some(output))
    }

    /// Why the text was left alone, if it was.
    pub fn left_alone(&self) -> Option<String> {
        fs::read_to_string(self.left()).ok()
    }

    /// Replaces rustc's object in an archive.
    ///
    /// # Errors
    ///
    /// There is none to replace, or the archive cannot be written.
    pub fn replace_in(&self, archive: &Path) -> anyhow::Result<()> {
        let Some(object) = self.object()? else { return Ok(()) };
        let mut members = archive::read(archive)?;
        // A static library holds the objects of other crates too.
        let [dash, dot] = ["-", "."].map(|end| format!("{}{end}", self.name));
        let ours = |name: &str| name.starts_with(&dash) || name.starts_with(&dot);
        let mut candidates = Vec::new();
        for (at, (name, data)) in members.iter().enumerate() {
            if name.ends_with(OBJECT) && ours(name) {
                candidates.push((at, data.clone()));
            }
        }
        let Some(found) = same(&object, &candidates)? else {
            bail!("cannot find the object of crate {} in {}", self.name, archive.display());
        };
        members[candidates[found].0].1 = fs::read(&object)?;
        archive::write(archive, &members)
    }

    /// Which of the files is rustc's object of the crate.
    ///
    /// # Errors
    ///
    /// None is, or they cannot be read.
    pub fn find(&self, object: &Path, files: &[PathBuf]) -> anyhow::Result<usize> {
        let mut candidates = Vec::new();
        for (number, file) in files.iter().enumerate() {
            if file.to_string_lossy().ends_with(OBJECT) {
                let data =
                    fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                candidates.push((number, data));
            }
        }
        match same(object, &candidates)? {
            Some(at) => Ok(candidates[at].0),
            None => bail!("cannot find the object of crate {} among those to link", self.name),
        }
    }
}

/// Whether probes are inserted at all, and how.
///
/// # Errors
///
/// A variable `QUAVER_PROBES...` has a value that it cannot have.
pub fn settings() -> anyhow::Result<Settings> {
    use clap::Parser;
    Ok(Settings::try_parse_from(["quaver-as"])?)
}

/// Whether objects get notes.
///
/// # Errors
///
/// As [`settings`].
pub fn notes() -> anyhow::Result<bool> {
    let settings = settings()?;
    Ok(settings.probes == Switch::On && !settings.reassemble)
}

fn is_clang(program: &Path) -> bool {
    quaver_probes::Assembler::new(program).is_clang()
}

/// Which of `candidates` defines the same symbols for others as `object`. An allocator's shim and
/// other small objects stand beside the crate's own.
fn same<T>(object: &Path, candidates: &[(T, Vec<u8>)]) -> anyhow::Result<Option<usize>> {
    if candidates.len() == 1 {
        return Ok(Some(0));
    }
    let wanted = defined(&fs::read(object)?)?;
    for (at, (_, data)) in candidates.iter().enumerate() {
        if defined(data)? == wanted {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The names that an object defines for others.
fn defined(data: &[u8]) -> anyhow::Result<BTreeSet<Vec<u8>>> {
    let file = object::File::parse(data).context("cannot read an object of rustc")?;
    let names = file
        .symbols()
        .filter(|symbol| symbol.is_global() && symbol.is_definition())
        .map(|symbol| symbol.name_bytes().map(<[u8]>::to_vec));
    Ok(names.collect::<Result<_, _>>()?)
}
