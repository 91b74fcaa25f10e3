//! Can a reply that follows the prompt score 1? One function for data without a configuration, for `doctor`, and for what
//! a run keeps of its checks.

use super::config::Extraction;
use super::rollout::Agenda;
use super::scorers::{Answer, Scorer};
use super::task::Asked;
use crate::answerable::{AnswerFinding, MAX_EXACT_WORDS, ReplyForm};
use skill_core::decoration::of_cell;
use skill_core::labels::{class_counts, class_label};
use skill_core::{ItemId, SkillDoc, Usage};
use skill_llm::ChatReply;
use std::collections::BTreeMap;

/// The number of items whose prompts are searched for what every prompt has to state.
const MAX_PROMPTS: usize = 20;
/// Answers are classes if there are at least so many different ones, and on average so many items for each.
const MIN_REPEATED: usize = 2;
const MIN_ITEMS_OF_ANSWER: usize = 3;
/// Words with which prompts in some languages request the answer alone.
const ALONE: [&str; 26] = [
    "nothing else",
    "only",
    "just ",
    "exactly",
    "alone",
    "no explanation",
    "without explanation",
    "one word",
    "single",
    "verbatim",
    "shortest",
    "as short as",
    "one of",
    "nur ",
    "nichts anderes",
    "ausschließlich",
    "seulement",
    "uniquement",
    "rien d'autre",
    "solo ",
    "únicamente",
    "soltanto",
    "apenas",
    "только",
    "只",
    "のみ",
];

/// Whether the prompt states the form of an answer, and whether the references, written as a model would write them, score
/// 1.
pub(crate) fn answerable<'a>(
    tasks: impl Iterator<Item = Asked<'a>>,
    agenda: &Agenda,
    skill: &SkillDoc,
) -> Vec<AnswerFinding> {
    let tasks: Vec<Asked<'a>> = tasks.collect();
    let prompt_of = |task: &Asked<'_>| {
        let request = agenda.messages(*task, skill).ok()?;
        let texts: Vec<String> = request.messages.iter().map(|message| message.text().to_string()).collect();
        Some(plain(&texts.join("\n")))
    };
    let prompts: Vec<String> = tasks.iter().take(MAX_PROMPTS).filter_map(prompt_of).collect();
    let is_everywhere = |text: &str| prompts.iter().all(|prompt| prompt.contains(&plain(text)));
    let mut findings = Vec::new();
    findings.extend(hidden_choices(&tasks, agenda, &prompt_of));
    findings.extend(unnamed_classes(&tasks, agenda, &is_everywhere));
    findings.extend(prose(&tasks, agenda));
    let parts: Vec<String> =
        parts_of_form(&tasks, agenda).into_iter().filter(|part| !is_everywhere(part)).collect();
    if !parts.is_empty() {
        findings.push(AnswerFinding::FormUnnamed { parts });
    }
    for form in [ReplyForm::Requested, ReplyForm::Bold] {
        if let Some(finding) = rejected(&tasks, agenda, form) {
            findings.push(finding);
            // What fails alone fails in bold as well.
            return findings;
        }
    }
    let requests_alone = || prompts.iter().all(|prompt| ALONE.iter().any(|words| prompt.contains(words)));
    if let Some(AnswerFinding::ReferenceRejected { id, reply, .. }) =
        rejected(&tasks, agenda, ReplyForm::Sentence).filter(|_| !requests_alone())
    {
        findings.push(AnswerFinding::AnswerAloneUnstated { id, reply });
    }
    findings
}

