//! `skillrl bank import` and `export`: banks of other systems, read and written.

use crate::args::bank::{BankExportArgs, BankImportArgs};
use crate::args::distill::AdmitChoice;
use crate::banks;
use crate::error::CommandError;
use crate::files::write_files;
use crate::table::{counted, harmless};
use serde::Serialize;
use serde_json::json;
use skillrl::bank::distill::Admit;
use skillrl::bank::format::{self, BankFormat, agent_skills};
use skillrl::bank::{Bank, BankSummary, State};
use skillrl::core::SkillPartId;
use skillrl::pipeline::PipelineError;
use skillrl::pipeline::bank_dir::{BankDir, UNKNOWN_TIME, read_source};
use skillrl::skills::read_named_bank;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// So many ids are named in a line.
const MAX_NAMED: usize = 8;

pub(super) fn import(args: &BankImportArgs) -> crate::Result {
    let file = &args.file;
    check_vacant(&args.out, true)?;
    let read = read_named_bank(file)?;
    if read.format == BankFormat::Log {
        let message = format!("{} is a bank of this program already", file.display());
        return Err(CommandError::new(message).with_hint("copy its directory").into());
    }
    let source = read_source(file, &read.bank)?;
    let source = source.as_ref().map(|(format, text)| (*format, text.as_str()));
    let bank = match (args.admit, source) {
        (AdmitChoice::Measured, Some((_, text))) => format::read_as(text, Admit::Candidate)?.bank,
        _ => read.bank,
    };
    let dir = BankDir::create(&args.out, bank, source).map_err(skillrl::Error::of_output)?;
    let summary = BankSummary::of(dir.bank());
    let notes: Vec<String> = read.notes.iter().map(|note| harmless(&note.to_string())).collect();
    if args.json {
        let value = json!({
            "path": args.out,
            "format": read.format.as_str(),
            "notes": notes,
            "summary": summary,
        });
        return crate::output::print(&format!("{value}\n"));
    }
    let mut text = format!(
        "read {} from {}\nwrote {}: {}\n",
        banks::format_name(read.format),
        file.display(),
        args.out.display(),
        counted(summary.skills, "skill")
    );
    for tier in &summary.tiers {
        let _ = writeln!(text, "  {}: {}", banks::tier_name(&tier.tier), counted(tier.skills(), "skill"));
    }
    text.push_str(match args.admit {
        AdmitChoice::Measured => {
            "all of them are candidates: nothing shows them before a trial admits them\n"
        }
        AdmitChoice::Unmeasured => {
            "all of them are active, and none was measured: nothing shows yet that they help\n"
        }
    });
    for note in &notes {
        let _ = writeln!(text, "note: {note}");
    }
    crate::output::print_wrapped(&text)
}

/// What an export has no place for.
#[derive(Debug, Serialize)]
struct Losses {
    /// Active skills.
    skills: Vec<SkillPartId>,
    /// Skills that are not active.
    inactive: Vec<SkillPartId>,
    /// Versions of written skills that are not the active one.
    versions: u64,
    /// Measurements of written skills.
    measurements: u64,
    /// Pins of written skills.
    pins: u64,
    /// Written skills whose evidence the format does not hold.
    evidence: u64,
}

impl Losses {
    fn of(bank: &Bank, left_out: Vec<SkillPartId>) -> Self {
        let mut losses = Self {
            skills: left_out,
            inactive: Vec::new(),
            versions: 0,
            measurements: 0,
            pins: 0,
            evidence: 0,
        };
        let unwritten: BTreeSet<SkillPartId> = losses.skills.iter().cloned().collect();
        for skill in bank.skills() {
            let Some(active) = skill.active().filter(|_| !unwritten.contains(&skill.id)) else {
                if skill.state() != State::Active {
                    losses.inactive.push(skill.id.clone());
                }
                continue;
            };
            losses.versions += skill.versions.len() as u64 - 1;
            losses.measurements += u64::from(active.utility.is_some());
            losses.pins += u64::from(skill.is_pinned);
            losses.evidence += u64::from(active.evidence != skillrl::bank::Evidence::default());
        }
        losses
    }

    /// A line for each kind of loss.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (what, ids) in [("active", &self.skills), ("not active", &self.inactive)] {
            if !ids.is_empty() {
                let shown: Vec<String> =
                    ids.iter().take(MAX_NAMED).map(|id| banks::one_line(id.as_str())).collect();
                let more = ids.len().saturating_sub(MAX_NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                let skills = counted(ids.len() as u64, "skill");
                lines.push(format!("{skills}, {what}: {}{more}", shown.join(", ")));
            }
        }
        let counts =
            [(self.versions, "other version"), (self.measurements, "measurement"), (self.pins, "pin")];
        lines.extend(
            counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(count, noun)),
        );
        if self.evidence > 0 {
            lines.push(format!("the evidence of {}", counted(self.evidence, "skill")));
        }
        lines
    }
}

pub(super) fn export(args: &BankExportArgs) -> crate::Result {
    let format = BankFormat::parse(&args.format);
    check_vacant(&args.out, format.is_none())?;
    let path = &args.bank.bank;
    let bank = banks::read(path)?.bank;
    let n_active = bank.view().skills().len() as u64;
    let left_out = match format {
        Some(format) => write_file(args, &bank, format)?,
        None => {
            let folders = agent_skills(&bank);
            let files: Vec<(String, String)> =
                folders.into_iter().map(|skill| (format!("{}/SKILL.md", skill.name), skill.text)).collect();
            let files = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            write_files(&args.out, files, false)?;
            Vec::new()
        }
    };
    let n_written = n_active - left_out.len() as u64;
    let losses = Losses::of(&bank, left_out);
    if args.json {
        let value = json!({"path": args.out, "format": args.format, "skills": n_written, "left_out": losses});
        return crate::output::print(&format!("{value}\n"));
    }
    let mut text = format!("wrote {}: {}\n", args.out.display(), counted(n_written, "skill"));
    let lines = losses.lines();
    if !lines.is_empty() {
        text.push_str("left out, since the format has no place for it:\n");
    }
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    crate::output::print_wrapped(&text)
}

/// Writes one file, and returns the active skills that the format has no place for.
fn write_file(args: &BankExportArgs, bank: &Bank, format: BankFormat) -> crate::Result<Vec<SkillPartId>> {
    let path = &args.bank.bank;
    let source = read_source(path, bank)?;
    let original = source.as_ref().filter(|(found, _)| *found == format).map(|(_, text)| text.as_str());
    let written = format::write(bank, format, original, UNKNOWN_TIME)
        .map_err(|source| PipelineError::Bank { path: path.clone(), source })?;
    let name = args.out.file_name().and_then(|name| name.to_str());
    let Some(name) = name else {
        return Err(CommandError::new(format!("{} is not a file name", args.out.display())).into());
    };
    let parent = args.out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write_files(parent, [(name, written.text.as_str())], false)?;
    Ok(written.left_out)
}

/// Refuses a path where something is; an empty directory is as good as none where a directory is to be written.
fn check_vacant(path: &Path, is_dir_wanted: bool) -> Result<(), CommandError> {
    let is_empty_dir = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if path.symlink_metadata().is_err() || is_dir_wanted && is_empty_dir {
        return Ok(());
    }
    let message = format!("{} exists already; nothing was written", path.display());
    Err(CommandError::new(message).with_hint("name a path that does not exist"))
}
