//! `skillrl train --grid KEY=A,B --seeds N`: a run for each combination, one after the other, and a table of them.

use crate::args::{Start, TrainArgs};
use crate::data_start::{DataStart, has_answered_call};
use crate::dry_run;
use crate::error::{CliError, CommandError};
use crate::exit_code;
use crate::output::{print, say};
use crate::run_text::runs_tables;
use crate::runtime::block_on_unwarned;
use crate::table::grouped;
use skillrl::config::{BudgetConfig, EnvKind};
use skillrl::core::usage::dollars;
use skillrl::estimate::{Prepared, Span};
use skillrl::pipeline::run_dir::is_run;
use skillrl::runs::Depth;
use std::path::PathBuf;

/// A grid of more runs is a mistake.
const MAX_RUNS: usize = 1_000;
/// The setting of `--seeds`.
const SEED: &str = "run.seed";
/// The setting of the directory.
const DIR: &str = "run.dir";
/// How long the name of a directory may be.
const MAX_NAME_CHARS: usize = 120;

/// One run of a grid.
struct Member {
    /// Its settings, as in `gate.mode=strict, run.seed=2`.
    words: String,
    dir: PathBuf,
    start: Start,
}

/// Trains a run for each combination; one that fails does not stop the others.
///
/// # Errors
///
/// A grid that cannot be meant, settings that are wrong in any of its runs, and, once all have been tried, runs that did not
/// finish.
pub(super) fn run(data: &DataStart, args: &TrainArgs) -> crate::Result {
    let members = members(data, args)?;
    let Some(first) = members.first() else { return Ok(()) };
    if !args.quiet && !args.json {
        say(&format!(
            "grid: {} runs, one after the other; what is asked before the first counts for all",
            members.len()
        ));
    }
    if args.dry_run {
        members
            .iter()
            .try_for_each(|member| print(&format!("{}: {}\n", member.dir.display(), member.words)))?;
        if !args.json
            && let Some(total) = total(&members)?
        {
            print(&format!("all {} runs: {total}\nof the first:\n", members.len()))?;
        }
        return dry_run::show(&first.start, args.json);
    }
    let mut failed: Vec<(&Member, u8)> = Vec::new();
    for (member_idx, member) in members.iter().enumerate() {
        if !args.json {
            say(&format!("\nrun {} of {}: {}", member_idx + 1, members.len(), member.words));
        }
        let one = DataStart { start: member.start.clone(), written: None, is_data: data.is_data };
        match crate::training::train(&one, args, args.yes || member_idx > 0) {
            Ok(()) => {}
            // A person stops all of it.
            Err(error) if error.code() == exit_code::STOPPED => return Err(error),
            Err(error) if member_idx == 0 && is_refused(&error, member) => return Err(error),
            Err(error) => {
                if let Some(text) = error.text() {
                    say(&text);
                }
                failed.push((member, error.code()));
            }
        }
    }
    if !args.json {
        let dirs: Vec<PathBuf> =
            members.iter().map(|member| member.dir.clone()).filter(|dir| is_run(dir)).collect();
        if !dirs.is_empty() {
            print(&format!("\n{}", runs_tables(&skillrl::runs::table(&dirs, &[], Depth::Rows)?)))?;
        }
    }
    let Some((member, code)) = failed.first() else { return Ok(()) };
    let message = format!(
        "{} of {} runs did not finish, the first of them {}",
        failed.len(),
        members.len(),
        member.dir.display()
    );
    Err(CommandError::new(message).with_code(*code).with_hint("the same command continues them").into())
}

