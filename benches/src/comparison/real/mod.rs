//! Public tasks for a real target, with a scripted optimizer.
//!
//! The target is any server with Chat Completions. Requests have temperature 0, and replies are recorded in a file: an
//! equal request is counted and answered from the file. The optimizer proposes lines from a list ([`planted`]), some of
//! which are harmful; it does not know which.

mod optimizer;
pub mod planted;
pub mod results;
mod target;

pub use target::Target;

use crate::comparison::Failure;
use planted::RealTask;
use serde::Deserialize;
use serde_json::Value;
use skill_envs::score::{exact, json_fields, parse_json_answer};
use std::path::Path;
use std::process::Command;

/// The program that generates or samples the tasks.
const TASKS: &str = include_str!("../../../python/real_tasks.py");

/// How many tasks each split has, and how many calls a search may make.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Tasks of the training split.
    pub n_train: usize,
    /// Tasks of the validation split.
    pub n_val: usize,
    /// Tasks of the test split.
    pub n_test: usize,
    /// Calls of all models.
    pub calls: usize,
}

/// Sizes of every real task.
pub const SIZES: Sizes = Sizes { n_train: 40, n_val: 40, n_test: 40, calls: 400 };
/// Held-out tasks, which no search sees, for the score of a skill.
pub const N_HELD_OUT: usize = 120;

/// Tasks as rows of data.
#[derive(Debug, Clone, Deserialize)]
struct Rows {
    train: Vec<Value>,
    val: Vec<Value>,
    test: Vec<Value>,
    held_out: Vec<Value>,
}

/// Tasks of a public benchmark, and the model that does them.
#[derive(Debug, Clone)]
pub struct RealTasks {
    /// Which benchmark.
    pub task: RealTask,
    rows: Rows,
    /// The model that does the tasks.
    pub target: Target,
}

impl RealTasks {
    /// The tasks of a seed, generated or sampled by a Python that has the packages; `file` has the data of the benchmark.
    ///
    /// # Errors
    ///
    /// A program that fails, with the last line of its standard error.
    pub fn make(
        python: &Path,
        task: RealTask,
        seed: u64,
        file: Option<&Path>,
        target: Target,
    ) -> Result<Self, Failure> {
        let numbers = [SIZES.n_train, SIZES.n_val, SIZES.n_test, N_HELD_OUT].map(|number| number.to_string());
        let output = Command::new(python)
            .args(["-c", TASKS, task.as_str(), &seed.to_string()])
            .args(numbers)
            .args(file)
            .output()?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            // The last line of a traceback is its cause.
            let cause = stderr.trim().lines().last().unwrap_or_default();
            return Err(format!("the tasks of {}: {cause}", task.as_str()).into());
        }
        Ok(Self { task, rows: serde_json::from_slice(&output.stdout)?, target })
    }

    /// Training, validation and test tasks.
    pub fn splits(&self) -> [(&'static str, &[Value]); 3] {
        [("train", &self.rows.train), ("val", &self.rows.val), ("test", &self.rows.test)]
    }

    /// 1 for a right answer to the task of this id, else 0; held-out tasks have no score here.
    pub fn score(&self, id: &str, answer: &str) -> f64 {
        let rows = self.splits().into_iter().flat_map(|(_, rows)| rows);
        rows.into_iter().find(|row| row["id"] == *id).map_or(0.0, |row| self.score_of(row, answer))
    }

    fn score_of(&self, row: &Value, answer: &str) -> f64 {
        let reference = &row["answer"];
        if !self.task.is_json() {
            return exact(answer, &[reference.as_str().unwrap_or_default()], false).hard;
        }
        let found = parse_json_answer(answer);
        found.map_or(0.0, |found| json_fields(&found.value, reference, &[], 0.0, false).score.hard)
    }

    /// Whether the target solves each held-out task with this skill.
    ///
    /// # Errors
    ///
    /// A target that does not answer.
    pub async fn measure(&self, skill: &str) -> Result<Vec<bool>, Failure> {
        let mut outcomes = Vec::new();
        for row in &self.rows.held_out {
            let answer = self.target.reply(skill, row["question"].as_str().unwrap_or_default()).await?;
            outcomes.push(self.score_of(row, &answer) >= 1.0);
        }
        Ok(outcomes)
    }

    /// Seconds that a call of the target takes, by a few requests with the initial skill.
    ///
    /// # Errors
    ///
    /// A target that does not answer.
    pub async fn seconds_a_call(&self) -> Result<f64, Failure> {
        let questions = self.rows.train.iter().filter_map(|row| row["question"].as_str());
        self.target.seconds_a_call(self.task.initial_skill(), &questions.collect::<Vec<_>>()).await
    }

    /// The reply of the optimizer; equal requests differ by their number.
    pub fn optimizer(&self, seed: u64, user: &str, number: u32) -> String {
        optimizer::reply(self, seed, user, number)
    }

    /// Validation and test tasks that a prompt of the optimizer shows and the training split does not have.
    pub fn leaks(&self, user: &str) -> usize {
        let question = |row: &Value| row["question"].as_str().unwrap_or_default().to_owned();
        let known: Vec<String> = self.rows.train.iter().map(question).collect();
        let hidden = self.rows.val.iter().chain(&self.rows.test).map(question);
        hidden.filter(|question| !known.contains(question) && user.contains(question)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tasks(task: RealTask, answer: Value) -> RealTasks {
        let dir = tempfile::tempdir().unwrap();
        let row = |id: &str, question: &str| json!({"id": id, "question": question, "answer": answer});
        let rows = Rows {
            train: vec![row("t000", "1+1?")],
            val: vec![row("v000", "2+2?"), row("v001", "1+1?")],
            test: vec![row("e000", "3+3?")],
            held_out: vec![row("h000", "4+4?")],
        };
        let target = Target::new("http://127.0.0.1:9/v1", "m", &dir.path().join("replies.jsonl")).unwrap();
        RealTasks { task, rows, target }
    }

    #[test]
    fn answers_are_right_by_their_words_or_by_the_fields_of_a_call() {
        let sums = tasks(RealTask::ChainSum, json!("-4"));
        for (answer, score) in [("-4", 1.0), (" **-4** ", 1.0), ("4", 0.0), ("It is -4.", 0.0)] {
            assert_eq!(sums.score("t000", answer), score, "{answer}");
        }
        // A search cannot score held-out tasks.
        assert_eq!(sums.score("h000", "-4"), 0.0);
        let calls = tasks(RealTask::BfclSimple, json!({"name": "f", "arguments": {"x": 1}}));
        for (answer, score) in [
            (r#"{"name": "f", "arguments": {"x": 1}}"#, 1.0),
            ("```json\n{\"arguments\": {\"x\": 1}, \"name\": \"f\"}\n```", 1.0),
            (r#"{"name": "f", "arguments": {"x": 2}}"#, 0.0),
            ("f(x=1)", 0.0),
        ] {
            assert_eq!(calls.score("v000", answer), score, "{answer}");
        }
    }

    #[test]
    fn tasks_that_a_prompt_may_not_show_are_counted_once_each() {
        let sums = tasks(RealTask::ChainSum, json!("2"));
        // The training split has this question too.
        assert_eq!(sums.leaks("1+1?"), 0);
        assert_eq!(sums.leaks("2+2?\n3+3?"), 2);
    }
}
