//! `skillrl eval SKILL --agent NAME --draft N`: the agent writes a first set of cases, which a person reviews.

use super::ended::worded;
use crate::agent_cases::{check_program, loaded};
use crate::args::skill::EvalSkillArgs;
use crate::command::{CommandError, block_on, print, print_json, say};
use crate::consent::confirm;
use crate::error::OfFile as _;
use crate::exit_code;
use crate::table::counted;
use serde_json::json;
use skill_agents::Agent;
use skillrl::config::ModelRole;
use skillrl::core::{SkillDoc, SkillPackage};
use skillrl::engine::Engine;
use skillrl::envs::evals::CaseSet;
use skillrl::envs::evals::draft::{Draft, draft_prompt, drafted};
use skillrl::llm::{CallCtx, ChatRequest, Message};
use skillrl::pipeline::StopSignal;
use std::path::{Path, PathBuf};

/// Where cases are written if no file is named.
const FILE: &str = "evals/evals.json";

pub(super) fn run(args: &EvalSkillArgs, agents: &[&Agent], skill: &SkillDoc, n: u16) -> crate::Result {
    let [agent] = agents else {
        return Err(CommandError::new("--draft has one agent write the cases; name one").into());
    };
    let path = args.cases.clone().unwrap_or_else(|| args.skill.join(FILE));
    let is_taken = path.exists() || args.cases.is_none() && CaseSet::usual_place(&args.skill).is_some();
    if is_taken {
        let place = if path.exists() { path } else { args.skill.join("evals") };
        let message = format!("{} has cases already, which a draft would replace", place.display());
        return Err(CommandError::new(message).with_hint("name another file with --cases").into());
    }
    if path.extension().is_none_or(|extension| extension != "json") {
        let message = format!("a draft is written as JSON, and {} is named", path.display());
        return Err(CommandError::new(message).with_hint("name a file such as evals/evals.json").into());
    }
    let words = format!("1 start of {} writes {n} cases to {}", agent.title, path.display());
    if args.dry_run {
        return print(&format!("{words}\nnothing was started\n"));
    }
    check_program(&args.common, agent)?;
    if !args.common.quiet {
        say(&words);
    }
    confirm(args.yes || args.calls.is_some() || args.budget.is_some())?;
    let found = written(args, agent, skill, &path, n).map_err(|error| worded(args, error))?;
    if found.cases.is_empty() {
        let why = found.left_out.first().map_or_else(|| "it has none".to_owned(), Clone::clone);
        let message = format!("the reply of {} has no case that can be used: {why}", agent.title);
        let error = CommandError::new(message).with_code(exit_code::OUTAGE);
        return Err(error.with_hint("run the command again with another number").into());
    }
    write(&path, &skillrl::export::folder_name(&args.skill), &found)?;
    for why in &found.left_out {
        say(&format!("left out {why}"));
    }
    if args.common.json {
        let shown = json!({"cases": path, "drafts": found.cases.len(), "left_out": found.left_out});
        return print_json(&shown);
    }
    say(&format!(
        "{} in {}: review and edit them, and set \"reviewed\": true; nothing uses a draft",
        counted(found.cases.len() as u64, "draft"),
        path.display()
    ));
    Ok(())
}

/// What the agent drafts, without tools and skills.
fn written(
    args: &EvalSkillArgs,
    agent: &Agent,
    skill: &SkillDoc,
    path: &Path,
    n: u16,
) -> crate::Result<Draft> {
    let loaded = loaded(args, agent, path, None)?;
    let model = Engine::new(&loaded).model(ModelRole::Optimizer)?;
    let name = skillrl::export::folder_name(&args.skill);
    let prompt = draft_prompt(&name, &SkillPackage::of(skill), usize::from(n));
    let request = ChatRequest::new(vec![Message::user(prompt)]);
    let stop = StopSignal::default();
    let call = CallCtx { cancel: stop.now.clone(), halt: stop.soon.clone(), ..CallCtx::default() };
    let reply = block_on(stop, "stopping", model.chat(&request, &call))?
        .map_err(|error| skillrl::Error::Attempt(skillrl::envs::EnvError::Model(error)))?;
    Ok(drafted(&reply.answer()))
}

/// Writes the cases and their files.
fn write(path: &Path, skill: &str, draft: &Draft) -> crate::Result {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let places: Vec<(PathBuf, &String)> =
        draft.files.iter().map(|(name, text)| (folder.join(name), text)).collect();
    if let Some((taken, _)) = places.iter().find(|(place, _)| place.exists()) {
        let message = format!("{} exists, and a draft would replace it", taken.display());
        return Err(CommandError::new(message)
            .with_hint("move it, or name another file with --cases")
            .into());
    }
    for (place, text) in places {
        let parent = place.parent().map(Path::to_owned).unwrap_or_default();
        std::fs::create_dir_all(&parent).writing(&parent)?;
        std::fs::write(&place, text).writing(&place)?;
    }
    std::fs::create_dir_all(&folder).writing(&folder)?;
    let cases = json!({"skill_name": skill, "evals": draft.cases});
    std::fs::write(path, format!("{cases:#}\n")).writing(path)
}