/// What all runs take together; `None` where that is not known before they are made.
fn total(members: &[Member]) -> crate::Result<Option<String>> {
    let (mut calls, mut cost) = ([0_u64; 2], Some([0.0; 2]));
    for member in members {
        let loaded = crate::start::read(&member.start)?;
        if loaded.config.env.env_kind() == EnvKind::Exec {
            return Ok(None);
        }
        let estimating = async { Prepared::new(&loaded)?.estimate().await };
        let Ok(estimate) = block_on_unwarned(estimating)? else { return Ok(None) };
        let Span { low, high } = estimate.total.calls;
        calls = [calls[0].saturating_add(low), calls[1].saturating_add(high)];
        cost = cost.zip(estimate.total.cost).map(|(sum, of)| [sum[0] + of[0], sum[1] + of[1]]);
    }
    let [low, high] = calls.map(grouped);
    let cost = cost.map(|[low, high]| format!(", {} to {}", dollars(low), dollars(high)));
    Ok(Some(format!("{low} to {high} calls{}", cost.unwrap_or_default())))
}

/// True if a run was refused before its first call: consent was not given, or an input of all runs is invalid.
fn is_refused(error: &CliError, member: &Member) -> bool {
    matches!(error.code(), exit_code::USAGE | exit_code::DATA) && !has_answered_call(&member.dir)
}

/// The runs in the order of the options; the last one changes fastest.
fn members(data: &DataStart, args: &TrainArgs) -> crate::Result<Vec<Member>> {
    let base = crate::start::read(&data.start)?;
    let dir = base.run_dir();
    if is_run(&dir) {
        let message = format!("{} is a run, and the runs of a grid are directories in it", dir.display());
        return Err(CommandError::new(message).with_hint("name another directory: `--out DIR`").into());
    }
    let mut axes = args.grid.iter().map(|text| axis(text)).collect::<Result<Vec<_>, _>>()?;
    if let Some(n_seeds) = args.seeds {
        let first = base.config.run.seed;
        axes.push((SEED.to_owned(), (0..u64::from(n_seeds)).map(|n| (first + n).to_string()).collect()));
    }
    for (axis_idx, (key, values)) in axes.iter().enumerate() {
        if axes.iter().take(axis_idx).any(|(other, _)| other == key) {
            return Err(CommandError::new(format!("`{key}` is in the grid twice"))
                .with_hint("name all of its values at once: `--grid KEY=A,B`")
                .into());
        }
        if key == DIR {
            let message = "`run.dir` cannot be in a grid: each run gets a directory of its own";
            return Err(CommandError::new(message)
                .with_hint("`--out DIR` names the directory above them")
                .into());
        }
        if values.iter().enumerate().any(|(at, value)| values.iter().take(at).any(|other| other == value)) {
            return Err(CommandError::new(format!("`{key}` has the same value twice in the grid"))
                .with_hint("samples of one setting are `--seeds N`")
                .into());
        }
    }
    let n_runs = axes.iter().try_fold(1_usize, |product, (_, values)| product.checked_mul(values.len()));
    let Some(n_runs) = n_runs.filter(|n_runs| *n_runs <= MAX_RUNS) else {
        let message = format!("the grid has more than {MAX_RUNS} runs");
        return Err(CommandError::new(message).with_hint("take fewer keys, values or seeds").into());
    };
    let shares = shares(&base.config.budget, n_runs, &axes)?;
    let mut members: Vec<Member> = Vec::with_capacity(n_runs);
    for run_idx in 0..n_runs {
        let settings = settings_of(&axes, run_idx);
        let words = settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        let mut name = file_name(&words.join(","));
        if members.iter().any(|member| member.dir.ends_with(&name)) {
            name = format!("{name}-{}", run_idx + 1);
        }
        let dir = dir.join(name);
        let mut start = data.start.clone();
        start.overrides.extend(words.iter().cloned());
        start.overrides.extend(shares.iter().cloned());
        start.overrides.push(format!("{DIR}={}", dir.display()));
        // A mistake in the last run, or a file that it lacks, is found before the first is paid for.
        crate::start::read(&start)?.check_paths().map_err(skillrl::Error::Config)?;
        members.push(Member { words: words.join(", "), dir, start });
    }
    Ok(members)
}

/// The settings of a run by its number.
fn settings_of(axes: &[(String, Vec<String>)], run_idx: usize) -> Vec<(&str, &str)> {
    let mut rest = run_idx;
    let mut settings: Vec<(&str, &str)> = Vec::with_capacity(axes.len());
    for (key, values) in axes.iter().rev() {
        let value_idx = rest.checked_rem(values.len()).expect("an axis has a value");
        rest /= values.len();
        let value = values.get(value_idx).expect("it is below the number of values");
        settings.push((key.as_str(), value.as_str()));
    }
    settings.reverse();
    settings
}

