//! The target: it answers a task by what its skill states.

use super::environment::{Class, Environment, State, Task};
use super::text::{Entry, HOPELESS, Line, SLIP, UNKNOWN, field_name, written};
use skill_core::random::Dice;

/// The reply to a request with this skill; equal requests differ by their number.
pub fn answer(environment: &Environment, system: &str, user: &str, number: u32) -> String {
    let id = user.split("Task ").nth(1).map(|rest| {
        rest.split(|character: char| !character.is_ascii_alphanumeric()).next().unwrap_or_default()
    });
    match id.and_then(|id| environment.task(id)) {
        Some(task) => attempt(environment, &Line::all_in(system), task, number),
        None => "Which task?".to_owned(),
    }
}

pub(super) fn attempt(environment: &Environment, skill: &[Line], task: &Task, number: u32) -> String {
    let parameters = &environment.parameters;
    // Where the target is fixed, a line without effect changes nothing.
    let counts = |line: &&Line| {
        !parameters.is_target_fixed || parameters.diffuse > 0.0 || !matches!(line, Line::Idle(_))
    };
    let mut stated: Vec<String> = skill.iter().filter(counts).map(ToString::to_string).collect();
    stated.sort();
    let number = if parameters.is_target_fixed { 0 } else { number };
    let dice = Dice::new(environment.seed, &["attempt", &task.id, &stated.concat(), &number.to_string()]);
    let throw = dice.unit("throw");
    if parameters.diffuse > 0.0 {
        let is_solved = throw < environment.chance(skill, task);
        return if is_solved { environment.reference(task) } else { unknown(task) };
    }
    let mut state = environment.state(skill, task);
    if task.class != Class::Never {
        if state.is_sound() && throw < task.noise + environment.length_cost(skill) {
            slip(&mut state, dice);
        } else if !state.is_sound() && throw < task.luck {
            return environment.reference(task);
        }
    }
    let entry = |field: String, value: &str| Entry {
        task: task.id.clone(),
        field,
        value: value.to_owned(),
        harms: state.harms.clone(),
    };
    let needs = task.needs.iter().zip(&state.values).map(|(field, value)| entry(field_name(*field), value));
    let hopeless = task.needs.iter().enumerate().map(|(idx, _)| entry(format!("{HOPELESS}{idx}"), UNKNOWN));
    let n_hopeless = if task.class == Class::Never { task.needs.len() } else { 0 };
    written(&needs.chain(hopeless.take(n_hopeless)).collect::<Vec<_>>())
}

/// The target does not keep to one of its rules.
fn slip(state: &mut State, dice: Dice) {
    let at = (dice.unit("slip") * state.values.len() as f64) as usize;
    if let Some(value) = state.values.get_mut(at) {
        SLIP.clone_into(value);
    }
}

fn unknown(task: &Task) -> String {
    let entry = |field: &usize| Entry {
        task: task.id.clone(),
        field: field_name(*field),
        value: UNKNOWN.to_owned(),
        harms: Vec::new(),
    };
    written(&task.needs.iter().map(entry).collect::<Vec<_>>())
}

/// The score of an answer: all fields right, or in graded environments the share of them.
pub fn score(environment: &Environment, answer: &str, reference: &str) -> f64 {
    if answer.trim() == reference {
        return 1.0;
    }
    if !environment.parameters.is_graded {
        return 0.0;
    }
    let said: Vec<&str> = answer.split_whitespace().collect();
    let wanted: Vec<&str> = reference.split_whitespace().collect();
    wanted.iter().filter(|entry| said.contains(entry)).count() as f64 / wanted.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Variant;

    #[test]
    fn the_expected_score_is_the_mean_of_many_attempts() {
        for (seed, variant) in
            [(3, Variant::Base), (4, Variant::Length), (5, Variant::Diffuse), (9, Variant::Defective)]
        {
            let mut environment = Environment::sample(seed, variant, 0);
            environment.parameters.is_target_fixed = false;
            for skill in [environment.initial_skill(), environment.knowable_skill()] {
                let [(_, train), ..] = environment.splits();
                let lines = Line::all_in(&skill);
                let expected: f64 = train.iter().map(|task| environment.expected_on(&lines, task)).sum();
                let attempts = 60;
                let made: f64 = train
                    .iter()
                    .flat_map(|task| (0..attempts).map(move |number| (task, number)))
                    .map(|(task, number)| {
                        let answer = attempt(&environment, &lines, task, number);
                        score(&environment, &answer, &environment.reference(task))
                    })
                    .sum();
                let n = train.len() as f64;
                let (expected, made) = (expected / n, made / n / f64::from(attempts));
                assert!((expected - made).abs() < 0.03, "{seed}: {expected} {made}");
            }
        }
    }

    #[test]
    fn equal_requests_differ_by_their_number_alone() {
        let mut environment = Environment::sample(1, Variant::Base, 0);
        environment.parameters.noise = 0.5;
        let tasks = environment.splits()[0].1.to_vec();
        let skill = environment.knowable_skill();
        let replies = |number: u32| -> Vec<String> {
            let users = tasks.iter().map(|task| environment.question(task));
            users.map(|user| answer(&environment, &skill, &user, number)).collect()
        };
        assert_eq!(replies(0), replies(0));
        assert_eq!(answer(&environment, &skill, "Hello?", 0), "Which task?");
    }
}
