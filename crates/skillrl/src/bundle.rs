//! Bundles: a finished run with the files that it was made from, as one archive that another machine can check and replay.
//!
//! A bundle is a tar file, compressed with gzip, of one directory: the run and what its configuration names lie in it as
//! they lie to each other here, so that the run finds its data again; [`MANIFEST`] says where the run is.
//! It holds the journal, so everything that was sent to models is in it.
//!
//! # Invariants
//!
//! - Nothing is unpacked outside of its directory, and neither links nor devices are. Held by
//!   `an_archive_that_leads_elsewhere_is_refused`.

use crate::Error;
use crate::error::BundleError;
use crate::replay::beside_config;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use skill_llm::regular_file;
use skill_pipeline::PipelineError;
use skill_pipeline::run_dir::{RunStatus, hash_of_file, is_held, run_status};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Builder, EntryType, Header};

/// The file that says what a bundle holds.
pub const MANIFEST: &str = "skillrl-bundle.json";
/// The file of an unpacked bundle with the hash of its archive.
const ARCHIVE_FILE: &str = ".archive.sha256";
/// The version of this form of bundles.
const FORMAT: u32 = 1;
/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The most bytes that are unpacked.
const MAX_BYTES: u64 = 64 << 30;
/// The most files of a bundle.
const MAX_FILES: usize = 1_000_000;
/// Files of the process that worked on a run.
const OF_PROCESS: [&str; 3] = ["run.lock", "live.json", "journal.sqlite-shm"];

/// What is bundled.
#[derive(Debug, Clone)]
pub struct BundleOptions {
    /// The run.
    pub run: PathBuf,
    /// The archive.
    pub to: PathBuf,
    /// Whether the files that the configuration names, such as the data, go in.
    pub has_data: bool,
    /// Whether an archive that exists is replaced.
    pub force: bool,
}

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bundled {
    /// The archive.
    pub path: PathBuf,
    /// Its files.
    pub n_files: usize,
    /// Its size.
    pub bytes: u64,
    /// The keys whose files are left out, with these files.
    pub left_out: Vec<(String, PathBuf)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    version: String,
    /// The run, from the directory of the bundle.
    run: PathBuf,
}

/// Writes a bundle, whole or not at all.
///
/// # Errors
///
/// A directory without a run, a run that a process works on, and a file that cannot be read or written.
pub fn write(options: &BundleOptions) -> Result<Bundled, Error> {
    let BundleOptions { run, to, has_data, force } = options;
    if run_status(run) == RunStatus::Absent {
        return Err(PipelineError::NoRun { path: run.clone() }.into());
    }
    if is_held(run) {
        return Err(BundleError::InProgress { run: run.clone() }.into());
    }
    if to.exists() && !force {
        return Err(BundleError::Exists { path: to.clone() }.into());
    }
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| BundleError::Read { path, source }
    };
    let run = run.canonicalize().map_err(read(run))?;
    let found = beside_config(&run)?;
    let base = found.base.unwrap_or_else(|| run.clone());
    let (mut roots, mut left_out) = (vec![run.clone()], found.elsewhere);
    for (key, file) in found.files {
        match base.join(&file).canonicalize() {
            Ok(path) if *has_data => roots.push(path),
            Ok(_) | Err(_) => left_out.push((key, file)),
        }
    }
    // With the place of the configuration, from which its paths lead.
    let common = roots.iter().fold(base, |common, path| common_of(&common, path));
    let mut files = BTreeMap::new();
    for root in &roots {
        collect(root, &common, &mut files)?;
    }
    let page = run.join(crate::report::REPORT_FILE);
    if !page.is_file() {
        // A run is as good without its page.
        if let Ok(path) = crate::report::write(&run, None) {
            collect(&path, &common, &mut files)?;
        }
    }
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: run.strip_prefix(&common).expect("what paths have in common is above them").to_owned(),
    };
    let n_files = files.len();
    let failed = |source| BundleError::Write { path: to.clone(), source };
    let part = PathBuf::from(format!("{}.part", to.display()));
    let written = archive(&part, &stem(to), &manifest, &files).and_then(|()| std::fs::rename(&part, to));
    if let Err(source) = written {
        // What is left of it is of no use.
        let _ = std::fs::remove_file(&part);
        return Err(failed(source).into());
    }
    let bytes = to.metadata().map_err(failed)?.len();
    Ok(Bundled { path: to.clone(), n_files, bytes, left_out })
}

