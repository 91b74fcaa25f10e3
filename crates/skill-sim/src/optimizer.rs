//! The simulated optimizer: it reads the prompts of the training loop and answers by rules.

use crate::conventions::{Statement, glossary, statements};
use crate::diagnosis::{Finding, diagnose};
use crate::flaws::{HARMFUL, malform, spoil};
use crate::lessons::{glossary_rules, phrasings};
use crate::prompts::{Request, Trajectory, without_memory, without_size};
use crate::proposals::{propose, says_so};
use crate::rewriting::{Form, merge_skills, rewrite};
use crate::worlds::{Analysis, SaidAboutWorlds, said_about_worlds};
use crate::{PROVIDER, reply_to};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::random::Dice;
use skill_core::{Edit, EditOp, Role};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};

/// The rate of [`SimulatedOptimizer::with_flaw_rate`] where nothing else is said.
const DEFAULT_FLAW_RATE: f64 = 0.25;
/// How many replies are malformed, as a part of the flaw rate: one in six by default.
const MALFORMED_PART: f64 = 2.0 / 3.0;
/// How much likelier a flaw is where there is nothing sensible to say.
const IDLE_FACTOR: f64 = 2.0;
/// The most lines of guidance.
const MOST_GUIDANCE: usize = 12;
/// The most lines of notes.
const MOST_NOTES: usize = 4;

/// An optimizer that works by rules: it compares answers with references and proposes what would repair the difference.
///
/// It understands the prompts of a step in every update mode, and those of an epoch's end, by their headings, and
/// answers each in JSON. Its
/// diagnosis is of general classes (a sentence around the answer, the form of a date, a unit, the order of names, an
/// invented answer, and so on), so it can also teach a real target. It is sometimes bad, as real models are: broken
/// JSON, a harmful rule, a duplicate, an anchor that is not in the skill; how often is
/// [`SimulatedOptimizer::with_flaw_rate`].
#[derive(Debug, Clone)]
pub struct SimulatedOptimizer {
    id: ModelId,
    seed: u64,
    flaw_rate: f64,
}

impl SimulatedOptimizer {
    /// An optimizer; the seed decides on phrasings and flaws.
    pub fn new(seed: u64) -> Self {
        Self { id: ModelId::new(PROVIDER, "simulated-optimizer"), seed, flaw_rate: DEFAULT_FLAW_RATE }
    }

    /// The same optimizer with this rate of flaws, from 0 (never bad) to 1; 0.25 by default.
    ///
    /// It is the probability that an analyst's reply proposes something bad; two thirds of it is the probability that
    /// a reply of any kind is malformed JSON.
    #[must_use]
    pub fn with_flaw_rate(mut self, flaw_rate: f64) -> Self {
        self.flaw_rate = if flaw_rate.is_finite() { flaw_rate.clamp(0.0, 1.0) } else { DEFAULT_FLAW_RATE };
        self
    }

    fn answer(&self, system: &str, message: &str) -> String {
        // Neither what it knows of earlier steps nor how large the skill may become changes its mind.
        let dice = Dice::new(self.seed, &[&without_size(&without_memory(message))]);
        let reply = match Request::read(message) {
            Some(Request::Analyse { skill, budget, successes, trajectories }) => {
                let form = Form::asked_in(system);
                let mut analysis = self.analysis(form, &skill, budget, successes, &trajectories, dice);
                if system.contains("`appendix_notes`")
                    && let Some(fields) = analysis.as_object_mut()
                {
                    let counted = if successes { Vec::new() } else { count(&trajectories) };
                    fields.insert("appendix_notes".to_owned(), json!(reminders(&skill, &counted)));
                }
                analysis
            }
            Some(Request::Merge { edits }) => merge(Form::asked_in(system), edits),
            Some(Request::MergeSkills { skill, candidates }) => merge_skills(&skill, &candidates),
            Some(Request::Rewrite { skill, edits }) => rewrite(&skill, &edits),
            Some(Request::Shorten { notes }) => shorten(&notes),
            Some(Request::ChooseBudget { edits }) => choose_budget(&edits),
            Some(Request::Rank { budget, edits }) => rank(&edits, budget),
            Some(Request::Guide { skill, guidance, failures }) => guide(&skill, guidance, &failures, dice),
            Some(Request::Note { failures }) => note(&failures),
            None => return "I do not understand what I am asked to do here.".to_owned(),
        };
        let text = serde_json::to_string_pretty(&reply).expect("a reply serializes");
        if dice.chance("malformed", self.flaw_rate * MALFORMED_PART) { malform(&text, dice) } else { text }
    }

