//! What a person who starts is asked: what the tasks are, which models, and what the run may spend.
//!
//! No answer is repeated in a complaint, since it may be a key that was put into the wrong line.

use super::questions::Questions;
use crate::data_start::{Proposal, setting};
use crate::table::harmless;
use skillrl::config::EnvKind;
use skillrl::envs::tasks::{DATA_FORMATS, DataSample, DataSurvey, ScorerKind, foreign_layout};
use skillrl::llm::{PROVIDERS, Provider};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;

/// Offered in place of the kinds that read data files.
const DATA: (&str, &str) = ("tasks", "your own data: a file, or several, with right answers");
/// What the data may be called that lies in the directory of the configuration.
const DATA_NAMES: [&str; 6] = ["data", "data.jsonl", "tasks.jsonl", "data.json", "data.csv", "train.jsonl"];
/// Requests that a first run may make; a person who means more says so.
const PROPOSED_CALLS: &str = "5000";
/// No name of a variable is longer; a key may be.
const LONGEST_VARIABLE: usize = 48;

/// Asks for everything; returns settings in the form `KEY=VALUE`.
///
/// `dir` is that of the configuration, and `is_set` says whether an environment variable is there.
pub(super) fn ask<R: BufRead, W: Write>(
    questions: &mut Questions<R, W>,
    dir: &Path,
    is_set: &dyn Fn(&str) -> bool,
) -> crate::Result<Vec<String>> {
    questions.say("A few questions for a configuration. Press Enter to accept the value in brackets.\n")?;
    let mut settings = Vec::new();
    let mut others: Vec<EnvKind> = EnvKind::ALL.into_iter().filter(|kind| !kind.has_data_file()).collect();
    others.sort_by_key(|kind| kind.is_built_in_world());
    let others = others.into_iter();
    let kinds: Vec<_> =
        [DATA].into_iter().chain(others.map(|kind| (kind.as_str(), kind.summary()))).collect();
    match questions.choice("What are the tasks?", &kinds, DATA.0)? {
        "tasks" => data(questions, dir, &mut settings)?,
        "exec" => {
            let program =
                questions.understood("Which command starts the program?", "python3 env.py", some)?;
            let words: Vec<&str> = program.split_whitespace().collect();
            settings.push(setting("env.kind", "exec"));
            settings.push(setting("env.program", &crate::output::json(&words)));
        }
        world => settings.push(setting("env.kind", world)),
    }
    let skill = questions.text("\nA skill to start from, a file or a folder (Enter: an empty one)", "")?;
    if !skill.is_empty() {
        settings.push(setting("skill.initial", &skill));
    }
    models(questions, is_set, &mut settings)?;
    caps(questions, &mut settings)?;
    Ok(settings)
}

fn some(answer: &str) -> Result<String, String> {
    if answer.is_empty() { Err("this one is needed".to_owned()) } else { Ok(answer.to_owned()) }
}

/// The path of the data, and its fields; without one if the person keeps a path that cannot be read yet.
fn sample<R: BufRead, W: Write>(
    questions: &mut Questions<R, W>,
    dir: &Path,
    proposed: &str,
) -> crate::Result<(String, Option<DataSample>)> {
    const AGAIN: &str = "Another path, or Enter to keep this one and add the data before you train";
    let mut path =
        questions.text(&format!("\nWhere is the data? A file, or a directory ({DATA_FORMATS})"), proposed)?;
    loop {
        let error = match DataSample::read(&dir.join(&path)) {
            Ok(sample) => match foreign_layout(&sample.fields) {
                None => return Ok((path, Some(sample))),
                Some(layout) => format!("it holds {}: {}", layout.name, layout.hint),
            },
            Err(error) => skillrl::llm::error::with_causes(&error),
        };
        questions.say(&format!("  {}", harmless(&error)))?;
        let other = questions.text(AGAIN, &path)?;
        if other == path {
            return Ok((path, None));
        }
        path = other;
    }
}

fn data<R: BufRead, W: Write>(
    questions: &mut Questions<R, W>,
    dir: &Path,
    settings: &mut Vec<String>,
) -> crate::Result {
    let there = DATA_NAMES.into_iter().find(|name| dir.join(name).exists()).unwrap_or("data");
    let (path, sample) = sample(questions, dir, there)?;
    settings.push(setting("env.data", &path));
    let Some(mut sample) = sample else { return Ok(()) };
    let names: Vec<&str> = sample.fields.keys().map(String::as_str).collect();
    questions.say(&format!("  the items have the fields {}", harmless(&names.join(", "))))?;
    let is_field = |answer: &str| {
        let is_there = sample.fields.contains_key(answer);
        if is_there { Ok(answer.to_owned()) } else { Err("the items have no such field".to_owned()) }
    };
    let proposed = sample.answer_field.unwrap_or_default();
    let answer = questions.understood("Which field holds the right answer?", proposed, is_field)?;
    let survey = DataSurvey::read(&dir.join(&path), Some(&answer), &BTreeMap::new()).unwrap_or_default();
    let usual_answer = sample.answer_field;
    let proposal = Proposal::of(&mut sample, &survey, &answer);
    for line in &proposal.said {
        questions.say(&format!("  {}", harmless(line)))?;
    }
    let scorers: Vec<_> =
        ScorerKind::ALL.iter().filter_map(|scorer| Some((scorer.as_str(), scorer.spec().summary?))).collect();
    let scorer = questions.choice("\nHow is an answer scored?", &scorers, proposal.scorer)?;
    settings.extend([setting("env.kind", "tasks"), setting("env.scorer", scorer)]);
    if usual_answer != Some(answer.as_str()) {
        settings.push(setting("env.answer_field", &answer));
    }
    settings.extend(proposal.settings);
    let shown = survey.shown();
    // Another scorer may need another form of answers than the one that is proposed.
    let of_proposal = proposal.prompt.filter(|_| scorer == proposal.scorer);
    let is_built_in = of_proposal.is_none() && shown == sample.usual_fields();
    let proposed = of_proposal.or_else(|| sample.prompt(&shown)).unwrap_or_default().replace('\n', "\\n");
    questions.say("\nWhat is the agent asked? Write fields in braces and \\n for a new line.")?;
    let prompt = questions.understood("Prompt", &harmless(&proposed), some)?;
    // The built-in prompt shows the usual fields, and says what each is.
    if prompt != proposed || !is_built_in {
        settings.push(setting("env.user_prompt", &crate::output::json(&prompt.replace("\\n", "\n"))));
    }
    if !sample.is_split {
        questions.say(
            "  it is split into train, val and test: 1:1:1 below 400 items, 2:1:2 from 400 on; env.split_ratio changes that",
        )?;
    }
    Ok(())
}