fn archive(
    path: &Path,
    stem: &str,
    manifest: &Manifest,
    files: &BTreeMap<PathBuf, PathBuf>,
) -> io::Result<()> {
    let mut archive =
        Builder::new(GzEncoder::new(BufWriter::new(File::create(path)?), Compression::default()));
    let root = Path::new(stem);
    let text = serde_json::to_vec_pretty(manifest)?;
    append(&mut archive, &root.join(MANIFEST), text.len() as u64, text.as_slice())?;
    for (name, file) in files {
        let file = regular_file::open(file)?;
        let n_bytes = file.metadata()?.len();
        // A file that grows meanwhile ends where it ended.
        append(&mut archive, &root.join(name), n_bytes, file.take(n_bytes))?;
    }
    let mut file = archive.into_inner()?.finish()?;
    file.flush()?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Adds a file; who owns it and when it was changed stay here.
fn append<W: io::Write>(
    archive: &mut Builder<W>,
    name: &Path,
    n_bytes: u64,
    content: impl io::Read,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(n_bytes);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content)
}

/// Adds the files below a path, by their paths from `common`. Links are not followed.
fn collect(path: &Path, common: &Path, files: &mut BTreeMap<PathBuf, PathBuf>) -> Result<(), BundleError> {
    let failed = |source| BundleError::Read { path: path.to_owned(), source };
    let kind = path.symlink_metadata().map_err(failed)?;
    if kind.is_dir() {
        for entry in std::fs::read_dir(path).map_err(failed)? {
            collect(&entry.map_err(failed)?.path(), common, files)?;
        }
    } else if kind.is_file() {
        let is_of_process = path.file_name().is_some_and(|name| OF_PROCESS.iter().any(|of| name == *of));
        if !is_of_process {
            let name = path.strip_prefix(common).expect("what paths have in common is above them");
            files.insert(name.to_owned(), path.to_owned());
        }
    }
    Ok(())
}

fn common_of(first: &Path, second: &Path) -> PathBuf {
    let pairs = first.components().zip(second.components());
    pairs.take_while(|(one, other)| one == other).map(|(part, _)| part).collect()
}

/// The name of a bundle without its ending.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let endings = [".tar.gz", ".tgz"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    if stem.is_empty() || stem == name { format!("{name}-bundle") } else { stem.to_owned() }
}

/// True for a file that is compressed as bundles are.
pub fn is_bundle(path: &Path) -> bool {
    let mut start = [0; 2];
    path.is_file()
        && regular_file::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == GZIP
}

/// Unpacks a bundle into a directory beside it, and returns the directory of its run; what was unpacked before is taken as
/// it is.
///
/// # Errors
///
/// A file that is no bundle, or one of a later version; another directory at that place; and one that cannot be written.
pub fn unpack(bundle: &Path) -> Result<PathBuf, Error> {
    let parent = bundle.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    unpack_in(bundle, parent)
}

