//! `skillrl env check`: what will be measured, before anything is paid for.

use crate::args::{EnvCheckArgs, SPREADSHEETBENCH, Start};
use crate::data_start::{self, Use};
use crate::error::OfFile as _;
use crate::table::{Column, counted, harmless, table, terminal_width};
use serde::Serialize;
use skillrl::config::{Config, LoadedConfig, ModelRole, OptimizerUse};
use skillrl::core::canonical::hex_sha256;
use skillrl::core::{ItemId, MeanScore, RolloutResult};
use skillrl::doctor::{Finding, choice_finding, label_findings};
use skillrl::engine::Engine;
use skillrl::envs::labels::{ClassCount, DoubtfulChoice, LabelCheck, doubtful_choices};
use skillrl::envs::{Env, EnvError, Item, RolloutCtx, Split, same_across_splits};
use skillrl::listener::Listener;
use skillrl::llm::{ChatModel, ChatRequest, ModelId};
use skillrl::pipeline::StopSignal;
use skillrl::reports::lines::scores;
use skillrl::{skills, world};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// An answer that is hardly right anywhere.
const WRONG_ANSWER: &str = "This is not the answer.";

/// So many items that cannot be used are named.
const MAX_NAMED_ITEMS: usize = 3;

/// The columns of the table of classes.
const LABEL_COLUMNS: [Column; 4] =
    [Column::text("label"), Column::number("train"), Column::number("val"), Column::number("test")];

/// What was found out, in the order in which it is shown.
#[derive(Serialize)]
struct Report {
    env: String,
    /// What programs of the agent run in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    programs: Vec<String>,
    splits: BTreeMap<&'static str, usize>,
    /// Items of different splits that ask the agent the same.
    same_prompts: Vec<SamePrompt>,
    /// The classes of the items; `None` where right answers are no class labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<LabelCheck>,
    /// Choices whose text is the label of another choice of their item.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    doubtful_choices: Vec<DoubtfulChoice>,
    /// What is wrong with items that a run is refused for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
    item: Checked,
    tries: Vec<Try>,
}

/// Two items with one prompt.
#[derive(Serialize)]
struct SamePrompt {
    first: String,
    second: String,
}

/// The item that is tried.
#[derive(Serialize)]
struct Checked {
    id: String,
    split: &'static str,
    task_type: String,
    system: String,
    user: String,
    images: usize,
    reference: String,
}

