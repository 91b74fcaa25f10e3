//! Files that data name: only those below the directory of the data are read.
//!
//! Data sets come from strangers, and what an item names is sent to a model: neither an absolute path, nor `..`, nor a
//! link may lead elsewhere.

use std::path::{Path, PathBuf};

/// The path of a file or folder that data name, below `root`, which may itself be a link.
///
/// # Errors
///
/// What is not there, and what lies elsewhere once links are resolved; the text is the end of a sentence that begins with
/// the field.
pub(crate) fn within(root: &Path, named: &Path) -> Result<PathBuf, String> {
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let path = root.join(named);
    let resolved = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("names {}, which cannot be read: {error}", path.display()))
    };
    match resolved(&path)?.starts_with(resolved(root)?) {
        true => Ok(path),
        false => Err(format!(
            "names {}, which lies outside of {}: data may name files below its own directory only",
            named.display(),
            root.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::within;
    use std::fs;
    use std::path::Path;

    #[test]
    fn only_what_lies_below_the_root_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        fs::create_dir_all(root.join("images")).unwrap();
        fs::create_dir_all(dir.path().join("data-2")).unwrap();
        for file in ["data/images/a.png", "outside.png", "data-2/b.png"] {
            fs::write(dir.path().join(file), "x").unwrap();
        }
        let absolute = dir.path().join("outside.png");
        let mut cases = vec![
            ("images/a.png".to_owned(), true),
            ("images/../images/a.png".to_owned(), true),
            (root.join("images/a.png").display().to_string(), true),
            ("../outside.png".to_owned(), false),
            ("../data-2/b.png".to_owned(), false),
            ("images/none.png".to_owned(), false),
            (absolute.display().to_string(), false),
        ];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&absolute, root.join("link.png")).unwrap();
            std::os::unix::fs::symlink(dir.path(), root.join("folder")).unwrap();
            std::os::unix::fs::symlink("images/a.png", root.join("same.png")).unwrap();
            cases.extend([
                ("link.png".to_owned(), false),
                ("folder/outside.png".to_owned(), false),
                ("same.png".to_owned(), true),
            ]);
            std::os::unix::fs::symlink(&root, dir.path().join("linked-root")).unwrap();
            assert!(within(&dir.path().join("linked-root"), Path::new("images/a.png")).is_ok());
        }
        for (named, expect) in cases {
            assert_eq!(within(&root, Path::new(&named)).is_ok(), expect, "{named}");
        }
    }
}
