//! `skillrl skill loads`: what a recorded run was offered and loaded.

use crate::args::skill::LoadsArgs;
use crate::error::OfFile as _;
use skill_agents::home::{Moved, session_files};
use skill_agents::{Load, Loads, ReadOptions, read_case, sessions_of};
use std::fmt::Write as _;

pub(crate) fn run(args: &LoadsArgs) -> crate::Result {
    let agent = crate::coding_agent::named(&args.agent)?;
    let mut streams = Vec::with_capacity(args.runs.len());
    for path in &args.runs {
        let bytes = std::fs::read(path).reading(path.display())?;
        streams.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    let files = match &args.home {
        Some(home) => session_files(agent, home, &Moved::default(), &sessions_of(agent, &streams), None)?,
        None => Vec::new(),
    };
    let found = read_case(
        agent,
        &streams,
        &files,
        &ReadOptions { skills: args.skills.clone(), ..ReadOptions::default() },
    );
    if args.json {
        return super::super::print_json(&found);
    }
    super::super::print_wrapped(&described(&found))
}

fn described(found: &Loads) -> String {
    let mut text = String::new();
    let version = found.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let model = found.model.as_deref().map(|model| format!(", {model}")).unwrap_or_default();
    let _ = writeln!(text, "{}{version}{model}: {} replies", found.agent, found.replies);
    match &found.skills_offered {
        Some(names) if names.is_empty() => text.push_str("offered: none\n"),
        Some(names) => {
            let _ = writeln!(text, "offered: {}", names.join(", "));
        }
        None => text.push_str("offered: these records do not show it\n"),
    }
    if let Some(names) = found.skills_offered_without_description.as_ref().filter(|names| !names.is_empty()) {
        let _ = writeln!(text, "offered by name only: {}", names.join(", "));
    }
    for (word, loads) in [("loaded", &found.loads), ("tried, not loaded", &found.loads_that_failed)] {
        for load in loads {
            let _ = writeln!(text, "{word}: {}", place(load));
        }
    }
    if found.loads.is_empty() {
        text.push_str("loaded: none\n");
    }
    for row in found.failed.iter().flatten() {
        let _ = writeln!(text, "failed: run {}: {}", row.run, row.why);
    }
    for (skill, row) in &found.trigger {
        let _ = writeln!(text, "{skill}: {}", row.outcome.as_str());
    }
    if !found.not_visible.is_empty() {
        let names: Vec<String> = found.not_visible.iter().map(|hidden| hidden.0.replace('_', " ")).collect();
        let _ = writeln!(text, "not visible in these records: {}", names.join(", "));
    }
    text
}

fn place(load: &Load) -> String {
    let how = serde_json::to_value(load.how).ok();
    let how = how.as_ref().and_then(|how| how.as_str()).unwrap_or_default();
    let who = if load.subagent { ", by a sub-agent" } else { "" };
    let again = if load.again { ", again" } else { "" };
    format!("{} (run {}, turn {}, {how}{who}{again})", load.skill, load.run, load.turn)
}
