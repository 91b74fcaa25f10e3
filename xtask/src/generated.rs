//! Files that are made from others: copies, so that every crate can be packaged with what it uses, and pages.

use crate::{build_as_tested, built, readmes, records};
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Where prompts are edited, for people to find them.
const PROMPTS: &str = "prompts";
/// Where the crates that use them keep their copies.
const PROMPT_COPIES: [&str; 4] = [
    "crates/skill-bank/prompts",
    "crates/skill-pipeline/prompts",
    "crates/skill-envs/prompts",
    "crates/skillrl/prompts",
];

/// Writes the copies, or, to check, fails if one is not current.
pub(crate) fn run(sh: &Shell, check: bool) -> anyhow::Result<()> {
    let root = sh.current_dir();
    let mut stale = stale_copies(&root)?;
    let mut pages = readmes::pages(&root)?;
    pages.insert(root.join(records::PAGE), records::markdown(&root)?);
    pages.retain(|path, made| fs::read_to_string(path).map_or(true, |text| text != *made));
    stale.append(&mut pages);
    if check {
        if let Some((path, _)) = stale.first_key_value() {
            bail!("{} is not current: run `cargo xtask gen`", path.display());
        }
        return Ok(());
    }
    for (path, text) in stale {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("gen: wrote {}", path.display());
    }
    // What the program with all its commands says of itself; a test of it holds these pages to it.
    build_as_tested(sh)?;
    let program = built(sh, "debug", "skillrl");
    cmd!(sh, "{program} reference docs").run()?;
    Ok(())
}

/// The copies that differ from what they are copies of, with what they should hold.
fn stale_copies(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let originals = read_dir(&root.join(PROMPTS))?;
    let mut stale = BTreeMap::new();
    let mut n_copies = 0;
    for dir in PROMPT_COPIES {
        for (name, copy) in read_dir(&root.join(dir))? {
            n_copies += 1;
            let original =
                originals.get(&name).with_context(|| format!("{PROMPTS}/{name} is missing: {dir} has it"))?;
            if *original != copy {
                stale.insert(root.join(dir).join(name), original.clone());
            }
        }
    }
    if n_copies != originals.len() {
        bail!("{PROMPTS}/ has {} files, but the crates use {n_copies} of them", originals.len());
    }
    Ok(stale)
}

fn read_dir(dir: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, text);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_agree_in_both_places() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(stale_copies(root).unwrap().into_keys().collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }
}
