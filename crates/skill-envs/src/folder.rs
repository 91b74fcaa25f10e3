//! Skill packages as folders on the disk.
//!
//! [`read_folder`] is where a package comes from, and [`write_folder`] is how an agent gets one. Hidden files and what
//! Python leaves behind are not part of a package, and links are refused, since they may lead anywhere.

use skill_core::carried::CarriedFile;
use skill_core::encoding::{self, EncodingFault};
use skill_core::package::{MAIN_FILE, PackageFault, SkillPackage, check_path, is_reference};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most files of a package.
pub const MAX_FILES: usize = 1_000;
/// The most bytes of one file.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// The most bytes of all files.
pub(crate) const MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;
/// Folders in folders, at most.
const MAX_DEPTH: usize = 16;

/// What is not a part of a package, besides hidden files.
const LEFT_OUT: [&str; 2] = ["__pycache__", "node_modules"];

/// A folder that is not a skill package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no `SKILL.md`.
    #[error("no SKILL.md in {}", path.display())]
    NoMain {
        /// The folder.
        path: PathBuf,
    },
    /// A file that is edited is not a text.
    #[error("{} {fault}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Where it is not.
        fault: EncodingFault,
    },
    /// A link, or something that is neither file nor folder.
    #[error("{} is a link or no plain file; a package holds plain files", path.display())]
    NotPlain {
        /// Where it is.
        path: PathBuf,
    },
    /// A name that no file of a package may have, or a line that no file may hold.
    #[error("{} cannot be a skill package", path.display())]
    Package {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: PackageFault,
    },
    /// More than a limit allows.
    #[error("{} is more than a skill package may hold: {what}", path.display())]
    TooLarge {
        /// The folder or file.
        path: PathBuf,
        /// The limit.
        what: String,
    },
}

/// Reads a skill package: `SKILL.md` and Markdown below `references/` as text, all else as it is.
///
/// # Errors
///
/// A folder that is not a package, see [`FolderError`].
pub fn read_folder(folder: &Path) -> Result<SkillPackage, FolderError> {
    read_folder_without(folder, &[])
}

/// The same without the files and folders of these names that lie directly in the folder.
///
/// # Errors
///
/// As [`read_folder`], but for what is left out.
pub fn read_folder_without(folder: &Path, left_out: &[&str]) -> Result<SkillPackage, FolderError> {
    let mut reader = Reader { root: folder, left_out, files: Vec::new(), n_bytes: 0 };
    reader.walk(folder, 0)?;
    let mut package = SkillPackage::default();
    let mut has_main = false;
    for (path, bytes, is_executable) in reader.files {
        let fault = |source| FolderError::Package { path: folder.to_owned(), source };
        let text = |bytes| {
            encoding::decode(bytes).map_err(|fault| FolderError::NotText { path: folder.join(&path), fault })
        };
        if path.eq_ignore_ascii_case(MAIN_FILE) {
            if has_main {
                let source = PackageFault::Path { path, fault: skill_core::package::PathFault::Main };
                return Err(fault(source));
            }
            package.main = text(bytes)?;
            has_main = true;
            continue;
        }
        check_path(&path)
            .map_err(|source| fault(PackageFault::Path { path: path.clone(), fault: source }))?;
        if is_reference(&path) {
            let reference = text(bytes)?;
            package.references.insert(path, reference);
        } else {
            package.carry(path, CarriedFile::new(bytes, is_executable));
        }
    }
    if !has_main {
        return Err(FolderError::NoMain { path: folder.to_owned() });
    }
    package.document().map_err(|source| FolderError::Package { path: folder.to_owned(), source })?;
    Ok(package)
}

/// The folder of the package that a file at this path would be a part of, whether it is there or not; hidden files and
/// folders are no part of a package.
pub fn package_around(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let is_part = |folder: &&Path| {
        let below = path.strip_prefix(folder).unwrap_or(&path);
        let is_left_out = |part: std::path::Component<'_>| {
            let name = part.as_os_str().to_string_lossy();
            name.starts_with('.') || LEFT_OUT.contains(&name.as_ref())
        };
        folder.join(MAIN_FILE).is_file() && !below.components().any(is_left_out)
    };
    path.ancestors().find(is_part).map(Path::to_owned)
}

/// True if `SKILL.md` of a package begins with a byte-order mark, which [`read_folder`] passes over and agents do not.
pub fn has_byte_order_mark(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_main = |entry: &fs::DirEntry| entry.file_name().eq_ignore_ascii_case(MAIN_FILE);
    entries.filter(is_main).any(|entry| {
        let mut head = [0; 3];
        let n_read = fs::File::open(entry.path()).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
        encoding::has_mark(head.get(..n_read).unwrap_or_default())
    })
}

/// Writes a package into a folder, which is made if it is not there; what else is in it stays.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_folder(folder: &Path, package: &SkillPackage) -> io::Result<()> {
    for (path, bytes, is_executable) in package.files() {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, bytes)?;
        if is_executable {
            make_executable(&path)?;
        }
    }
    Ok(())
}

struct Reader<'a> {
    root: &'a Path,
    /// Names in the root that are passed over.
    left_out: &'a [&'a str],
    /// Paths below the root with `/` between names, bytes, and whether the file can be started.
    files: Vec<(String, Vec<u8>, bool)>,
    n_bytes: u64,
}

impl Reader<'_> {
    fn walk(&mut self, folder: &Path, depth: usize) -> Result<(), FolderError> {
        let cannot = |path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::Read { path, source }
        };
        let too_large = |path: &Path, what: String| FolderError::TooLarge { path: path.to_owned(), what };
        if depth > MAX_DEPTH {
            return Err(too_large(folder, format!("at most {MAX_DEPTH} folders lie in each other")));
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(cannot(folder))? {
            paths.push(entry.map_err(cannot(folder))?.path());
        }
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_passed_over = depth == 0 && self.left_out.contains(&name.as_ref());
            if name.starts_with('.') || LEFT_OUT.contains(&name.as_ref()) || is_passed_over {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).map_err(cannot(&path))?;
            if metadata.is_dir() {
                self.walk(&path, depth + 1)?;
                continue;
            }
            if !metadata.is_file() {
                return Err(FolderError::NotPlain { path });
            }
            self.n_bytes = self.n_bytes.saturating_add(metadata.len());
            if metadata.len() > MAX_FILE_BYTES {
                return Err(too_large(&path, format!("at most {MAX_FILE_BYTES} bytes in a file")));
            }
            if self.n_bytes > MAX_TOTAL_BYTES {
                return Err(too_large(self.root, format!("at most {MAX_TOTAL_BYTES} bytes")));
            }
            if self.files.len() >= MAX_FILES {
                return Err(too_large(self.root, format!("at most {MAX_FILES} files")));
            }
            let bytes = fs::read(&path).map_err(cannot(&path))?;
            let below = path.strip_prefix(self.root).unwrap_or(&path);
            let names: Vec<_> = below.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            self.files.push((names.join("/"), bytes, may_be_started(&metadata)));
        }
        Ok(())
    }
}

/// Whether a file is there and can be started.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| may_be_started(&metadata))
}

#[cfg(unix)]
fn may_be_started(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn may_be_started(_metadata: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> io::Result<()> {
    Ok(())
}
