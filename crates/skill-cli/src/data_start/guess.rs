//! What a data file and the options come to, as settings; what a person should know of it is said line by line.

use super::Use;
use super::fields::{self, Shown};
use super::models::{self, Purpose, setting};
use crate::args::{DataArgs, Start};
use crate::error::CommandError;
use skillrl::config::nearest_name;
use skillrl::core::decoration::of_cell;
use skillrl::envs::Split;
use skillrl::envs::answerable::MAX_EXACT_WORDS;
use skillrl::envs::tasks::{DataSample, DataSurvey, folds, foreign_layout, split_of_file, splits_of_names};
use skillrl::identify::PathError;
use std::collections::BTreeMap;
use std::path::Path;

/// Fewer rows cannot be split into parts that show anything.
const MIN_ROWS: usize = 12;
/// What to start with.
const ENOUGH_ROWS: usize = 60;
/// So many spellings of labels are named.
const MAX_NAMED: usize = 4;
/// Spellings of a missing value.
const MISSING: [&str; 4] = ["nan", "null", "n/a", "#n/a"];
/// The scorer that needs no right answers.
const RUBRIC: &str = "rubric";

/// What the data and the options come to.
pub(super) struct Guess {
    /// Settings in the form `KEY=VALUE`.
    pub(super) settings: Vec<String>,
    /// The fields that are shown.
    pub(super) shown: Shown,
    /// What a person should know of it, line by line.
    pub(super) said: Vec<String>,
}

impl Guess {
    /// The guess for a file of this name, whose run is called like this; `is_set` says whether an environment variable is
    /// there.
    ///
    /// # Errors
    ///
    /// Data that cannot be read or of which nothing can be learned, fields that are not there, and a model that nobody
    /// names.
    pub(super) fn of(
        (data, run): (&Path, &str),
        args: &DataArgs,
        start: &Start,
        used: Use,
        is_set: &dyn Fn(&str) -> bool,
    ) -> crate::Result<Self> {
        if data.to_str().is_some_and(|path| path.contains("://")) {
            let message = format!("{} is an address, and data are read from files", data.display());
            let hint = "download it first; a data set of Hugging Face is named `hf://OWNER/NAME`";
            return Err(CommandError::new(message).with_hint(hint).into());
        }
        let mut sample = DataSample::read(data).map_err(skillrl::Error::Env)?;
        check_layout(data, args, &sample)?;
        let answer = answer_field(data, args, start, &sample)?;
        let answer = answer.as_deref();
        let folds = folds(&args.labels).map_err(skillrl::Error::Env)?;
        let survey = DataSurvey::read(data, answer, &folds).map_err(skillrl::Error::Env)?;
        check_folds(args, &survey)?;
        sample.has_choices |= !survey.choice_fields.is_empty();
        let facts = Facts { args, start, sample: &sample, survey: &survey, answer };
        check_rows(&survey, facts.scorer(), facts.sets("env.scorer"))?;
        let shown = Shown::of(args, answer, &sample, &survey)?;
        let mut said = shown.lines();
        let run = if start.mock == Some(true) { format!("runs/{run}-mock") } else { format!("runs/{run}") };
        let mut settings = vec![
            setting("env.kind", "tasks"),
            setting("env.data", &data.display().to_string()),
            setting("run.dir", &run),
        ];
        settings.extend(facts.scoring());
        settings.extend(facts.labels_and_rows(&mut said));
        settings.extend(splits(data, used, &mut said)?);
        if let Some(prompt) = facts.prompt(&shown.shown) {
            settings.push(setting("env.user_prompt", &crate::output::json(&prompt)));
        }
        settings.extend(match facts.is_simulated() {
            true => facts.simulated_models(),
            false => {
                let purpose = if used.sends() { Purpose::Calls } else { Purpose::DryRun };
                models::settings(args, purpose, is_set)?
            }
        });
        settings.push(super::PLANNED.to_owned());
        settings.extend(args.budget.map(|budget| setting("budget.money", &format!("{budget:?}"))));
        Ok(Self { settings, shown, said })
    }
}

/// The settings of the splits that the names of files say.
fn splits(data: &Path, used: Use, said: &mut Vec<String>) -> Result<Option<String>, skillrl::Error> {
    if used == Use::Measures && split_of_file(data) == Some(Split::Test) {
        said.push("the file is a test split by its name: all of it is measured".to_owned());
        return Ok(Some(setting("env.split_ratio", "0:0:1")));
    }
    let found = splits_of_names(data).map_err(skillrl::Error::Env)?;
    Ok((found == [Split::Train, Split::Val]).then(|| {
        said.push(
            "the data have no test split: a run ends with the validation score, which chose the skill"
                .to_owned(),
        );
        setting("eval.test", "false")
    }))
}