/// A key and its values; commas in brackets and quotation marks separate nothing.
fn axis(text: &str) -> Result<(String, Vec<String>), CommandError> {
    let wrong = || {
        CommandError::new(format!("`--grid {text}` is not of the form KEY=A,B"))
            .with_hint("such as `--grid gate.mode=strict,eprocess`")
    };
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let (key, mut depth, mut is_quoted) = (key.trim(), 0_usize, false);
    let separates = |sign: char| {
        match sign {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        sign == ',' && depth == 0 && !is_quoted
    };
    let values: Vec<String> = values.split(separates).map(|value| value.trim().to_owned()).collect();
    if key.is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok((key.to_owned(), values))
}

/// Caps of the whole grid as equal shares of its runs, unless the grid compares them.
fn shares(
    caps: &BudgetConfig,
    n_runs: usize,
    axes: &[(String, Vec<String>)],
) -> Result<Vec<String>, CommandError> {
    let n = n_runs as u64;
    let whole =
        |cap: Option<u64>| cap.map(|cap| (cap.checked_div(n).expect("a grid has a run") as f64, true));
    let part = |cap: Option<f64>| cap.map(|cap| (cap / n_runs as f64, false));
    let caps = [
        ("budget.calls", whole(caps.calls)),
        ("budget.tokens", whole(caps.tokens)),
        ("budget.money", part(caps.money)),
        ("budget.time_s", part(caps.time_s)),
    ];
    let mut shares = Vec::new();
    for (key, share) in caps {
        let Some((share, is_whole)) = share.filter(|_| !axes.iter().any(|(axis, _)| axis == key)) else {
            continue;
        };
        if share <= 0.0 {
            let message = format!("`{key}` is a cap of all {n_runs} runs, and leaves nothing for each");
            return Err(CommandError::new(message).with_hint("raise the cap, or take fewer runs"));
        }
        shares.push(if is_whole { format!("{key}={share:.0}") } else { format!("{key}={share:?}") });
    }
    Ok(shares)
}

/// Settings as the name of a directory on any system.
fn file_name(words: &str) -> String {
    let sign = |sign: char| match sign {
        sign if sign.is_alphanumeric() => sign,
        '=' | '.' | ',' | '-' | '_' => sign,
        _ => '-',
    };
    words.chars().map(sign).take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_by_commas_outside_of_brackets() {
        let (key, values) = axis(r#"env.rules=[{"a": 1, "b": 2}],[], "x,y""#).unwrap();
        assert_eq!(key, "env.rules");
        assert_eq!(values, [r#"[{"a": 1, "b": 2}]"#, "[]", "\"x,y\""]);
        for wrong in ["gate.mode", "=a", "gate.mode=", "gate.mode=strict,,paired"] {
            assert!(axis(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_key_changes_fastest() {
        let axes = [("a", ["1", "2"]), ("b", ["3", "4"])];
        let axes = axes.map(|(key, values)| (key.to_owned(), values.map(str::to_owned).to_vec()));
        let words =
            |run_idx| settings_of(&axes, run_idx).into_iter().map(|(_, value)| value).collect::<String>();
        assert_eq!([0, 1, 2, 3].map(words), ["13", "14", "23", "24"]);
    }

    #[test]
    fn a_cap_of_the_grid_is_shared_equally() {
        let caps = BudgetConfig { calls: Some(100), money: Some(1.5), ..BudgetConfig::default() };
        assert_eq!(shares(&caps, 3, &[]).unwrap(), ["budget.calls=33", "budget.money=0.5"]);
        let axes = [("budget.calls".to_owned(), vec!["10".to_owned()])];
        assert_eq!(shares(&caps, 3, &axes).unwrap(), ["budget.money=0.5"]);
        assert!(shares(&caps, 101, &[]).is_err());
    }
}
