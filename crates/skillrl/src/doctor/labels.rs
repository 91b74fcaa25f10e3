//! Class labels that are misspelt, contradict each other, or are too rare.

use super::{Check, Finding, counted, in_code};
use indexmap::IndexMap;
use skill_envs::labels::{DoubtfulChoice, LabelCheck, LabelConflict, doubtful_choices};
use skill_envs::{Env, Split};
use std::collections::BTreeSet;

/// How many labels or items a message names.
const MAX_NAMED: usize = 5;

/// What is doubtful about class labels, one finding for each kind of fault.
pub fn label_findings(labels: &LabelCheck) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !labels.similar.is_empty() {
        let pairs = labels.similar.iter().map(|pair| {
            let [rare, usual] = [&pair.rare, &pair.usual].map(|label| in_code(label));
            format!("{rare} ({}) and {usual} ({})", items(pair.n_rare), items(pair.n_usual))
        });
        let message = format!("labels that may be one: {}", named(pairs));
        let folds: Vec<String> =
            labels.similar.iter().map(|pair| format!("{}={}", pair.rare, pair.usual)).collect();
        let options: Vec<String> =
            folds.iter().take(MAX_NAMED).map(|fold| format!("--label {}", word(fold))).collect();
        let hint = format!(
            "`{}` with a data file, or `env.fold_labels`, counts the rarer one as the other; or correct the data",
            options.join(" ").replace('`', "'")
        );
        findings.push(Finding::warning(Check::Labels, message, hint));
    }
    if !labels.conflicts.is_empty() {
        let pairs = labels.conflicts.iter().map(conflict);
        let n_items = counted(labels.conflicts.len(), "item");
        let message =
            format!("{n_items} with the input of another item and a different label: {}", named(pairs));
        findings.push(Finding::warning(
            Check::Labels,
            message,
            "correct one of the labels, or remove one of the items",
        ));
    }
    findings.extend(missing_classes(labels));
    findings
}

/// A word of a command line.
fn word(text: &str) -> String {
    let is_plain = |sign: char| sign.is_alphanumeric() || "=_-.".contains(sign);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The classes that splits have no item of, each once.
fn missing_classes(labels: &LabelCheck) -> Option<Finding> {
    // A misspelling is reported above; it is not a class that a split lacks.
    let is_misspelt = |label: &str| labels.similar.iter().any(|pair| pair.rare == label);
    let mut missing: IndexMap<&str, (usize, Vec<&str>)> = IndexMap::new();
    let mut first = None;
    for split in Split::ALL {
        for class in labels.missing_in(split).into_iter().filter(|class| !is_misspelt(&class.label)) {
            first.get_or_insert(split);
            let n_items = class.train + class.val + class.test;
            missing.entry(&class.label).or_insert((n_items, Vec::new())).1.push(split.as_str());
        }
    }
    let classes = missing.iter().map(|(label, (n_items, splits))| {
        format!("{} ({} in all) in {}", in_code(label), items(*n_items), splits.join(" and "))
    });
    let message = format!("classes without an item: {}", named(classes));
    Some(Finding::warning(Check::Labels, message, hint_for(first?)))
}

/// What is doubtful about choices; `None` where nothing is.
pub fn choice_finding(doubtful: &[DoubtfulChoice]) -> Option<Finding> {
    let ids: BTreeSet<&str> = doubtful.iter().map(|choice| choice.id.as_str()).collect();
    let pairs = doubtful.iter().map(|choice| format!("{} of {}", in_code(&choice.text), choice.id));
    (!ids.is_empty()).then(|| {
        let n_items = counted(ids.len(), "item");
        let message = format!("{n_items} with a choice whose text is the label of another choice: {}", named(pairs));
        let hint = "an answer with these words names the choice with that label; have the agent answer with a label, or \
                    give the choices other labels, such as letters";
        Finding::warning(Check::Labels, message, hint)
    })
}

/// The findings about an environment's labels and choices, or that labels are well; nothing where it has neither.
pub(super) fn findings(env: &dyn Env, inputs: &super::data::Inputs) -> Vec<Finding> {
    if let Some(finding) = choice_finding(&doubtful_choices(env)) {
        return vec![finding];
    }
    let Some(labels) = LabelCheck::of(env, |item| inputs.get(&item.id).map(|input| input.hash.as_str()))
    else {
        return Vec::new();
    };
    let mut findings = label_findings(&labels);
    if findings.is_empty() {
        let message = format!("{}, each in every split", counted(labels.classes.len(), "class label"));
        findings.push(Finding::ok(Check::Labels, message));
    }
    findings
}

fn hint_for(split: Split) -> &'static str {
    match split {
        Split::Train => {
            "add such items to the training split: no edit can be learned from a class that is not in it"
        }
        Split::Val => {
            "add such items, or give `val` a larger share: the gate does not see what an edit does to this class"
        }
        Split::Test => {
            "add such items, or give `test` a larger share: the final score does not cover this class"
        }
    }
}

fn conflict(conflict: &LabelConflict) -> String {
    let LabelConflict { first, second } = conflict;
    let [first, second] = [first, second]
        .map(|item| format!("{} ({}) is {}", in_code(item.id.as_str()), item.split, in_code(&item.label)));
    format!("{first} and {second}")
}

fn items(count: usize) -> String {
    counted(count, "item")
}

/// The first ones, and how many there are besides.
pub(super) fn named(texts: impl ExactSizeIterator<Item = String>) -> String {
    let n_more = texts.len().saturating_sub(MAX_NAMED);
    let mut shown: Vec<String> = texts.take(MAX_NAMED).collect();
    if n_more > 0 {
        shown.push(format!("{n_more} more"));
    }
    shown.join(", ")
}