/// The settings that are proposed for data with this answer column.
pub(crate) struct Proposal {
    /// The scorer.
    pub(crate) scorer: &'static str,
    /// What the agent is asked, and the form of its answer; `None` where the built-in prompt asks the same.
    pub(crate) prompt: Option<String>,
    /// Settings of fields, labels and rows, in the form `KEY=VALUE`.
    pub(crate) settings: Vec<String>,
    /// Notes for the person, one per line.
    pub(crate) said: Vec<String>,
}

impl Proposal {
    /// The proposal; the sample is told of choices in columns.
    pub(crate) fn of(sample: &mut DataSample, survey: &DataSurvey, answer: &str) -> Self {
        let (args, start) = (DataArgs::default(), Start::default());
        sample.has_choices |= !survey.choice_fields.is_empty();
        let facts = Facts { args: &args, start: &start, sample, survey, answer: Some(answer) };
        let mut said = Vec::new();
        let mut settings = facts.fields();
        settings.extend(facts.labels_and_rows(&mut said));
        Self { scorer: facts.scorer(), prompt: facts.prompt(&survey.shown()), settings, said }
    }
}

/// Refuses conversations, traces and annotations by name, unless the right answer is in a field beside them.
fn check_layout(data: &Path, args: &DataArgs, sample: &DataSample) -> crate::Result {
    let Some(layout) = foreign_layout(&sample.fields) else { return Ok(()) };
    let is_preferred =
        |name: &String| name == "chosen" && sample.fields.get(name).is_some_and(|reply| reply.is_string());
    if args.answer.as_ref().is_some_and(|name| layout.has_beside(sample, name) || is_preferred(name)) {
        return Ok(());
    }
    let (path, name, hint) = (data.to_owned(), layout.name, layout.hint);
    Err(skillrl::Error::Path(PathError::Foreign { path, name, hint }).into())
}

/// The field with the right answer; `None` where a rubric stands for it.
fn answer_field(
    data: &Path,
    args: &DataArgs,
    start: &Start,
    sample: &DataSample,
) -> Result<Option<String>, CommandError> {
    let known: Vec<&str> = sample.fields.keys().map(String::as_str).collect();
    let has_rubric = args.rubric.is_some() || sets(start, "env.rubric") || sets(start, "env.rubric_file");
    match (&args.answer, sample.answer_field) {
        (Some(asked), _) if sample.leads_into(asked) => Ok(Some(asked.clone())),
        (Some(asked), _) => fields::named(asked, &known).map(|name| Some(name.to_owned())),
        (None, Some(usual)) => Ok(Some(usual.to_owned())),
        (None, None) if has_rubric => Ok(None),
        (None, None) => Err(fields::no_answer(data, sample)),
    }
}

/// What the settings follow from.
struct Facts<'a> {
    args: &'a DataArgs,
    start: &'a Start,
    sample: &'a DataSample,
    survey: &'a DataSurvey,
    answer: Option<&'a str>,
}

