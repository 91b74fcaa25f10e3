//! A world for other programs: one line of JSON asks, one line answers.
//!
//! So the one implementation of the worlds serves every system that is compared.

use crate::search::models::{Count, answer_text, scored};
use crate::search::optimizer;
use crate::search::statement::Statement;
use crate::search::world::{Task, World};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};

/// A question.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Question {
    /// The tasks of all splits.
    Tasks,
    /// An attempt at a task with a skill.
    Attempt {
        /// The task.
        id: String,
        /// The skill.
        skill: String,
        /// The name of the attempt: equal names give equal answers.
        throw: String,
    },
    /// The optimizer's reply.
    Optimizer {
        /// The user's part of the prompt.
        prompt: String,
        /// The name of the call.
        throw: String,
    },
    /// The share of test tasks that a skill solves; not counted.
    Measure {
        /// The skill.
        skill: String,
    },
}

/// Answers until the questions end.
///
/// # Errors
///
/// A line that cannot be read or written. Any line that is not a question gets an `error` as its answer.
pub fn serve(world: &World, questions: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let (target, optimizer) = (Count::default(), Count::default());
    for line in questions.lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(question) => answer(world, question, &target, &optimizer),
            Err(error) => json!({"error": error.to_string()}),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

fn answer(world: &World, question: Question, target: &Count, optimizer: &Count) -> Value {
    match question {
        Question::Tasks => {
            let [train, val, test] = world.splits();
            let row = |task: &Task| json!({"id": task.id, "kind": task.kind, "question": task.question()});
            let rows = |tasks: &[Task]| tasks.iter().map(row).collect::<Vec<_>>();
            json!({"train": rows(train), "val": rows(val), "test": rows(test)})
        }
        Question::Attempt { id, skill, throw } => {
            let Some(task) = world.task(&id) else { return json!({"error": format!("no task {id}")}) };
            let attempt = world.attempt(task, &Statement::all_in(&skill), &throw);
            let answer = answer_text(&attempt.answer);
            target.add(skill.len() + task.question().len(), answer.len());
            let result = scored(world, task, &answer, task.question());
            json!({
                "answer": result.predicted_answer, "hard": result.hard, "soft": result.soft,
                "reference": result.reference_text, "turns": world.turns(task, &attempt),
            })
        }
        Question::Optimizer { prompt, throw } => {
            let reply = optimizer::answer(world, &prompt, &throw);
            optimizer.add(prompt.len(), reply.len());
            json!({"reply": reply})
        }
        Question::Measure { skill } => json!({
            "score": world.measure(2, &skill, 5), "target_calls": target.calls(),
            "optimizer_calls": optimizer.calls(), "tokens": target.tokens() + optimizer.tokens(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::world::{Family, Sizes};

    #[test]
    fn questions_are_answered_line_by_line_and_nonsense_with_an_error() {
        let world = World::new(Family::Additive, 1, Sizes { train: 2, val: 1, test: 1 });
        let questions = "{\"op\":\"tasks\"}\n{\"op\":\"attempt\",\"id\":\"t000\",\"skill\":\"\",\"throw\":\"1\"}\nx\n{\"op\":\"measure\",\"skill\":\"\"}\n";
        let mut answers = Vec::new();
        serve(&world, questions.as_bytes(), &mut answers).unwrap();
        let answers: Vec<Value> = String::from_utf8(answers)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(answers[0]["train"].as_array().unwrap().len(), 2);
        assert_eq!(answers[1]["hard"], json!(0.0));
        assert!(answers[2]["error"].is_string());
        assert_eq!((&answers[3]["score"], &answers[3]["target_calls"]), (&json!(0.0), &json!(1)));
    }
}