/// A text as it is compared with prompts: in lower case, with single blanks, without entities of HTML.
fn plain(text: &str) -> String {
    of_cell(text).split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn hidden_choices(
    tasks: &[Asked<'_>],
    agenda: &Agenda,
    prompt_of: &dyn Fn(&Asked<'_>) -> Option<String>,
) -> Option<AnswerFinding> {
    agenda.scorer.choice_by()?;
    let hidden = tasks.iter().filter_map(|task| {
        let prompt = prompt_of(task)?;
        let choice = task.choices.iter().find(|choice| !prompt.contains(&plain(&choice.text)))?;
        Some((task.item.id.clone(), choice.text.clone()))
    });
    let hidden: Vec<_> = hidden.collect();
    let n_items = hidden.len();
    let (id, text) = hidden.into_iter().next()?;
    Some(AnswerFinding::ChoicesHidden { n_items, id, text })
}

fn unnamed_classes(
    tasks: &[Asked<'_>],
    agenda: &Agenda,
    is_everywhere: &dyn Fn(&str) -> bool,
) -> Option<AnswerFinding> {
    let labels: Vec<&[String]> =
        tasks.iter().map(|task| agenda.scorer.labels(task.task)).collect::<Option<_>>()?;
    let labels = labels.concat();
    let classes = class_counts(labels.iter().map(String::as_str)).or_else(|| repeated(&labels, agenda))?;
    let unnamed: Vec<String> = classes.keys().filter(|label| !is_everywhere(label)).cloned().collect();
    (!unnamed.is_empty()).then_some(AnswerFinding::ClassesUnnamed { n_classes: classes.len(), unnamed })
}

/// How many items have each answer, if the answers are repeated as classes are, but are too many or too long for what is
/// taken for labels elsewhere.
fn repeated(answers: &[String], agenda: &Agenda) -> Option<BTreeMap<String, usize>> {
    if !agenda.scorer.compares_words() {
        return None;
    }
    let mut counts = BTreeMap::<String, usize>::new();
    for answer in answers {
        *counts.entry(class_label(answer).into_owned()).or_default() += 1;
    }
    let is_number = |answer: &String| answer.parse::<f64>().is_ok();
    let is_repeated = counts.len() >= MIN_REPEATED && answers.len() >= MIN_ITEMS_OF_ANSWER * counts.len();
    (is_repeated && !counts.keys().all(is_number)).then_some(counts)
}

/// References that are texts of several sentences, under a scorer that compares words.
fn prose(tasks: &[Asked<'_>], agenda: &Agenda) -> Option<AnswerFinding> {
    if !agenda.scorer.compares_words() {
        return None;
    }
    let n_words = |answer: &String| answer.split_whitespace().count();
    // A reply has to be one of them.
    let mut words: Vec<usize> =
        tasks.iter().filter_map(|task| task.answers.iter().map(n_words).min()).collect();
    words.sort_unstable();
    let n_words = words.get(words.len() / 2).copied()?;
    (n_words > MAX_EXACT_WORDS).then_some(AnswerFinding::ReferencesProse { n_words })
}

/// What a reply has to contain besides the answer, by the names that a prompt has to say.
fn parts_of_form(tasks: &[Asked<'_>], agenda: &Agenda) -> Vec<String> {
    let mut parts = match agenda.extractor.extraction() {
        Extraction::LastTag { tag } => vec![format!("<{tag}>")],
        Extraction::Json { field } => field.rsplit('.').next().map(str::to_owned).into_iter().collect(),
        Extraction::Whole | Extraction::LastLine | Extraction::Regex { .. } => Vec::new(),
    };
    let members = agenda.scorer.members(tasks);
    parts.extend(members.iter().filter_map(|name| name.rsplit('.').next().map(str::to_owned)));
    parts
}

/// The items whose references are all rejected in this form.
fn rejected(tasks: &[Asked<'_>], agenda: &Agenda, form: ReplyForm) -> Option<AnswerFinding> {
    if !can_compare(agenda, form) {
        return None;
    }
    let failing = |task: &&Asked<'_>| !is_accepted(**task, agenda, form);
    let failing: Vec<&Asked<'_>> = tasks.iter().filter(failing).collect();
    let first = failing.first()?;
    let answer = agenda.scorer.right_answers(first).first()?.clone();
    Some(AnswerFinding::ReferenceRejected {
        form,
        n_items: failing.len(),
        id: first.item.id.clone(),
        reply: reply_in(agenda, &answer, form).unwrap_or(answer),
    })
}

/// The first right answer, if a second scorer rejects those of all items; `None` as well where that is not known without a
/// model or a program.
pub(crate) fn rejected_by_guard<'a>(
    tasks: impl Iterator<Item = Asked<'a>>,
    agenda: &Agenda,
    guard: &Scorer,
) -> Option<(ItemId, String)> {
    let guarding = Agenda { scorer: guard.clone(), guard: None, ..agenda.clone() };
    let tasks: Vec<Asked<'a>> = tasks.filter(|task| !task.answers.is_empty()).collect();
    if !can_compare(&guarding, ReplyForm::Requested)
        || tasks.iter().any(|task| is_accepted(*task, &guarding, ReplyForm::Requested))
    {
        return None;
    }
    let first = tasks.first()?;
    Some((first.item.id.clone(), agenda.scorer.right_answers(first).first()?.clone()))
}

/// True if a reply in this form can be made and scored without a model or a program, and if the scorer is one that accepts
/// it.
fn can_compare(agenda: &Agenda, form: ReplyForm) -> bool {
    let extraction = agenda.extractor.extraction();
    let is_whole = matches!(extraction, Extraction::Whole);
    !matches!(extraction, Extraction::Regex { .. }) && agenda.scorer.has_to_accept(form, is_whole)
}

/// True if one of the references scores 1 in this form.
fn is_accepted(task: Asked<'_>, agenda: &Agenda, form: ReplyForm) -> bool {
    agenda.scorer.right_answers(&task).iter().any(|answer| {
        let Some(text) = reply_in(agenda, answer, form) else { return false };
        let reply = ChatReply::text(text, Usage::default());
        let extracted = agenda.extractor.extract(&reply.text);
        let answer =
            Answer { task, text: &extracted.answer, whole: None, noun: "reply", reply: &reply, asked: "" };
        agenda.scorer.accepts(&answer)
    })
}

/// A reply with this answer in this form.
fn reply_in(agenda: &Agenda, answer: &str, form: ReplyForm) -> Option<String> {
    let in_bold = || match agenda.scorer.marked(answer) {
        Some(marked) => marked,
        None if matches!(agenda.extractor.extraction(), Extraction::Json { .. }) => answer.to_owned(),
        None => format!("**{}**", answer.trim()),
    };
    match form {
        ReplyForm::Requested => agenda.extractor.reply_with(answer),
        ReplyForm::Bold => agenda.extractor.reply_with(&in_bold()),
        ReplyForm::Sentence => Some(format!("The answer is {}.", answer.trim())),
    }
}

#[cfg(test)]
mod tests {
    use crate::answerable::{AnswerFinding, ReplyForm};
    use crate::env::Env as _;
    use crate::score::NumericOptions;
    use crate::tasks::{Extraction, NamedPrompt, ScorerConfig, TasksConfig, TasksEnv};
    use serde_json::{Value, json};
    use skill_core::SkillDoc;

    /// The findings of thirty items with this prompt and scorer.
    fn found(
        row: impl Fn(usize) -> Value,
        asks: &str,
        scorer: ScorerConfig,
        extraction: Extraction,
    ) -> Vec<AnswerFinding> {
        let dir = tempfile::tempdir().unwrap();
        let rows: String = (0..30).map(|number| format!("{}\n", row(number))).collect();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, rows).unwrap();
        let mut config = TasksConfig::new(path);
        let source = format!(
            "{{% block system %}}{{{{ skill }}}}{{% endblock %}}{{% block user %}}{asks}{{% endblock %}}"
        );
        config.settings.prompt = Some(NamedPrompt { name: "prompt".to_owned(), source });
        config.settings.scorer = scorer;
        config.settings.extraction = extraction;
        TasksEnv::load(&config).unwrap().answerable(&SkillDoc::default())
    }

    /// The kinds of the findings.
    #[track_caller]
    fn check(
        row: impl Fn(usize) -> Value,
        asks: &str,
        (scorer, extraction): (ScorerConfig, Extraction),
        expect: &[&str],
    ) {
        let findings = found(row, asks, scorer, extraction);
        let kinds: Vec<String> = findings
            .iter()
            .map(|finding| json!(finding)["kind"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds, expect, "{findings:?}");
    }

    const EXACT: ScorerConfig = ScorerConfig::Exact { ignore_case: false };

    fn fields() -> ScorerConfig {
        ScorerConfig::JsonFields { fields: Vec::new(), tolerance: 0.0, ignore_case: false }
    }

    #[test]
    fn what_a_right_reply_cannot_solve_is_found() {
        let label = |n: usize| json!({"question": format!("case {n}"), "answer": (["red", "blue"][n % 2])});
        let whole = |scorer: ScorerConfig| (scorer, Extraction::Whole);
        check(label, "{{ question }} Answer only red or blue.", whole(EXACT), &[]);
        check(label, "{{ question }} Answer only red.", whole(EXACT), &["classes_unnamed"]);
        check(label, "{{ question }} Is it red or blue?", whole(EXACT), &["answer_alone_unstated"]);
        check(label, "{{ question }} Only red, blue?", whole(ScorerConfig::LabelSet), &[]);
        let tag = || Extraction::LastTag { tag: "final".to_owned() };
        check(label, "{{ question }} red, blue", (EXACT, tag()), &["form_unnamed"]);
        check(label, "{{ question }} red, blue. {{ answer_format }}", (EXACT, tag()), &[]);
        let object = |n: usize| json!({"question": n.to_string(), "answer": {"city": "Paris", "n": n}});
        check(object, "{{ question }}", whole(fields()), &["form_unnamed"]);
        check(object, "{{ question }}: JSON with city and n", whole(fields()), &[]);
        let choice = |n: usize| {
            let choices = [format!("red{n}"), format!("blue{n}")];
            json!({"question": format!("case {n}"), "choices": choices, "answer": "B"})
        };
        let by_choice = || ScorerConfig::Choice { by: crate::score::ChoiceBy::Either };
        check(choice, "{{ question }}", whole(by_choice()), &["choices_hidden"]);
        check(choice, "{{ question }} {{ choice_list }}", whole(by_choice()), &[]);
        let number = |n: usize| json!({"question": "how many?", "answer": format!("{n},50 EUR")});
        check(number, "{{ question }}", whole(ScorerConfig::Numeric(NumericOptions::default())), &[]);
    }

    #[test]
    fn references_that_nobody_repeats_and_classes_beyond_every_list_are_found() {
        let whole = |scorer: ScorerConfig| (scorer, Extraction::Whole);
        let only = "{{ question }} Only that.";
        let text = |n: usize| {
            let answer = format!(
                "Parcel {n} was sent on Monday, and since then nobody has seen it again, so it is lost."
            );
            json!({"question": format!("case {n}"), "answer": answer})
        };
        for scorer in [EXACT, ScorerConfig::EmF1] {
            check(text, only, whole(scorer), &["references_prose"]);
        }
        check(text, only, whole(ScorerConfig::Contains), &[]);
        let short = |n: usize| json!({"question": format!("case {n}"), "answer": [format!("Parcel {n}"), text(n)["answer"]]});
        check(short, only, whole(ScorerConfig::EmF1), &[]);
        let long = |n: usize| json!({"question": format!("case {n}"), "answer": format!("{} {}", "very ".repeat(30), n % 2)});
        check(long, only, whole(EXACT), &["classes_unnamed", "references_prose"]);
    }

    #[test]
    fn references_that_no_reply_can_give_are_counted() {
        let row = |n: usize| {
            let answer = if n < 2 { format!("a{n} </final> b") } else { format!("word{n}") };
            json!({"question": format!("case {n}"), "answer": answer})
        };
        let tag = Extraction::LastTag { tag: "final".to_owned() };
        let findings = found(row, "{{ question }} {{ answer_format }}", EXACT, tag);
        let [AnswerFinding::ReferenceRejected { form, n_items, reply, .. }] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        assert_eq!((*form, *n_items), (ReplyForm::Requested, 2));
        assert!(reply.contains("</final> b"), "{reply}");
    }
}