impl Facts<'_> {
    fn sets(&self, key: &str) -> bool {
        sets(self.start, key)
    }

    /// The classes, where right answers are class labels and score as such.
    fn labels(&self) -> Option<(&str, &BTreeMap<String, usize>)> {
        let labels = self.survey.labels.as_ref().filter(|_| !self.sample.has_choices);
        self.answer.zip(labels).filter(|_| self.args.rubric.is_none())
    }

    fn scorer(&self) -> &'static str {
        if self.args.rubric.is_some() {
            return RUBRIC;
        }
        match (self.labels(), self.answer) {
            (_, None) => RUBRIC,
            (Some(_), Some(_)) if self.survey.are_sets => "label_set",
            // Labels are the same text or not; words in common with another label say nothing.
            (Some(_), Some(_)) => "exact",
            (None, Some(_)) => self.survey.scorer(self.sample),
        }
    }

    /// True if no model is named and none is to be asked.
    fn is_simulated(&self) -> bool {
        self.start.mock == Some(true) && self.args.model.is_none() && self.args.target.is_none()
    }

    /// The fields with the id and with choices, where they have no usual names.
    fn fields(&self) -> Vec<String> {
        let id = self.survey.id_field.as_ref().map(|id| setting("env.id_field", id));
        let choices = Some(self.survey.choice_fields.join(",")).filter(|fields| !fields.is_empty());
        id.into_iter().chain(choices.map(|fields| setting("env.choices_field", &fields))).collect()
    }

    /// What is right, and who says so.
    fn scoring(&self) -> Vec<String> {
        let mut settings: Vec<String> = Vec::new();
        settings.extend(self.answer.map(|answer| setting("env.answer_field", answer)));
        settings.push(setting("env.scorer", self.scorer()));
        settings.extend(self.fields());
        if let Some(rubric) = &self.args.rubric {
            let key = if Path::new(rubric).is_file() { "env.rubric_file" } else { "env.rubric" };
            settings.push(setting(key, rubric));
            // A simulated optimizer grades nothing.
            let has_judge = self.args.judge.is_some() || self.is_simulated();
            settings.push(setting("env.judge", if has_judge { "judge" } else { "optimizer" }));
        }
        settings
    }

    /// Which rows count as what, and which splits they are in.
    fn labels_and_rows(&self, said: &mut Vec<String>) -> Vec<String> {
        let (survey, keeps_labels) = (self.survey, self.args.keep_labels);
        let mut settings = Vec::new();
        if let Some((answer, labels)) = self.labels() {
            said.push(label_line(survey, labels.len(), keeps_labels));
            if survey.are_sets {
                said.push(
                    "several labels belong to a row: all of them have to be named, in any order".to_owned(),
                );
            }
            if let Some((name, _)) = &survey.named_by {
                said.push(format!("`{name}` says in words what the numbers of `{answer}` mean"));
            }
            if let Some(label) = labels.keys().find(|label| MISSING.contains(&label.to_lowercase().as_str()))
            {
                said.push(format!(
                    "warning: `{label}` counts as a label; remove these rows if it means that there is none"
                ));
            }
            if !survey.respelled.is_empty() && !keeps_labels {
                settings.push(setting("env.merge_labels", "true"));
            }
            if !self.args.labels.is_empty() {
                settings.push(setting("env.fold_labels", &crate::output::json(&self.args.labels)));
            }
            // A split by labels has items of each class in every part.
            if !self.sample.has_task_type() && !survey.are_sets && !answer.contains('.') {
                settings.push(setting("env.type_field", answer));
            }
        }
        if let Some(label) = &survey.entity {
            said.push(format!("warning: answers such as `{label}` hold entities of HTML; they are read as the signs they stand for"));
        }
        if !survey.choice_fields.is_empty() {
            said.push(format!("choices: {}, each a field of its own", survey.choice_fields.join(", ")));
        }
        if self.scorer() == "json_fields" {
            said.push(format!(
                "answers are objects: the model is asked for JSON with {} (name a member with `--answer FIELD.MEMBER` to ask for that alone)",
                survey.members.join(", ")
            ));
        }
        if survey.n_lists > 0 && matches!(self.scorer(), "exact" | "em_f1" | "numeric") {
            let rows = if survey.n_lists == 1 {
                "1 row has".to_owned()
            } else {
                format!("{} rows have", survey.n_lists)
            };
            said.push(format!("{rows} a list as answer: any entry of it counts as right"));
        }
        if survey.n_unanswered > 0 && self.scorer() != RUBRIC {
            said.push(match survey.n_unanswered {
                1 => "1 row has no answer and is left out".to_owned(),
                n_rows => format!("{n_rows} rows have no answer and are left out"),
            });
            settings.push(setting("env.skip_unanswered", "true"));
        }
        if survey.n_duplicates > 0 {
            said.push(match survey.n_duplicates {
                1 => "1 row repeats another one and counts once".to_owned(),
                n_rows => format!("{n_rows} rows repeat others and count once"),
            });
            settings.push(setting("env.drop_duplicates", "true"));
        }
        if !is_of_paper(self.start) {
            settings.push(setting("env.group_equal_inputs", "true"));
        }
        settings
    }

    /// What the agent is asked, and the form of its answer; `None` where there is nothing to ask with.
    fn prompt(&self, shown: &[String]) -> Option<String> {
        let asked = self.sample.prompt(shown)?;
        let form = match (self.scorer(), self.labels()) {
            ("json_fields", _) => {
                let members = self.survey.members.join(", ");
                format!("Answer with a JSON object with these fields and nothing else: {members}")
            }
            ("choice", _) => "Answer with the letter of the right choice and nothing else.".to_owned(),
            ("label_set", Some((_, labels))) => format!(
                "Answer with all of these that apply, with commas between them, and nothing else: {}",
                self.label_names(labels)
            ),
            (_, Some((_, labels))) => {
                format!("Answer with one of these and nothing else: {}", self.label_names(labels))
            }
            ("numeric", None) => "Answer with the number and nothing else.".to_owned(),
            ("exact" | "em_f1", None) => {
                "Answer as briefly as possible, with the answer itself and nothing else.".to_owned()
            }
            (_, None) => {
                return Some(asked).filter(|_| shown != self.sample.usual_fields() || shown.is_empty());
            }
        };
        Some(format!("{asked}\n\n{form}"))
    }

    /// All labels as the prompt names them.
    fn label_names(&self, labels: &BTreeMap<String, usize>) -> String {
        let mut names: Vec<&str> = labels.keys().map(String::as_str).collect();
        if self.args.keep_labels {
            names.extend(self.survey.respelled.keys().map(String::as_str));
            names.sort_unstable();
        }
        let names: Vec<String> = names.into_iter().map(|name| self.label_in_prompt(name)).collect();
        names.join(", ")
    }

    /// A label as the prompt names it: with its meaning, where the data say it, and without entities of HTML.
    fn label_in_prompt(&self, label: &str) -> String {
        let plain = of_cell(label);
        let words = self.survey.named_by.as_ref().and_then(|(_, words)| words.get(label));
        match words {
            Some(words) => format!("{plain} ({words})"),
            None => plain.into_owned(),
        }
    }

    fn simulated_models(&self) -> Vec<String> {
        let judge = self.args.rubric.as_ref().map(|_| "judge");
        let roles = ["target", "optimizer"].into_iter().chain(judge);
        roles.map(|role| setting(&format!("models.{role}.kind"), "simulated")).collect()
    }
}

