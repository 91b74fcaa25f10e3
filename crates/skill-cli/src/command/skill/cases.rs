//! `skillrl skill cases`: the cases of a skill, listed or in another form.

use crate::args::skill::CasesArgs;
use crate::coding_agent::cases_place;
use crate::command::{CommandError, print, print_json, write_with_parents};
use crate::table::{Column, counted, harmless, table, terminal_width};
use serde_json::json;
use skillrl::envs::evals::{CaseFormat, CaseSet};
use std::path::Path;

pub(super) fn run(args: &CasesArgs) -> crate::Result {
    let place = cases_place(&args.skill, args.cases.as_deref())?;
    let set = CaseSet::read(&place).map_err(skillrl::Error::Env)?;
    match &args.out {
        Some(out) => written(&set, out, args.json),
        None => listed(&set, &place, args.json),
    }
}

fn listed(set: &CaseSet, place: &Path, is_json: bool) -> crate::Result {
    if is_json {
        let cases: Vec<_> = set
            .cases
            .iter()
            .map(|case| {
                let checks: Vec<String> = case.checks.iter().map(|check| check.text()).collect();
                json!({"id": case.id, "prompt": case.prompt, "files": case.files.keys().collect::<Vec<_>>(), "checks": checks,
                    "reviewed": case.is_reviewed, "split": case.split.map(|split| split.as_str())})
            })
            .collect();
        return print_json(&json!({"path": place, "cases": cases}));
    }
    let columns = [
        Column::name("case"),
        Column::number("checks"),
        Column::number("files"),
        Column::text("state"),
        Column::text("prompt"),
    ];
    let row = |case: &skillrl::envs::evals::Case| {
        let state = match (case.is_reviewed, case.split) {
            (false, _) => "draft".to_owned(),
            (true, Some(split)) => split.as_str().to_owned(),
            (true, None) => "reviewed".to_owned(),
        };
        let prompt = case.prompt.lines().next().unwrap_or_default();
        let numbers = [case.checks.len().to_string(), case.files.len().to_string()];
        let [checks, files] = numbers;
        vec![harmless(&case.id), checks, files, state, harmless(prompt)]
    };
    let rows: Vec<Vec<String>> = set.cases.iter().map(row).collect();
    print(&table(&columns, &rows, terminal_width()))
}

fn written(set: &CaseSet, out: &Path, is_json: bool) -> crate::Result {
    let extension = out.extension().and_then(|extension| extension.to_str()).map(str::to_lowercase);
    let format = match extension.as_deref() {
        Some("json") => CaseFormat::Expectations,
        Some("jsonl") => CaseFormat::Lines,
        _ => CaseFormat::Plugin,
    };
    let name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = match format {
        CaseFormat::Plugin => out,
        _ => out.parent().unwrap_or(Path::new("")),
    };
    let files = set.files_as(format, &name).map_err(skillrl::Error::Env)?;
    if let Some(taken) = files.keys().map(|file| folder.join(file)).find(|path| path.exists()) {
        let message = format!("{} exists already, and nothing was written", taken.display());
        return Err(CommandError::new(message).with_hint("name another place with --out").into());
    }
    for (file, bytes) in &files {
        write_with_parents(&folder.join(file), bytes)?;
    }
    if is_json {
        return print_json(&json!({"path": out, "cases": set.cases.len(), "files": files.len()}));
    }
    let cases = counted(set.cases.len() as u64, "case");
    print(&format!("{cases} in {}\n", out.display()))
}
