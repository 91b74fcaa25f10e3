//! Whether a right reply can score: what the prompt does not state, and references that the scorer rejects.

use super::labels::named;
use super::{Check, Finding, counted, in_code};
use skill_core::SkillDoc;
use skill_envs::Env;
use skill_envs::answerable::{AnswerFinding, ReplyForm};

/// The most characters of a text that are shown.
const MAX_SHOWN: usize = 80;

/// The findings with this skill.
pub(super) fn findings(env: &dyn Env, skill: &SkillDoc) -> Vec<Finding> {
    env.answerable(skill).iter().map(answer_finding).collect()
}

/// The warning about a finding, with the keys of a configuration that settle it.
pub fn answer_finding(finding: &AnswerFinding) -> Finding {
    let (message, hint) = match finding {
        AnswerFinding::ReferenceRejected { form, n_items, id, reply } => {
            let form = match form {
                ReplyForm::Requested => "in the requested form",
                ReplyForm::Bold => "in bold or as a code block",
                ReplyForm::Sentence => "in a sentence",
            };
            let message = format!(
                "the right answer {form} scores less than 1 for {}: the reply {} to {}",
                counted(*n_items, "item"),
                shown(reply),
                in_code(id.as_str())
            );
            let hint = "correct these answers in the data, or set another `env.scorer` or `env.extract`".to_owned();
            (message, hint)
        }
        AnswerFinding::ChoicesHidden { n_items, id, text } => (
            format!(
                "the prompt does not show all choices of {}, such as {} of {}",
                counted(*n_items, "item"),
                shown(text),
                in_code(id.as_str())
            ),
            "write `{{ choice_list }}` into `env.user_prompt`".to_owned(),
        ),
        AnswerFinding::ClassesUnnamed { n_classes, unnamed } => (
            format!(
                "{} of {} are not named in the prompt or the skill: {}",
                unnamed.len(),
                counted(*n_classes, "class label"),
                named(unnamed.iter().map(|label| in_code(label)))
            ),
            "list the labels in `env.user_prompt` or in the initial skill: the model cannot guess them"
                .to_owned(),
        ),
        AnswerFinding::ReferencesProse { n_words } => (
            format!("half of the right answers have {n_words} words or more, and no reply repeats texts like these word by word"),
            "have a judge grade them with `env.scorer = \"rubric\"`, or expect `env.metric = \"soft\"` to be all that rises".to_owned(),
        ),
        AnswerFinding::FormUnnamed { parts } => (
            format!("the scorer requires {}, which the prompt and the skill do not name", named(parts.iter().map(|part| in_code(part)))),
            "name the form of an answer in `env.user_prompt`, where `{{ answer_format }}` states tags and members"
                .to_owned(),
        ),
        AnswerFinding::AnswerAloneUnstated { id, reply } => (
            format!(
                "neither the prompt nor the skill requests the answer alone, and the right answer in a sentence scores less \
                 than 1: {} for {}",
                shown(reply),
                in_code(id.as_str())
            ),
            "request it in `env.user_prompt` or in the initial skill, such as `Answer with .. and nothing else`".to_owned(),
        ),
    };
    Finding::warning(Check::Answerable, message, hint)
}

fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(MAX_SHOWN).collect();
    in_code(&if cut.len() < line.len() { format!("{cut} ..") } else { cut })
}
