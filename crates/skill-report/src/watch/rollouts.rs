//! The rollouts that were finished last, from the journal.

use crate::data::conversation::clip;
use serde::Serialize;
use serde_json::Value;
use skill_core::{Role, RolloutResult, TrajectoryMessage};
use skill_llm::journal::{JournalReader, ResultRow};
use skill_pipeline::run_dir::JOURNAL_FILE;
use std::path::Path;

/// How many are shown to anyone who begins to look, and the most that come at once.
pub(crate) const SHOWN: u32 = 20;
/// The most turns of one.
const MAX_TURNS: usize = 40;
/// The most characters of a turn.
const MAX_CHARACTERS: usize = 2_000;

/// What the agent did on an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RolloutView {
    /// Its number in the journal.
    pub id: i64,
    /// Where in the run it was made.
    pub place: String,
    /// The item.
    pub item: String,
    /// The strict score.
    pub hard: f64,
    /// The graded score.
    pub soft: f64,
    /// Why it failed.
    pub reason: String,
    /// What the agent answered.
    pub answer: String,
    /// What was said, the last turns of it.
    pub turns: Vec<ShownTurn>,
    /// Turns that are left out.
    pub n_left_out: usize,
    /// When it was finished, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// A turn of its conversation; that of the system, which is mostly the skill, is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownTurn {
    /// Who spoke.
    pub role: &'static str,
    /// What was said.
    pub text: String,
}

/// The rollouts of a run that are new in its journal, for one who looks again and again.
#[derive(Debug, Default)]
pub struct NewRollouts {
    last: i64,
}

impl NewRollouts {
    /// Those that were finished since the last call, or the last ones of them where they are many; none of a run
    /// without a journal that can be read.
    pub fn read(&mut self, run: &Path) -> Vec<RolloutView> {
        let Ok(reader) = JournalReader::open(&run.join(JOURNAL_FILE)) else { return Vec::new() };
        let rows = reader.last_results(self.last, SHOWN).unwrap_or_default();
        self.last = rows.last().map_or(self.last, |row| row.id);
        rows.iter().filter_map(shown).collect()
    }
}

/// A result of the journal as a rollout; `None` if it is none that this version reads.
pub(crate) fn shown(row: &ResultRow) -> Option<RolloutView> {
    let mut content: Value = serde_json::from_str(&row.content).ok()?;
    let result: RolloutResult = serde_json::from_value(content.get_mut("result")?.take()).ok()?;
    let asked = [
        TrajectoryMessage::new(Role::User, result.target_user_prompt.as_str()),
        TrajectoryMessage::new(Role::Assistant, result.predicted_answer.as_str()),
    ];
    let mut said: Vec<&TrajectoryMessage> = result.trajectory.conversation().collect();
    if said.is_empty() {
        said.extend(&asked);
    }
    let said = said.into_iter().filter(|message| message.role != Role::System);
    let texts =
        said.map(|message| (message.role, message.as_text())).filter(|(_, text)| !text.trim().is_empty());
    let turns: Vec<_> = texts.collect();
    Some(RolloutView {
        id: row.id,
        place: row.place.clone(),
        item: row.subject.clone(),
        hard: result.hard,
        soft: result.soft,
        reason: clip(&result.fail_reason, MAX_CHARACTERS),
        answer: clip(&result.predicted_answer, MAX_CHARACTERS),
        n_left_out: turns.len().saturating_sub(MAX_TURNS),
        // The end of a long game says more than its beginning.
        turns: turns
            .iter()
            .skip(turns.len().saturating_sub(MAX_TURNS))
            .map(|(role, text)| ShownTurn { role: role.as_str(), text: clip(text, MAX_CHARACTERS) })
            .collect(),
        unix_ms: u64::try_from(row.finished_at).unwrap_or_default(),
    })
}