/// A scripted reply and what becomes of it.
#[derive(Serialize)]
struct Try {
    name: &'static str,
    reply: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
enum Outcome {
    Scored {
        answer: String,
        hard: f64,
        soft: f64,
        reason: String,
    },
    /// A model would have to be asked.
    NeedsJudge {
        judge: String,
        prompt: String,
    },
}

pub(crate) fn check(args: &EnvCheckArgs) -> crate::Result {
    let start = Start { optimizer: OptimizerUse::Nothing, ..args.config.start() };
    let (mut data, mut reply) = (args.data.clone(), args.reply.clone());
    if start.file.as_deref().is_none_or(|path| !data_start::may_be_data(path)) {
        // Only data have a field with the answer; with a configuration it is what the agent says.
        reply = reply.or_else(|| data.answer.take());
    }
    let loaded = match (&args.preset, &args.preset_data) {
        (Some(preset), Some(data)) => of_preset(preset, data, &start.overrides)?,
        _ => data_start::load(&data, start, Use::Looks, args.json)?.1,
    };
    let programs = world::programs(&loaded).transpose()?;
    // The judge is only looked at: what it would be asked is shown, and nothing is sent.
    let env = world::environment_to_check(&loaded, Engine::without_keys(&loaded).judge()?)?;
    let skill = skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default();
    let (split, item) = crate::measuring::find_item(env.as_ref(), args.item.as_deref())?;
    let tries = replies(env.as_ref(), item, reply.as_deref());
    let judge = ModelRole::of_judge(&loaded.config).map(ModelRole::as_str);
    let work = async {
        let mut prompts = Prompts::new();
        for other in Split::ALL.into_iter().flat_map(|split| env.items(split)) {
            if let Some(request) = asked(env.as_ref(), other, &skill).await {
                let messages = serde_json::to_vec(&request.messages).expect("the keys of messages are texts");
                prompts.insert(other.id.clone(), hex_sha256(&messages));
            }
        }
        let mut outcomes = Vec::new();
        for (name, reply) in tries {
            outcomes.push(try_reply(env.as_ref(), item, &skill, name, reply, judge).await?);
        }
        Ok::<_, EnvError>((prompts, outcomes))
    };
    let (prompts, outcomes) = crate::command::block_on(StopSignal::default(), "stopping", work)?
        .map_err(skillrl::Error::Attempt)?;
    let (request, first) = match outcomes.first() {
        Some((request, result, _)) => (request.clone(), result.clone()),
        None => (ChatRequest::default(), None),
    };
    let report = Report {
        env: env.name().to_owned(),
        programs: programs.unwrap_or_default().lines,
        splits: Split::ALL.map(|split| (split.as_str(), env.items(split).len())).into_iter().collect(),
        same_prompts: same_across_splits(env.as_ref(), |item| prompts.get(&item.id).map(String::as_str))
            .into_iter()
            .map(|pair| pair.map(|(split, id)| format!("{id} ({split})")))
            .map(|[first, second]| SamePrompt { first, second })
            .collect(),
        labels: LabelCheck::of(env.as_ref(), |item| prompts.get(&item.id).map(String::as_str)),
        doubtful_choices: doubtful_choices(env.as_ref()),
        faults: env.faults().iter().map(ToString::to_string).collect(),
        item: checked(item, split, &request, first.as_ref()),
        tries: outcomes.into_iter().map(|(_, _, tried)| tried).collect(),
    };
    if args.json {
        crate::command::print_json(&report)?;
    } else {
        crate::command::print(&harmless(&describe(&report, env.as_ref())))?;
    }
    if !env.faults().is_empty() {
        // Any other command is refused for the same reason.
        world::environment(&loaded, None)?;
    }
    Ok(())
}

/// The configuration of a benchmark whose files are there; its models are asked nothing.
fn of_preset(preset: &str, data: &Path, overrides: &[String]) -> crate::Result<LoadedConfig> {
    let data = std::path::absolute(data).reading(data.display())?;
    let kind = match preset {
        SPREADSHEETBENCH => "kind = \"spreadsheet\"".to_owned(),
        preset => format!("kind = \"tasks\"\npreset = \"{preset}\""),
    };
    let data = crate::output::json(&data.display().to_string());
    let models = "[models]\ntarget = { kind = \"simulated\" }\noptimizer = { kind = \"simulated\" }\n";
    let text = format!("{models}[env]\n{kind}\ndata = {data}\n");
    let loaded = Config::parse(&text, "--preset", overrides)?;
    loaded.check_paths()?;
    Ok(loaded)
}

/// What each item asks the agent, as a hash.
type Prompts = BTreeMap<ItemId, String>;

/// What the scripted agent says: what a person gave, or the reference and something wrong.
fn replies(env: &dyn Env, item: &Item, given: Option<&str>) -> Vec<(&'static str, String)> {
    match given {
        Some(answer) => vec![("the given answer", answer.to_owned())],
        None => {
            let reference = env.reference_reply(item).map(|reply| ("the reference", reply));
            reference.into_iter().chain([("a wrong answer", WRONG_ANSWER.to_owned())]).collect()
        }
    }
}

/// A model that gives this reply, or fails; as a coding agent it changes no file.
fn listener(name: &str, reply: Option<String>) -> Listener {
    Listener::new(reply).with_id(ModelId::new("check", name)).with_agent_work()
}

/// What the agent is asked about an item; `None` where the environment asks nothing at first.
async fn asked(env: &dyn Env, item: &Item, skill: &skillrl::core::SkillDoc) -> Option<ChatRequest> {
    let agent = listener("agent", Some(String::new()));
    let ctx = RolloutCtx { judge: Some(Arc::new(listener("judge", None))), ..RolloutCtx::default() };
    // Only the request matters, not the score. A failed call, unlike an empty reply, would stop the environment's program.
    drop(env.rollout(item, skill, &agent, &ctx).await);
    agent.first_heard()
}

/// Runs the item with a scripted reply.
async fn try_reply(
    env: &dyn Env,
    item: &Item,
    skill: &skillrl::core::SkillDoc,
    name: &'static str,
    reply: String,
    judge_role: Option<&'static str>,
) -> Result<(ChatRequest, Option<RolloutResult>, Try), EnvError> {
    let agent = listener("agent", Some(reply.clone()));
    let judge = Arc::new(listener("judge", None));
    let ctx = RolloutCtx { judge: Some(Arc::clone(&judge) as Arc<dyn ChatModel>), ..RolloutCtx::default() };
    let result = env.rollout(item, skill, &agent, &ctx).await;
    let request = agent.first_heard().unwrap_or_default();
    match (result, judge.first_heard()) {
        (Ok(result), _) => {
            let outcome = Outcome::Scored {
                answer: result.predicted_answer.clone(),
                hard: result.hard,
                soft: result.soft,
                reason: result.fail_reason.clone(),
            };
            Ok((request, Some(result), Try { name, reply, outcome }))
        }
        (Err(_), Some(asked)) => {
            let prompt = asked.messages.iter().map(|message| message.text()).collect::<Vec<_>>().join("\n\n");
            let outcome = Outcome::NeedsJudge { judge: judge_role.unwrap_or("judge").to_owned(), prompt };
            Ok((request, None, Try { name, reply, outcome }))
        }
        (Err(error), None) => Err(error),
    }
}

fn checked(item: &Item, split: Split, request: &ChatRequest, result: Option<&RolloutResult>) -> Checked {
    use skillrl::core::Role;
    let images = request.messages.iter().map(|message| message.content.len().saturating_sub(1)).sum();
    Checked {
        id: item.id.to_string(),
        split: split.as_str(),
        task_type: item.task_type.clone(),
        system: request.text_of(Role::System),
        user: request.text_of(Role::User),
        images,
        reference: result.map(|result| result.reference_text.clone()).unwrap_or_default(),
    }
}

fn describe(report: &Report, env: &dyn Env) -> String {
    let mut text = String::new();
    let counts: Vec<String> =
        Split::ALL.map(|split| format!("{} {split}", env.items(split).len())).into_iter().collect();
    let _ = writeln!(text, "env    {}\nitems  {}", report.env, counts.join(", "));
    for line in &report.programs {
        let _ = writeln!(text, "  {line}");
    }
    for split in Split::ALL {
        let types = task_types(env.items(split));
        if !types.is_empty() {
            let _ = writeln!(text, "  {split}: {types}");
        }
    }
    if let Some(same) = report.same_prompts.first() {
        let n_same = counted(report.same_prompts.len() as u64, "item");
        let _ = writeln!(
            text,
            "warning: {n_same} of one split ask the same as an item of another, such as {} and {}; what is learned on \
             one is then measured on the other",
            same.first, same.second
        );
    }
    if let Some(labels) = &report.labels {
        describe_labels(&mut text, labels);
    }
    for fault in report.faults.iter().take(MAX_NAMED_ITEMS) {
        let _ = writeln!(text, "error: {fault}");
    }
    if report.faults.len() > MAX_NAMED_ITEMS {
        let _ = writeln!(text, "error: {} more items like these", report.faults.len() - MAX_NAMED_ITEMS);
    }
    if let Some(finding) = choice_finding(&report.doubtful_choices) {
        describe_finding(&mut text, &finding);
    }
    let item = &report.item;
    let of_type = if item.task_type.is_empty() { String::new() } else { format!(", {}", item.task_type) };
    let _ = writeln!(text, "\nitem   {} ({}{of_type})", item.id, item.split);
    block(&mut text, "system", &item.system);
    block(&mut text, "user", &item.user);
    if item.images > 0 {
        let _ = writeln!(text, "images {}", item.images);
    }
    if !item.reference.is_empty() {
        block(&mut text, "reference", &item.reference);
    }
    for tried in &report.tries {
        let _ = writeln!(text, "\ntry    {}", tried.name);
        block(&mut text, "reply", &tried.reply);
        match &tried.outcome {
            Outcome::Scored { answer, hard, soft, reason } => {
                block(&mut text, "answer", answer);
                let score = scores(MeanScore { hard: *hard, soft: *soft }, None);
                let _ = writeln!(text, "score  {score}");
                if !reason.is_empty() {
                    let _ = writeln!(text, "reason {reason}");
                }
            }
            Outcome::NeedsJudge { judge, prompt } => {
                let _ = writeln!(
                    text,
                    "score  not known: the model `{judge}` would be asked this, and nothing is sent here"
                );
                block(&mut text, "judge", prompt);
            }
        }
    }
    text
}

/// The items of each class by split, and what is doubtful about the labels.
fn describe_labels(text: &mut String, labels: &LabelCheck) {
    let row = |class: &ClassCount| {
        let counts = Split::ALL.map(|split| class.of(split).to_string());
        std::iter::once(class.label.clone()).chain(counts).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = labels.classes.iter().map(row).collect();
    let _ = write!(text, "\n{}", table(&LABEL_COLUMNS, &rows, terminal_width()));
    for finding in label_findings(labels) {
        describe_finding(text, &finding);
    }
}

fn describe_finding(text: &mut String, finding: &Finding) {
    let _ = writeln!(text, "warning: {}", finding.message);
    if let Some(hint) = &finding.hint {
        let _ = writeln!(text, "hint: {hint}");
    }
}

/// How many items there are of each category; empty where there are no categories.
fn task_types(items: &[Item]) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for item in items.iter().filter(|item| !item.task_type.is_empty()) {
        *counts.entry(&item.task_type).or_default() += 1;
    }
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

/// A text under its name, indented.
fn block(text: &mut String, name: &str, content: &str) {
    if content.lines().count() <= 1 {
        let _ = writeln!(text, "{name:<6} {}", content.trim());
        return;
    }
    let _ = writeln!(text, "{name}");
    for line in content.lines() {
        let _ = writeln!(text, "{}", format!("  | {line}").trim_end());
    }
}