/// The classes in one line, with the spellings that are taken for another.
fn label_line(survey: &DataSurvey, n_labels: usize, keeps_labels: bool) -> String {
    let n_respelled = survey.respelled.len();
    if n_respelled == 0 || keeps_labels {
        return format!("labels: {} classes", n_labels + if keeps_labels { n_respelled } else { 0 });
    }
    let pairs: Vec<String> =
        survey.respelled.iter().take(MAX_NAMED).map(|(from, to)| format!("`{from}` is `{to}`")).collect();
    let more = if n_respelled > MAX_NAMED {
        format!(" and {} more", n_respelled - MAX_NAMED)
    } else {
        String::new()
    };
    format!(
        "labels: {n_labels} classes; case and blanks do not count: {}{more} (--keep-labels)",
        pairs.join(", ")
    )
}

/// Refuses labels that cannot be counted as others.
fn check_folds(args: &DataArgs, survey: &DataSurvey) -> Result<(), CommandError> {
    if survey.are_sets && !args.labels.is_empty() {
        let message = "`--label` is for rows with one label, and these have several";
        return Err(CommandError::new(message).with_hint("correct the labels in the data"));
    }
    let Some(label) = survey.unknown_folds.first() else { return Ok(()) };
    let known = survey.labels.iter().flatten().map(|(label, _)| label.as_str());
    let near = nearest_name(label, known).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let hint = format!("{near}write the label as the data have it: `--label FROM=TO`");
    Err(CommandError::new(format!("no row has the label `{label}`, which `--label` names")).with_hint(hint))
}

/// Refuses data of which nothing can be learned.
fn check_rows(survey: &DataSurvey, scorer: &str, sets_scorer: bool) -> Result<(), CommandError> {
    let n_rows = survey.n_records - survey.n_unanswered;
    if scorer != RUBRIC && n_rows == 0 && survey.n_records > 0 {
        return Err(CommandError::of_data("no row has an answer")
            .with_hint("name another field with `--answer`, or have a judge grade by `--rubric TEXT`"));
    }
    if let Some(answer) = survey.only_answer.as_ref().filter(|_| scorer != RUBRIC) {
        let answer: String = answer.chars().take(60).collect();
        let what = match survey.n_lists {
            0 => format!("all {n_rows} answers are `{answer}`"),
            _ => format!("`{answer}` is right in all {n_rows} rows"),
        };
        return Err(CommandError::of_data(format!("{what}: there is nothing to learn"))
            .with_hint("name another field with `--answer`, or add rows with other answers"));
    }
    if n_rows < MIN_ROWS {
        let rows = if n_rows == 1 { "1 row is".to_owned() } else { format!("{n_rows} rows are") };
        return Err(CommandError::of_data(format!("{rows} too few to train on and to measure")).with_hint(
            format!("{ENOUGH_ROWS} are a start; `skillrl init` writes a configuration for fewer"),
        ));
    }
    if scorer == "em_f1" && survey.answer_words > MAX_EXACT_WORDS && !sets_scorer {
        let message = format!(
            "half of the answers have {} words or more, and exact match cannot score texts like these",
            survey.answer_words
        );
        return Err(CommandError::of_data(message).with_hint(
            "have a judge model grade them: `--rubric 'What a good answer is'`; or choose with `--set env.scorer=em_f1`",
        ));
    }
    Ok(())
}

/// True if the sizes of the paper are chosen.
fn is_of_paper(start: &Start) -> bool {
    start.overrides.iter().any(|set| set.replace([' ', '"'], "") == "train.protocol=paper")
}

/// True if `--set` or an option of the command has a value for a key.
fn sets(start: &Start, key: &str) -> bool {
    start.overrides.iter().any(|setting| setting.split('=').next().unwrap_or_default().trim() == key)
}