    fn analysis(
        &self,
        form: Form,
        skill: &str,
        budget: usize,
        successes: bool,
        trajectories: &[Trajectory],
        dice: Dice,
    ) -> Value {
        let Proposal { reasoning, mut edits, harmful, pattern, summary } =
            Proposal::of(skill, successes, trajectories, dice);
        let rate = if edits.is_empty() && !successes { self.flaw_rate * IDLE_FACTOR } else { self.flaw_rate };
        if dice.chance("flawed", rate) {
            spoil(skill, &mut edits, support_of_all(trajectories), harmful, dice);
        }
        edits.truncate(budget);
        let patch = form.patch(skill, &reasoning, &edits);
        if successes && form == Form::Edits {
            return json!({ "success_patterns": [pattern], "patch": patch });
        }
        json!({ "failure_summary": summary, "patch": patch })
    }
}

/// What an analyst who makes no mistake would propose.
struct Proposal {
    reasoning: String,
    edits: Vec<Edit>,
    /// Rules that would do harm here.
    harmful: &'static [&'static str],
    /// What is good about trajectories that succeeded.
    pattern: String,
    summary: Value,
}

impl Proposal {
    fn of(skill: &str, successes: bool, trajectories: &[Trajectory], dice: Dice) -> Self {
        if let Some(analysis) = Analysis::of(skill, successes, trajectories, dice) {
            return Self {
                reasoning: analysis.reasoning(successes),
                pattern: format!("{} episodes reached their goal", trajectories.len()),
                summary: json!(analysis.summary()),
                harmful: analysis.harmful,
                edits: analysis.edits,
            };
        }
        let counted = if successes { Vec::new() } else { count(trajectories) };
        let edits = propose(skill, &counted, dice);
        let summary = counted.iter().map(|(finding, count)| {
            json!({ "failure_type": finding.name(), "count": count, "description": description(finding) })
        });
        Self {
            reasoning: reasoning(&counted, edits.is_empty(), successes),
            pattern: format!("{} answers in the wanted form", trajectories.len()),
            summary: summary.collect(),
            harmful: HARMFUL,
            edits,
        }
    }
}

fn support_of_all(trajectories: &[Trajectory]) -> u32 {
    u32::try_from(trajectories.len()).unwrap_or(u32::MAX)
}

#[async_trait]
impl ChatModel for SimulatedOptimizer {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        json!({ "seed": self.seed, "flaw_rate": self.flaw_rate })
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if call.cancel.is_cancelled() {
            return Err(LlmError::Cancelled);
        }
        request.sampling.refuse_logprobs(&self.id)?;
        Ok(reply_to(request, self.answer(&request.text_of(Role::System), &request.text_of(Role::User))))
    }
}

/// The findings over all trajectories, the commonest first.
fn count(trajectories: &[Trajectory]) -> Vec<(Finding, u32)> {
    let mut counted: Vec<(Finding, u32)> = Vec::new();
    for finding in trajectories.iter().flat_map(diagnose) {
        let same = |known: &Finding| {
            matches!((known, &finding), (Finding::PlaceInWords(_), Finding::PlaceInWords(_)))
                || *known == finding
        };
        match counted.iter_mut().find(|(known, _)| same(known)) {
            Some((_, count)) => *count += 1,
            None => counted.push((finding, 1)),
        }
    }
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted
}

fn reasoning(counted: &[(Finding, u32)], nothing: bool, successes: bool) -> String {
    if successes {
        return "These went well; the skill needs no new rule to keep them so.".to_owned();
    }
    match counted {
        [] => "The answers are wrong in no way that a general rule would mend.".to_owned(),
        [..] if nothing => "What went wrong is already covered by the skill's rules.".to_owned(),
        [(commonest, count), ..] => {
            let name = commonest.name();
            format!(
                "The commonest failure is \"{name}\" ({count}): the references are consistent, so a rule will do."
            )
        }
    }
}

fn description(finding: &Finding) -> String {
    match finding {
        Finding::Wordy => "the right answer stands inside a longer text".to_owned(),
        Finding::DateForm => "the right day in another form than the reference".to_owned(),
        Finding::ClockForm => "the right time in another form than the reference".to_owned(),
        Finding::WrongUnit(unit) => format!("the right amount, but not in {}", unit.plural()),
        Finding::NameOrder => "the right person with the names in another order".to_owned(),
        Finding::MadeUp(word) => format!("an answer where the reference says {word}"),
        Finding::OverAbstained => "no answer where the reference has one".to_owned(),
        Finding::Word { field, .. } => format!("the {field} in words where the reference has a code"),
        Finding::PlaceInWords(_) => "a place in words where the reference has a letter and digits".to_owned(),
        Finding::ListForm => "the right entries in another order or with other signs between them".to_owned(),
        Finding::Casing => "right but for capital letters".to_owned(),
        Finding::Punctuation => "right but for punctuation at the ends".to_owned(),
    }
}

