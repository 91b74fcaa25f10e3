//! `skillrl distill`: episodes become a bank of skills.

use crate::args::{DistillArgs, Start, TRAJECTORIES};
use crate::consent::agree_to_address;
use crate::error::CommandError;
use crate::measuring::described_spend;
use crate::start::{is_json, load_start, simulated_line};
use crate::table::{counted, grouped};
use serde_json::json;
use skillrl::bank::distill::Admit;
use skillrl::bank::episode::{AgentKind, Episode, EpisodeAgent, episode_line};
use skillrl::bank::format::{BankFormat, write};
use skillrl::bank::{Bank, BankError, Tier, TokenCompression, read_episodes};
use skillrl::call_cache::CallCache;
use skillrl::config::{EnvKind, FILE_NAME, LoadedConfig, ModelRole, simulated_models};
use skillrl::core::canonical::{canonical_hash, hex_sha256};
use skillrl::distill::{Distilled, Distilling};
use skillrl::engine::Engine;
use skillrl::identify::{PathKind, identify};
use skillrl::llm::error::with_causes;
use skillrl::llm::text_file;
use skillrl::pipeline::bank::run_episodes;
use skillrl::pipeline::bank_dir::{BankDir, is_bank, read_bank};
use skillrl::pipeline::run_dir::vacant::check_vacant;
use skillrl::pipeline::{PipelineError, RunReader, StopSignal};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn run(args: &DistillArgs) -> crate::Result {
    let path = args.file.as_deref().or(args.trajectories.as_deref()).unwrap_or(Path::new(TRAJECTORIES));
    let mut episodes = read(path)?;
    episodes.truncate(args.max.unwrap_or(usize::MAX));
    let start = started(args, &episodes);
    let loaded = load_start(&start, args.quiet)?;
    let is_file = is_json(&args.out);
    let inputs = inputs(&loaded, args, &episodes);
    let existing = CallCache::existing(&args.out)?;
    if existing.as_ref().is_some_and(|kept| kept.is_made_from(&inputs)) && args.out.exists() && !args.force {
        if args.json {
            let bank = read_bank(&args.out)?.bank;
            return crate::output::print(&as_json(args, &loaded, &bank, None, None));
        }
        let done =
            format!("{} is distilled from these episodes already; nothing to do\n", args.out.display());
        return crate::output::print_wrapped(&done);
    }
    // A process that died while it wrote the bank has left it, or a part.
    let is_begun = existing.as_ref().is_some_and(|kept| kept.is_being_made_from(&inputs));
    let has_bank = is_begun && is_bank(&args.out);
    check_place(args, is_begun, has_bank)?;
    let mut engine = Engine::new(&loaded);
    let distilling = Distilling::new(&loaded, episodes, &args.out)?;
    if distilling.shows_episodes() && is_file {
        let message = "episodes have no place in a file of skills";
        let hint = "name a directory as `--output`, or set `bank.show = \"skills\"`";
        return Err(CommandError::new(message).with_hint(hint).into());
    }
    if !distilling.shows_episodes() {
        // A teacher that is not there is found out before a directory is made.
        engine.model(ModelRole::Teacher)?;
    }
    warn_of_items(&distilling);
    let kept =
        existing.map_or_else(|| CallCache::beside(&args.out), Ok).map_err(skillrl::Error::of_output)?;
    kept.count_spent_on(&inputs, &engine)?;
    agree_to_address(&start, &loaded)?;
    kept.note_begun(&inputs)?;
    let n_before = engine.budget().spent().calls;
    if !args.quiet && !distilling.shows_episodes() {
        crate::output::say(&plan_words(&distilling));
    }
    let stop = StopSignal::default();
    let admit = if args.admit_unmeasured() || distilling.shows_episodes() {
        Admit::Unmeasured
    } else {
        Admit::Candidate
    };
    let work = distilling.distill(&mut engine, admit, &kept, &stop);
    let distilled = crate::runtime::block_on(stop.clone(), "stopping", work)??;
    let bank = &distilled.bank;
    write_bank(&args.out, bank, has_bank)?;
    kept.note_made(&inputs)?;
    if args.json {
        let compression = distilling.compression(bank);
        return crate::output::print(&as_json(args, &loaded, bank, Some(&distilled), compression));
    }
    let mut text = described(&args.out, &distilling, &distilled, admit);
    let _ = writeln!(
        text,
        "calls are kept in {}; {}",
        kept.path().display(),
        described_spend(&loaded, &engine, n_before)
    );
    text.push_str(&simulated_line(&start, &loaded, &[ModelRole::Teacher]));
    crate::output::print_wrapped(&text)
}