fn models<R: BufRead, W: Write>(
    questions: &mut Questions<R, W>,
    is_set: &dyn Fn(&str) -> bool,
    settings: &mut Vec<String>,
) -> crate::Result {
    let meanings: Vec<String> = PROVIDERS.iter().map(|provider| meaning(provider, is_set)).collect();
    let options =
        PROVIDERS.iter().zip(&meanings).map(|(provider, meaning)| (provider.name, meaning.as_str()));
    let has_key = |provider: &&Provider| provider.key_variable.is_some_and(is_set);
    let proposed = PROVIDERS.iter().find(has_key).map_or("openai", |provider| provider.name);
    let name = questions.choice("\nWho serves the models?", &options.collect::<Vec<_>>(), proposed)?;
    let Some(provider) = Provider::find(name) else { return Ok(()) };
    let mut of_both = vec![("provider", name.to_owned())];
    if provider.base_url.is_none() {
        let url = questions.understood("Address of the server, including /v1", "", |answer| {
            let is_url = answer.starts_with("https://") || answer.starts_with("http://");
            if is_url { Ok(answer.to_owned()) } else { Err("an address begins with https://".to_owned()) }
        })?;
        of_both.push(("base_url", url));
    }
    if let Some(usual) = provider.key_variable {
        let variable = questions.understood("Environment variable that holds the key", usual, variable)?;
        if !is_set(&variable) {
            questions.say(&format!("  {variable} is not set yet: export it before you train"))?;
        }
        if variable != usual {
            of_both.push(("api_key_env", variable));
        }
    }
    let usual = if name == "openai" { "gpt-5-mini" } else { "" };
    let target = questions.understood("Model that does the tasks", usual, some)?;
    let optimizer = questions.understood("Model that proposes edits", &target, some)?;
    for (role, model) in [("target", target), ("optimizer", optimizer)] {
        let own = [("model", model)];
        let keys = of_both.iter().chain(&own);
        settings.extend(keys.map(|(key, value)| setting(&format!("models.{role}.{key}"), value)));
    }
    Ok(())
}

fn meaning(provider: &Provider, is_set: &dyn Fn(&str) -> bool) -> String {
    match (provider.key_variable, provider.base_url) {
        (Some(variable), _) if is_set(variable) => format!("{variable} is set"),
        (Some(variable), _) => variable.to_owned(),
        (None, address) => address.unwrap_or_default().to_owned(),
    }
}

fn variable(answer: &str) -> Result<String, String> {
    let is_name =
        |character: char| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_';
    if answer.chars().all(is_name) && (1..=LONGEST_VARIABLE).contains(&answer.len()) {
        Ok(answer.to_owned())
    } else {
        Err("the name of a variable, such as OPENAI_API_KEY; the key itself is asked for nowhere".to_owned())
    }
}

fn caps<R: BufRead, W: Write>(questions: &mut Questions<R, W>, settings: &mut Vec<String>) -> crate::Result {
    let number =
        |answer: &str| answer.parse::<u64>().map_err(|_| "a whole number, or 0 for no cap".to_owned());
    let calls =
        questions.understood("\nMost requests that the run may send (0: no cap)", PROPOSED_CALLS, number)?;
    if calls > 0 {
        settings.push(setting("budget.calls", &calls.to_string()));
    }
    let amount = |answer: &str| match answer.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        Ok(_) | Err(_) => Err("a number, such as 2.5, or 0".to_owned()),
    };
    let money = questions.understood(
        "Most money that it may cost (0: no cap, else prices are asked for)",
        "0",
        amount,
    )?;
    if money > 0.0 {
        settings.push(setting("budget.money", &format!("{money:?}")));
        for (role, what) in [("target", "does the tasks"), ("optimizer", "proposes edits")] {
            for (key, tokens) in [("price_input", "prompt"), ("price_output", "reply")] {
                let question = format!("Price of a million {tokens} tokens of the model that {what}");
                let price = questions.understood(&question, "", amount)?;
                settings.push(setting(&format!("models.{role}.{key}"), &format!("{price:?}")));
            }
        }
    }
    Ok(())
}
