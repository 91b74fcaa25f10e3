//! Fields of data by the names that people type, and which of them a model is shown.

use crate::args::DataArgs;
use crate::error::CommandError;
use skillrl::config::nearest_name;
use skillrl::envs::tasks::{DataSample, DataSurvey, FieldSurvey, is_named_as_answer};
use std::collections::BTreeMap;
use std::path::Path;

/// The field that a person names: to the letter, or the only one that is it but for case and blanks, or begins so.
///
/// # Errors
///
/// No such field; the one that may be meant is named.
pub(super) fn named<'a>(asked: &str, known: &[&'a str]) -> Result<&'a str, CommandError> {
    if let Some(name) = known.iter().find(|name| **name == asked) {
        return Ok(name);
    }
    let plain = |name: &str| name.trim().to_lowercase();
    let only = |is_meant: &dyn Fn(&str) -> bool| {
        let mut found = known.iter().copied().filter(|name| is_meant(name));
        found.next().filter(|_| found.next().is_none())
    };
    let same = only(&|name| plain(name) == plain(asked));
    let longer = || only(&|name| !plain(asked).is_empty() && plain(name).starts_with(&plain(asked)));
    same.or_else(longer).ok_or_else(|| {
        let near = nearest_name(asked, known.iter().copied());
        let meant = near.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        CommandError::new(format!("the data has no field `{asked}`"))
            .with_hint(format!("{meant}its fields are {}", listed(known)))
    })
}

/// Names in quotes for a message.
pub(super) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Of so many fields at most it is asked whether they are labels.
const MAX_READ: usize = 30;

/// That nothing says which field is the answer; a field with few values is proposed.
pub(super) fn no_answer(data: &Path, sample: &DataSample) -> CommandError {
    let names: Vec<&str> = sample.fields.keys().map(String::as_str).collect();
    let labels = |name: &&str| {
        let survey = DataSurvey::read(data, Some(name), &BTreeMap::new()).ok()?;
        // Each row has an answer, and notes are in some of them.
        let n_blank = survey.n_unanswered;
        Some(((*name).to_owned(), survey.labels?.len(), survey.n_records, n_blank))
    };
    // A data set with many fields is not read once for each of them.
    let found = names.iter().take(MAX_READ).filter_map(labels);
    let proposed = found.min_by_key(|(_, n_labels, _, n_blank)| (*n_blank > 0, *n_labels));
    let hint = match proposed {
        Some((name, n_labels, n_rows, _)) => format!(
            "`{name}` has {n_labels} values in {n_rows} rows: is it the answer? `--answer {}`; the fields are {}; \
             `--rubric TEXT` needs no answers",
            crate::args::as_word(&name),
            listed(&names)
        ),
        None => format!("name it with `--answer`: one of {}; `--rubric TEXT` needs none", listed(&names)),
    };
    CommandError::new(format!("no field of {} has a usual name of an answer", data.display())).with_hint(hint)
}

/// Which fields are shown.
pub(super) struct Shown {
    /// In the order of the prompt.
    pub(super) shown: Vec<String>,
    /// The others, but for the right answer.
    pub(super) hidden: Vec<String>,
    /// What a person has to agree to before any of it is sent; none of fields that were named.
    pub(super) concerns: Vec<String>,
    /// In how many rows the only shown field is blank, with all rows.
    blank: Option<(usize, usize)>,
}

impl Shown {
    /// The fields that `--input` names, or those with free text.
    pub(super) fn of(
        args: &DataArgs,
        answer: Option<&str>,
        sample: &DataSample,
        survey: &DataSurvey,
    ) -> Result<Self, CommandError> {
        let known: Vec<&str> = sample.fields.keys().map(String::as_str).collect();
        let is_named = !args.input.is_empty();
        let shown: Vec<String> = if is_named {
            let inputs = args.input.iter().map(|asked| match sample.leads_into(asked) {
                true => Ok(asked.clone()),
                false => named(asked, &known).map(str::to_owned),
            });
            inputs.collect::<Result<_, _>>()?
        } else {
            survey.shown()
        };
        let holds_answer = |name: &String| {
            answer.is_some_and(|answer| {
                answer.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        if let Some(name) = shown.iter().find(|name| holds_answer(name)) {
            let message = format!("`--input` names `{name}`, which is or holds the right answer");
            return Err(CommandError::new(message).with_hint(
                "leave it out: a model that is shown the answer learns nothing; `--input FIELD.MEMBER` shows a part of an object",
            ));
        }
        if shown.is_empty() && !sample.has_choices {
            return Err(CommandError::of_data(
                "no field of the data looks like a text that a model could be shown",
            )
            .with_hint(format!("name the fields with `--input`: some of {}", listed(&known))));
        }
        let concerns = match is_named {
            true => Vec::new(),
            false => shown.iter().filter_map(|name| survey.field(name)).filter_map(concern).collect(),
        };
        let is_answer = |name: &str| answer.is_some_and(|answer| answer.split('.').next() == Some(name));
        // Another field that could be the answer is named too.
        let is_field = |name: &&&str| survey.field(name).is_some() || is_named_as_answer(name);
        let is_hidden = |name: &&&str| !shown.iter().any(|shown| shown == **name) && !is_answer(name);
        let hidden = known.iter().filter(is_field).filter(is_hidden).map(|name| (*name).to_owned()).collect();
        let blank = match shown.as_slice() {
            [only] => survey.field(only).map(|field| (field.n_blank, survey.n_records)),
            _ => None,
        };
        Ok(Self { shown, hidden, concerns, blank: blank.filter(|(n_blank, _)| *n_blank > 0) })
    }

    /// The lines that say it.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("shown to the model: {}", self.shown.join(", "))];
        if !self.hidden.is_empty() {
            lines.push(format!("not shown: {} (add with --input)", self.hidden.join(", ")));
        }
        if let (Some((n_blank, n_rows)), Some(name)) = (self.blank, self.shown.first()) {
            lines.push(format!(
                "warning: `{name}` is empty in {n_blank} of {n_rows} rows: remove them, since nothing is asked there"
            ));
        }
        lines
    }

    /// The value of `--input` that agrees to what is shown.
    pub(super) fn as_input(&self) -> String {
        crate::args::as_word(&self.shown.join(","))
    }
}

/// What speaks against showing a field.
fn concern(field: &FieldSurvey) -> Option<String> {
    let mut found = Vec::new();
    if field.tells_answer() {
        found.push(format!("names the right answer in {} of {} rows", field.n_telling, field.n_rows));
    }
    for (count, what) in [(field.n_emails, "an e-mail address"), (field.n_phones, "a telephone number")] {
        match count {
            0 => {}
            1 => found.push(format!("holds {what} in 1 row")),
            n_rows => found.push(format!("holds {what} in {n_rows} rows")),
        }
    }
    (!found.is_empty()).then(|| format!("`{}` {}", field.name, found.join(", and ")))
}
