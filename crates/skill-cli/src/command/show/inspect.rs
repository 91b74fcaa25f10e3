//! `skillrl inspect`: what a file is, and what there is to know about it.

mod bank;

use crate::args::InspectArgs;
use crate::command::CommandError;
use crate::error::OfFile as _;
use crate::table::{counted, harmless};
use serde::Serialize;
use skillrl::bank::format::is_meant_as_bank;
use skillrl::core::encoding;
use skillrl::core::package::MAIN_FILE;
use skillrl::core::{RegionKind, SkillDoc, SkillPackage, estimate_tokens, protected_regions};
use skillrl::identify::{PathKind, identify};
use skillrl::llm::regular_file;
use skillrl::not_a_skill::NotASkill;
use skillrl::pipeline::bank_dir::is_bank;
use skillrl::pipeline::run_dir::is_run;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

/// A file that has more bytes is not a skill: no model reads that much.
const MAX_SKILL_BYTES: u64 = 64 << 20;
/// What to name instead.
const EXPECTED: &str =
    "name a skill, a skill's folder, a skill bank, the directory of a run, or a journal.sqlite";

pub(crate) fn run(args: &InspectArgs) -> crate::Result {
    say_what_it_is(&args.path, args.json)
}

/// Identifies what is at a path, and summarizes it.
pub(super) fn say_what_it_is(path: &Path, is_json: bool) -> crate::Result {
    if path.is_dir() && path.join(MAIN_FILE).is_file() && !is_run(path) {
        let skill = skillrl::skills::read_skill(path)?;
        return say(is_json, &SkillFacts::of_folder(path, &skill));
    }
    if is_bank(path) && !is_run(path) {
        return bank::run(path, is_json);
    }
    let file = regular_file::open(path).map_err(|error| {
        CommandError::new(format!("cannot read {}: {error}", path.display())).with_hint(EXPECTED)
    })?;
    let mut bytes = Vec::new();
    file.take(MAX_SKILL_BYTES).read_to_end(&mut bytes).reading(path.display())?;
    if bytes.len() as u64 >= MAX_SKILL_BYTES {
        let message = format!(
            "{} is not a skill, a bank, a run or a journal: it is too large for a skill",
            path.display()
        );
        return Err(CommandError::new(message).with_hint(EXPECTED).into());
    }
    if let Ok(kind @ PathKind::Session) = identify(path) {
        let message =
            format!("{} is {}, not a skill, a bank, a run or a journal", path.display(), kind.described());
        return Err(CommandError::new(message).with_hint(crate::start::instead_of(path, kind)).into());
    }
    let text = encoding::decode(bytes).map_err(|fault| {
        let message = format!("{} is not a skill, a bank, a run or a journal: it {fault}", path.display());
        CommandError::new(message).with_hint(EXPECTED)
    })?;
    if is_meant_as_bank(&text) {
        return bank::run(path, is_json);
    }
    if let Some(what) = NotASkill::of(path, &text) {
        return Err(skillrl::Error::NotASkill { path: path.to_owned(), what }.into());
    }
    say(is_json, &SkillFacts::of(path, &text))
}

fn say(is_json: bool, facts: &SkillFacts) -> crate::Result {
    if is_json {
        return crate::command::print_pretty_json(facts);
    }
    crate::command::print(&facts.described())
}

fn region_name(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::FrontMatter => "front matter",
        RegionKind::SlowUpdate => "guidance of slow updates",
        RegionKind::Appendix => "appendix of notes on lapses",
    }
}

/// What there is to know about a skill; of a folder, the numbers are those of its `SKILL.md`.
#[derive(Debug, Serialize)]
struct SkillFacts {
    path: String,
    hash: String,
    bytes: usize,
    characters: usize,
    lines: usize,
    tokens_estimated: u64,
    headings: Vec<String>,
    protected_regions: Vec<String>,
    /// Of a folder; a skill that is one file has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

impl SkillFacts {
    fn of(path: &Path, text: &str) -> Self {
        let is_heading = |line: &&str| line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
        let regions = protected_regions(text);
        Self {
            path: path.display().to_string(),
            hash: SkillDoc::new(text).hash().to_string(),
            bytes: text.len(),
            characters: text.chars().count(),
            lines: text.lines().count(),
            tokens_estimated: estimate_tokens(text),
            headings: text.lines().filter(is_heading).map(str::to_owned).collect(),
            protected_regions: regions.iter().map(|region| region_name(region.kind).to_owned()).collect(),
            files: Vec::new(),
        }
    }

    fn of_folder(path: &Path, skill: &SkillDoc) -> Self {
        let package = SkillPackage::of(skill);
        Self {
            hash: skill.hash().to_string(),
            files: package.files().map(|(path, ..)| path.to_owned()).collect(),
            ..Self::of(path, &package.main)
        }
    }

    fn described(&self) -> String {
        let what = match self.files.len() {
            0 => "a skill of".to_owned(),
            n_files => format!("a skill package of {}; SKILL.md has", counted(n_files as u64, "file")),
        };
        let mut text = format!(
            "{}: {what} {}, {}, about {}\nhash: {}\n",
            self.path,
            counted(self.lines as u64, "line"),
            counted(self.characters as u64, "character"),
            counted(self.tokens_estimated, "token"),
            self.hash
        );
        for region in &self.protected_regions {
            let _ = writeln!(text, "protected: {region}");
        }
        for heading in &self.headings {
            let _ = writeln!(text, "  {}", harmless(heading));
        }
        for file in &self.files {
            let _ = writeln!(text, "file: {}", harmless(file));
        }
        text
    }
}