/// One patch of all edits: duplicates go, their support is added up, and the first of them stays.
fn merge(form: Form, edits: Vec<Edit>) -> Value {
    let total = edits.len();
    let mut merged: Vec<Edit> = Vec::new();
    for edit in edits {
        match merged.iter_mut().find(|known| mean_the_same(known, &edit)) {
            Some(known) => {
                let sum = known.support_count.unwrap_or(1).saturating_add(edit.support_count.unwrap_or(1));
                known.support_count = Some(sum);
                unite_glossaries(known, &edit);
            }
            None => merged.push(edit),
        }
    }
    let reasoning = format!("{total} edits, {} after duplicates were \"folded\" together.", merged.len());
    form.patch("", &reasoning, &merged)
}

fn mean_the_same(a: &Edit, b: &Edit) -> bool {
    if a.op == EditOp::Delete || b.op == EditOp::Delete {
        return a.op == b.op && a.target.trim() == b.target.trim();
    }
    let said = |edit: &Edit| -> Vec<Statement> { edit.content.lines().flat_map(statements).collect() };
    let (said_a, said_b) = (said(a), said(b));
    if said_a.is_empty() && said_b.is_empty() {
        let [worlds_a, worlds_b] = [a, b].map(|edit| said_about_worlds(&edit.content));
        let says_something = worlds_a != SaidAboutWorlds::default();
        return a.content.trim() == b.content.trim() || says_something && worlds_a == worlds_b;
    }
    a.content.trim() == b.content.trim() || !said_a.is_empty() && said_a == said_b
}

/// Adds the codes of `other` that `edit` does not have.
fn unite_glossaries(edit: &mut Edit, other: &Edit) {
    let known = glossary(&edit.content);
    let missing: Vec<(String, String)> =
        glossary(&other.content).into_iter().filter(|pair| !known.contains(pair)).collect();
    if known.is_empty() || missing.is_empty() {
        return;
    }
    let field = edit.content.split(':').next().and_then(|head| head.split(" the ").nth(1)).unwrap_or("value");
    let field = field.split(" by ").next().unwrap_or(field).trim().to_owned();
    let all: Vec<(String, String)> = known.into_iter().chain(missing).collect();
    if let Some(rule) = glossary_rules(&field, &all).first() {
        edit.content = format!("- {rule}");
    }
}

/// The notes without those that remind of the same rule as an earlier one, and at most half of them.
fn shorten(notes: &[String]) -> Value {
    let said = |note: &String| -> Vec<Statement> { statements(note) };
    let mut kept: Vec<&String> = Vec::new();
    for note in notes {
        if !kept.iter().any(|known| *known == note || !said(note).is_empty() && said(known) == said(note)) {
            kept.push(note);
        }
    }
    kept.truncate(notes.len().div_ceil(2));
    json!({ "appendix_notes": kept })
}

/// Reminders of rules that the skill has for what went wrong all the same.
fn reminders(skill: &str, counted: &[(Finding, u32)]) -> Vec<String> {
    counted
        .iter()
        .filter(|(finding, _)| says_so(skill, finding, None))
        .filter_map(|(finding, _)| phrasings(finding).into_iter().next())
        .map(|rule| format!("Keep to this rule of the skill: {rule}"))
        .collect()
}

/// As many edits as more than one trajectory speaks for, and at least one.
fn choose_budget(edits: &[Edit]) -> Value {
    let n_supported = edits.iter().filter(|edit| edit.support_count.unwrap_or(1) > 1).count();
    json!({
        "reasoning": format!("{n_supported} edits rest on more than one trajectory."),
        "learning_rate": n_supported.max(1),
    })
}

/// The guidance that is there already, and rules for what still fails.
fn guide(skill: &str, mut guidance: Vec<String>, failures: &[Trajectory], dice: Dice) -> Value {
    let counted = count(failures);
    for edit in propose(skill, &counted, dice) {
        let is_rule = edit.op != EditOp::Delete && !edit.content.trim().is_empty();
        if is_rule && !guidance.contains(&edit.content) {
            guidance.extend(edit.content.lines().map(str::to_owned));
        }
    }
    guidance.truncate(MOST_GUIDANCE);
    json!({ "reasoning": reasoning(&counted, guidance.is_empty(), false), "slow_update_content": guidance.join("\n") })
}

/// What is left to do, as a note to oneself.
fn note(failures: &[Trajectory]) -> Value {
    let notes: Vec<String> = count(failures)
        .iter()
        .take(MOST_NOTES)
        .map(|(finding, count)| format!("- Still open in {count} of the tasks: {}.", description(finding)))
        .collect();
    json!({ "reasoning": "What the comparison leaves open.", "meta_skill_content": notes.join("\n") })
}

/// The best supported edits; of equals the earlier one.
fn rank(edits: &[Edit], budget: usize) -> Value {
    let mut order: Vec<(usize, u32)> =
        edits.iter().enumerate().map(|(index, edit)| (index, edit.support_count.unwrap_or(1))).collect();
    order.sort_by_key(|(_, support)| std::cmp::Reverse(*support));
    let selected: Vec<usize> = order.into_iter().take(budget).map(|(index, _)| index).collect();
    json!({ "reasoning": "The edits that mend \"most\" failures come first.", "selected_indices": selected })
}