/// As [`unpack`], into a directory of its name in another one.
///
/// # Errors
///
/// As [`unpack`].
pub fn unpack_in(bundle: &Path, parent: &Path) -> Result<PathBuf, Error> {
    let read = |source| BundleError::Read { path: bundle.to_owned(), source };
    let into = parent.join(stem(bundle));
    let hash = hash_of_file(bundle).map_err(read)?.hex();
    if into.exists() {
        let unpacked = regular_file::read_to_string(&into.join(ARCHIVE_FILE)).unwrap_or_default();
        if unpacked.trim() != hash {
            return Err(BundleError::NotABundle { path: bundle.to_owned(), directory: into }.into());
        }
        return Ok(run_of(&into, bundle)?);
    }
    // It has its name when it is whole.
    let part = parent.join(format!(".{}.part", stem(bundle)));
    let unpacked = unpack_into(bundle, &part);
    let outcome =
        unpacked.and_then(|()| std::fs::write(part.join(ARCHIVE_FILE), format!("{hash}\n"))).map_err(read);
    let run = outcome.and_then(|()| run_of(&part, bundle));
    let placed = run.and_then(|_| {
        std::fs::rename(&part, &into).map_err(|source| BundleError::Write { path: into.clone(), source })
    });
    if let Err(error) = placed {
        // It is made again from the bundle.
        let _ = std::fs::remove_dir_all(&part);
        return Err(error.into());
    }
    Ok(run_of(&into, bundle)?)
}

fn unpack_into(bundle: &Path, into: &Path) -> io::Result<()> {
    if into.exists() {
        std::fs::remove_dir_all(into)?;
    }
    let unpacked = GzDecoder::new(BufReader::new(regular_file::open(bundle)?)).take(MAX_BYTES);
    for (n_files, entry) in Archive::new(unpacked).entries()?.enumerate() {
        let mut entry = entry?;
        let refused = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        if n_files > MAX_FILES {
            return refused("it holds too many files");
        }
        if entry.header().entry_type() != EntryType::Regular {
            return refused("it holds something that is no file");
        }
        let name = entry.path()?.into_owned();
        if !name.components().all(|part| matches!(part, Component::Normal(_))) {
            return refused("a file of it leads out of its directory");
        }
        // The first part is the name that the bundle had.
        let path: PathBuf = into.join(name.components().skip(1).collect::<PathBuf>());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        io::copy(&mut entry, &mut File::create_new(&path)?)?;
    }
    Ok(())
}

/// The run in the directory of a bundle.
fn run_of(directory: &Path, bundle: &Path) -> Result<PathBuf, BundleError> {
    let text = regular_file::read(&directory.join(MANIFEST));
    let manifest = text.ok().and_then(|text| serde_json::from_slice::<Manifest>(&text).ok());
    match manifest {
        Some(manifest) if manifest.format > FORMAT => {
            Err(BundleError::Later { path: bundle.to_owned(), version: manifest.version })
        }
        Some(manifest) if manifest.run.components().all(|part| matches!(part, Component::Normal(_))) => {
            Ok(directory.join(manifest.run))
        }
        Some(_) | None => {
            Err(BundleError::NotABundle { path: bundle.to_owned(), directory: directory.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(dir: &Path, header: impl Fn(&mut Header)) -> PathBuf {
        let path = dir.join("x.tar.gz");
        let mut archive = Builder::new(GzEncoder::new(File::create(&path).unwrap(), Compression::fast()));
        let mut head = Header::new_gnu();
        head.set_size(1);
        head.set_mode(0o644);
        header(&mut head);
        head.set_cksum();
        archive.append(&head, b"x".as_slice()).unwrap();
        archive.into_inner().unwrap().finish().unwrap();
        path
    }

    fn named(head: &mut Header, name: &str) {
        head.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    }

    #[test]
    fn an_archive_that_leads_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["x/../../out", "/out", "../out"] {
            let path = bundle(dir.path(), |head| named(head, name));
            assert!(unpack(&path).is_err(), "{name}");
        }
        let link = bundle(dir.path(), |head| {
            head.set_entry_type(EntryType::Symlink);
            named(head, "x/link");
        });
        assert!(unpack(&link).is_err());
        let left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [dir.path().join("x.tar.gz")], "nothing is left of them");
    }

    #[test]
    fn a_bundle_has_a_directory_of_its_own() {
        for (name, expect) in
            [("a.tar.gz", "a"), ("b/a.tgz", "a"), ("a", "a-bundle"), (".tgz", ".tgz-bundle")]
        {
            assert_eq!(stem(Path::new(name)), expect);
        }
    }
}
