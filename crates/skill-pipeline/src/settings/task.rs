//! What people say of the task to the optimizer.

use crate::error::SettingsError;
use serde_json::{Value, json};
use skill_core::TokenSaving;

/// The most characters of one text, since every prompt of the optimizer contains it.
pub(crate) const MAX_TASK_CHARS: usize = 20_000;

/// What people say of the task; every prompt of the optimizer shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskTexts {
    /// What the tasks are about, and facts of their domain.
    pub background: Option<String>,
    /// What is wanted.
    pub objective: Option<String>,
    /// What a good skill is like, where several would do.
    pub preferences: Option<String>,
}

impl TaskTexts {
    fn parts(&self) -> [(&'static str, &'static str, Option<&str>); 3] {
        [
            ("task.background", "Background", said(&self.background)),
            ("task.objective", "Objective", said(&self.objective)),
            ("task.preferences", "Preferences", said(&self.preferences)),
        ]
    }

    /// True if nothing is said.
    pub fn is_empty(&self) -> bool {
        self.parts().iter().all(|(_, _, text)| text.is_none())
    }

    /// The texts under their names, what the score rewards, and what fewer tokens are worth.
    pub fn told(&self, reward: Option<&str>, saving: Option<TokenSaving>) -> String {
        let texts = self.parts().into_iter().map(|(_, name, text)| (name, text));
        let saving = saving.map(saving_text);
        let parts = texts.chain([
            ("Score", reward.map(str::trim).filter(|text| !text.is_empty())),
            ("Tokens", saving.as_deref()),
        ]);
        let parts = parts.filter_map(|(name, text)| text.map(|text| format!("{name}: {text}")));
        parts.collect::<Vec<_>>().join("\n\n")
    }

    /// Refuses a text that would crowd out what the prompts are about.
    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        let chars =
            self.parts().map(|(setting, _, text)| (setting, text.map_or(0, |text| text.chars().count())));
        match chars.into_iter().find(|(_, chars)| *chars > MAX_TASK_CHARS) {
            Some((setting, chars)) => {
                Err(SettingsError::TextTooLong { setting, chars, most: MAX_TASK_CHARS })
            }
            None => Ok(()),
        }
    }

    /// What decides results, by name; what is not said has none.
    pub(super) fn identity(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.parts().into_iter().filter_map(|(setting, _, text)| Some((setting, json!(text?))))
    }
}

/// What the optimizer is told of fewer tokens.
fn saving_text(TokenSaving { least, margin }: TokenSaving) -> String {
    let points = 100.0 * margin;
    let score = match margin > 0.0 {
        true => format!("scores at most {points:.3} points lower").replace(".000", ""),
        false => "scores no lower".to_owned(),
    };
    format!(
        "The score comes first. A changed skill is also kept if it {score} and the agent takes at least {:.0} % fewer \
         tokens for each task: prompts, of which the skill is a part, and replies. Propose what shortens the skill \
         without loss of a rule that tasks need, and rules that lead the agent to short answers and fewer turns.",
        100.0 * least
    )
}

/// A text without the white space around it, if anything is left.
fn said(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(background: &str) -> TaskTexts {
        TaskTexts { background: Some(background.to_owned()), ..TaskTexts::default() }
    }

    #[test]
    fn a_background_of_100_kb_is_refused_by_name_and_one_of_20000_characters_is_not() {
        let refused = texts(&"x".repeat(100_000)).validate().unwrap_err();
        let expected =
            SettingsError::TextTooLong { setting: "task.background", chars: 100_000, most: MAX_TASK_CHARS };
        assert_eq!(refused, expected);
        assert_eq!(texts(&"ä".repeat(MAX_TASK_CHARS)).validate(), Ok(()));
    }

    #[test]
    fn blank_texts_say_nothing_and_are_no_part_of_a_runs_identity() {
        let blank = texts(" \n");
        assert!(blank.is_empty() && blank.told(None, None).is_empty());
        assert_eq!(blank.identity().count(), 0);
        insta::assert_snapshot!(texts("a").told(Some("1 if it is right"), None), @r"
        Background: a

        Score: 1 if it is right
        ");
    }
}