/// Refuses a place where something else is, unless it is to be replaced or this command was writing it when it died.
fn check_place(args: &DistillArgs, is_begun: bool, has_bank: bool) -> crate::Result {
    let is_file = is_json(&args.out);
    if is_file && args.out.exists() && !args.force && !is_begun {
        return Err(crate::files::is_there_already(&args.out).into());
    }
    if !is_file && args.out.is_file() {
        let message =
            format!("{} is a file, and a bank without the ending .json is a directory", args.out.display());
        let hint = "name a file that ends in .json, or another directory, as `--output`";
        return Err(CommandError::new(message).with_hint(hint).into());
    }
    if !is_file && !has_bank {
        check_vacant(&args.out)?;
    }
    Ok(())
}

fn warn_of_items(distilling: &Distilling<'_>) {
    if let Some(error) = &distilling.warning {
        crate::output::say(&format!(
            "warning: the items of `[env]` cannot be read, so skills are only held against the goals of the episodes: {}",
            with_causes(error)
        ));
    }
}

/// What the teacher will be asked.
fn plan_words(distilling: &Distilling<'_>) -> String {
    let tiers: Vec<String> = distilling.plan().tiers().map(Tier::to_string).collect();
    format!(
        "{} for {}: {} and at most {} repairs",
        counted(distilling.n_episodes() as u64, "episode"),
        tiers.join(", "),
        counted(distilling.plan().n_calls() as u64, "call"),
        distilling.plan().n_calls(),
    )
}

/// Writes the bank as a file or a directory; with `has_bank` the directory has to hold it already.
fn write_bank(out: &Path, bank: &Bank, has_bank: bool) -> crate::Result {
    let failed = |source: BankError| PipelineError::Bank { path: out.to_owned(), source };
    if is_json(out) {
        let written = write(bank, BankFormat::Paper, None, "").map_err(failed)?;
        return crate::files::write_with_parents(out, written.text.as_bytes());
    }
    if !has_bank {
        BankDir::create(out, bank.clone(), None).map_err(skillrl::Error::of_output)?;
        return Ok(());
    }
    let found = BankDir::open(out)?;
    if found.bank().log() != bank.log() {
        let found = "another bank".to_owned();
        return Err(PipelineError::NotVacant { path: out.to_owned(), found }.into());
    }
    Ok(found.refresh()?)
}

