//! Skill packages on the disk.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::files::{files, write};
use skill_core::carried::CarriedFile;
use skill_core::package::is_reference;
use skill_envs::folder::{FolderError, read_folder, write_folder};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn sample() -> TempDir {
    let dir = files::<&[u8]>(&[
        ("SKILL.md", b"---\nname: x\ndescription: y\n---\n# X\n"),
        ("references/a.md", b"# A\n"),
        ("references/deep/b.MD", b"# B"),
        ("references/table.csv", b"1,2\n"),
        ("scripts/run.sh", b"#!/bin/sh\n"),
        ("assets/x.png", &[0xff, 0x00, 0xfe]),
        (".git/config", b"secret"),
        ("scripts/__pycache__/run.pyc", b"x"),
    ]);
    make_executable(&dir.path().join("scripts/run.sh"));
    dir
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) {}

#[test]
fn a_folder_comes_back_as_it_was() {
    let dir = sample();
    let package = read_folder(dir.path()).unwrap();
    assert_eq!(package.references.keys().collect::<Vec<_>>(), ["references/a.md", "references/deep/b.MD"]);
    assert_eq!(
        package.carried.keys().collect::<Vec<_>>(),
        ["assets/x.png", "references/table.csv", "scripts/run.sh"]
    );
    assert_eq!(package.carried["scripts/run.sh"].is_executable, cfg!(unix));
    let other = tempfile::tempdir().unwrap();
    write_folder(other.path(), &package).unwrap();
    assert_eq!(read_folder(other.path()).unwrap(), package);
    assert!(!other.path().join(".git").exists());
    // It goes through the text of a skill too.
    let skill = package.document().unwrap();
    assert_eq!(skill_core::SkillPackage::of(&skill), package);
}

#[test]
fn what_is_no_package_is_refused() {
    #[track_caller]
    fn check(change: impl FnOnce(&Path), expect: &str) {
        let dir = sample();
        change(dir.path());
        let error = read_folder(dir.path()).unwrap_err();
        let text = with_causes(&error).replace(&dir.path().display().to_string(), "DIR");
        assert!(text.contains(expect), "{text}");
    }
    check(|dir| fs::remove_file(dir.join("SKILL.md")).unwrap(), "no SKILL.md in DIR");
    check(|dir| write(dir, "references/a.md", &[0xff]), "DIR/references/a.md is not UTF-8");
    check(
        |dir| write(dir, "references/a.md", b"# A\n<!-- SKILL_FILE: references/z.md -->\n"),
        "DIR cannot be a skill package: the file \"references/a.md\" has a line that begins with",
    );
    check(|dir| write(dir, "assets/a:b", b"x"), "has a control character, a backslash, a colon");
    #[cfg(unix)]
    check(
        |dir| std::os::unix::fs::symlink("/etc/passwd", dir.join("assets/passwd")).unwrap(),
        "DIR/assets/passwd is a link or no plain file",
    );
    let error = read_folder(Path::new("/there/is/nothing")).unwrap_err();
    assert!(matches!(error, FolderError::Read { .. }), "{error}");
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn references_are_markdown_below_their_folder() {
    for (path, expect) in
        [("references/a.md", true), ("references/a.txt", false), ("a.md", false), ("docs/a.md", false)]
    {
        assert_eq!(is_reference(path), expect, "{path}");
    }
    assert!(!CarriedFile::new(*b"x", false).is_executable());
}
