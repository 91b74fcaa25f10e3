//! The files below a directory, to be compared or looked through.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

/// Every file below a directory with what is in it, by its path from there.
pub(crate) fn all_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut files, mut open) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_string_lossy().replace('\\', "/");
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}