/// What the episodes became.
fn described(out: &Path, distilling: &Distilling<'_>, distilled: &Distilled, admit: Admit) -> String {
    let bank = &distilled.bank;
    let what = if distilling.shows_episodes() { "recorded episode" } else { "skill" };
    let state = match admit {
        Admit::Unmeasured => "active and not measured",
        Admit::Candidate => "candidates: nothing shows them before a trial admits them",
    };
    let mut text = format!(
        "{}: {} from {}, {state}\n",
        out.display(),
        counted(bank.skills().len() as u64, what),
        counted(distilling.n_episodes() as u64, "episode"),
    );
    for (tier, n) in by_tier(bank) {
        let _ = writeln!(text, "  {tier}: {n}");
    }
    if let Some(TokenCompression { episode_tokens, skill_tokens, ratio, .. }) = distilling.compression(bank) {
        let [of_episodes, of_skills] = [episode_tokens, skill_tokens].map(grouped);
        let _ = writeln!(
            text,
            "  tokens (estimated): {of_episodes} of episodes, {of_skills} of skills, {ratio:.1} : 1"
        );
    }
    for note in distilled.notes.iter().chain(&distilled.left_out) {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Estimated tokens of the texts of all skills.
fn skill_tokens(bank: &Bank) -> u64 {
    bank.skills().filter_map(|skill| skill.latest()).map(|version| version.content.tokens()).sum()
}

fn by_tier(bank: &Bank) -> BTreeMap<String, usize> {
    let mut by_tier = BTreeMap::new();
    for skill in bank.skills() {
        *by_tier.entry(skill.tier.to_string()).or_default() += 1;
    }
    by_tier
}

/// A line of JSON about the bank, and about the distilling if there was anything to do.
fn as_json(
    args: &DistillArgs,
    loaded: &LoadedConfig,
    bank: &Bank,
    distilled: Option<&Distilled>,
    compression: Option<TokenCompression>,
) -> String {
    let value = json!({
        "out": args.out,
        "skills": bank.skills().len(),
        "by_tier": by_tier(bank),
        "skill_tokens": skill_tokens(bank),
        "episode_tokens": compression.map(|found| found.episode_tokens),
        "compression": compression.map(|found| found.ratio),
        "left_out": distilled.map_or(&[][..], |found| &found.left_out),
        "notes": distilled.map_or(&[][..], |found| &found.notes),
        "calls": distilled.map_or(0, |found| found.calls),
        "simulated_models": simulated_models(&loaded.config, &[ModelRole::Teacher]),
    });
    format!("{value}\n")
}

/// What the command starts from: without a configuration that names a world, that of the episodes.
fn started(args: &DistillArgs, episodes: &[Episode]) -> Start {
    let mut start = Start { is_phase: true, ..args.config.start() };
    let is_of_others = start.file.as_deref().is_some_and(is_json);
    let is_without_file = start.file.is_none() && !Path::new(FILE_NAME).exists();
    if start.env.is_none() && (is_of_others || is_without_file) {
        let worlds = episodes.iter().filter_map(|episode| EnvKind::parse(&episode.environment));
        start.env = worlds.into_iter().find(|kind| kind.is_built_in_world());
    }
    start
}

/// The hash of everything that decides the skills.
fn inputs(loaded: &LoadedConfig, args: &DistillArgs, episodes: &[Episode]) -> String {
    let text: String = episodes.iter().map(episode_line).collect();
    canonical_hash(&json!({
        "admit_unmeasured": args.admit_unmeasured(),
        "config": loaded.config.decisive_json(),
        "episodes": hex_sha256(text.as_bytes()),
    }))
}

/// The episodes of a file, or of the training tasks of a run.
fn read(path: &Path) -> crate::Result<Vec<Episode>> {
    if path.is_dir() {
        return of_run(path);
    }
    let text = text_file::read(path)
        .map_err(|error| CommandError::new(format!("cannot read {}: {error}", path.display())))?;
    let read = read_episodes(&text).map_err(|error| match identify(path) {
        Ok(kind @ PathKind::Session) => {
            let message = format!(
                "{} is {}, which has no score, and episodes have one",
                path.display(),
                kind.described()
            );
            CommandError::new(message).with_hint(crate::start::instead_of(path, kind))
        }
        _ => CommandError::new(format!("{}: {error}", path.display()))
            .with_hint("episodes come from `skillrl collect`, or from SkillRL, ETO and krill"),
    })?;
    if let Some(line) = read.cut_at() {
        crate::output::say(&format!(
            "warning: {} is cut in line {line}; {} before it are read",
            path.display(),
            counted(read.episodes.len() as u64, "episode")
        ));
    }
    for skipped in &read.skipped {
        crate::output::say(&format!("warning: {}: {skipped}", path.display()));
    }
    Ok(read.episodes)
}

/// The rollouts of a run; those that a teacher may not read are counted.
fn of_run(run: &Path) -> crate::Result<Vec<Episode>> {
    let read = run_episodes(run)?;
    let left_out: Vec<String> =
        read.left_out.iter().map(|(use_of, n)| format!("{n} of {}", use_of.as_str())).collect();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!("; left out: {}", left_out.join(", ")),
    };
    crate::output::say(&format!(
        "{}: {} of training tasks{left_out}",
        run.display(),
        counted(read.episodes.len() as u64, "rollout"),
    ));
    if read.episodes.is_empty() {
        let message = format!("{} holds no rollout of a training task", run.display());
        return Err(CommandError::new(message).with_hint("name a run that has made a step").into());
    }
    let reader = RunReader::open(run)?;
    let agent = agent_of(&reader);
    let mut episodes = read.episodes;
    for episode in &mut episodes {
        episode.agent.clone_from(&agent);
    }
    Ok(episodes)
}

/// The agent of a run; `None` where its records do not name it.
fn agent_of(run: &RunReader) -> Option<EpisodeAgent> {
    let config = run.config();
    let model = config.identity.get("models.target")?.as_str()?;
    let is_simulated = config.simulated_models.iter().any(|role| role == ModelRole::Target.as_str());
    let kind = if is_simulated { AgentKind::Simulated } else { AgentKind::Model };
    Some(EpisodeAgent::new(kind, model))
}
