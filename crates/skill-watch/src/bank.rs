//! The events of a bank's training in words.

use serde_json::Value;

/// What an event is as a line.
pub(crate) enum Told {
    /// Its tone and its words.
    Line(&'static str, String),
    /// Another line says it.
    Nothing,
    /// It is none of a bank's training that this version knows.
    Unknown,
}

pub(crate) fn in_words(name: &str, event: &Value) -> Told {
    let round = event.get("round").and_then(Value::as_u64).unwrap_or_default();
    let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    let (tone, words) = match name {
        "round_started" => {
            let what =
                if round == 0 { "begins with the distillation".to_owned() } else { "begins".to_owned() };
            let (active, waiting) = (number("/n_active"), number("/n_waiting"));
            ("", format!("{what}: {active} skills active, {waiting} waiting"))
        }
        "skills_proposed" => {
            let n_skills = event.get("skills").and_then(Value::as_array).map_or(0, Vec::len);
            ("", format!("the teacher proposed {n_skills} skills, {} left out", number("/n_left_out")))
        }
        "trial_started" => ("", trial_started(event)),
        "trial_measured" => {
            let (rollouts, most) = (number("/rollouts"), number("/max_rollouts"));
            let numbers = numbers(event.get("numbers"));
            ("", format!("trial {}, {rollouts} of {most} rollouts: {numbers}", number("/trial")))
        }
        "fresh_started" => {
            let rollouts = number("/n_rollouts");
            ("", format!("{} is measured once more, on {rollouts} rollouts", text(event, "skill")))
        }
        "skill_admitted" => {
            let how = text(event, "how").replace('_', " ");
            ("good", format!("{} is active ({how}), {} in all", named(event), number("/n_active")))
        }
        "skill_retired" => {
            let reason = text(event, "reason").replace('_', " ");
            ("bad", format!("{} is retired ({reason}), {} are active", named(event), number("/n_active")))
        }
        "standing_checked" => {
            let n_skills = event.get("skills").and_then(Value::as_object).map_or(0, serde_json::Map::len);
            ("", format!("the standing check has numbers of {n_skills} skills"))
        }
        "bank_validated" => {
            let (score, items) = (number("/score/hard"), number("/n_items"));
            ("", format!("the bank scores {score:.4} on {items} items of the selection split"))
        }
        "trial_finished" => {
            let Some(record) = event.get("record") else { return Told::Unknown };
            trial_finished(record)
        }
        "round_finished" => {
            let Some(record) = event.get("record") else { return Told::Unknown };
            return Told::Line("", round_finished(record));
        }
        "bank_finished" => return Told::Line("good", "the run is finished".to_owned()),
        _ => return Told::Unknown,
    };
    // A pass of many is told by the page that shows the trial.
    if name == "trial_measured" && event.get("is_look").and_then(Value::as_bool) == Some(false) {
        return Told::Nothing;
    }
    Told::Line(tone, format!("round {round}: {words}"))
}

/// A text of an event; empty where it has none of this name.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The version of a skill with its title.
fn named(event: &Value) -> String {
    let part = |name: &str| event.pointer(name).and_then(Value::as_str).unwrap_or_default();
    format!("{} \"{}\"", part("/skill/skill"), part("/skill/title"))
}

fn trial_started(event: &Value) -> String {
    let number = |name: &str| event.get(name).and_then(Value::as_f64).unwrap_or_default();
    let is_retirement = event.get("is_retirement").and_then(Value::as_bool) == Some(true);
    let what = if is_retirement { "the retirement of " } else { "" };
    let rows = event.pointer("/preflight/rows").and_then(Value::as_array);
    let chances = rows.into_iter().flatten().filter_map(|row| {
        let (points, chance) = (row.get("difference")?.as_f64()?, row.get("chance")?.as_f64()?);
        Some(format!("{:.0} % at +{:.0} points", chance * 100.0, points * 100.0))
    });
    let chances = chances.collect::<Vec<_>>().join(", ");
    let chances = if chances.is_empty() { chances } else { format!("; chance to admit: {chances}") };
    format!(
        "trial {} of {what}{} \"{}\" ({}) on {} tasks, up to {} rollouts{chances}",
        number("trial"),
        text(event, "skill"),
        text(event, "title"),
        text(event, "tier"),
        number("n_items"),
        number("max_rollouts")
    )
}

/// The difference with its interval, and what it is decided by.
fn numbers(numbers: Option<&Value>) -> String {
    let Some(numbers) = numbers else { return "no numbers".to_owned() };
    let number = |pointer: &str| numbers.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    let points = |pointer: &str| format!("{:+.0}", number(pointer) * 100.0);
    let e = match number("/e_better") {
        e if e >= 1e4 => "above 10,000".to_owned(),
        e => format!("{e:.2}"),
    };
    format!(
        "{} points ({} to {}), e {e}, p {:.3}",
        points("/difference"),
        points("/interval/0"),
        points("/interval/1"),
        number("/p_better")
    )
}

fn trial_finished(record: &Value) -> (&'static str, String) {
    let trial = record.get("trial").and_then(Value::as_u64).unwrap_or_default();
    let is_retirement = record.get("is_retirement").and_then(Value::as_bool) == Some(true);
    let id = text(record, "skill");
    let rollouts = record.get("rollouts").and_then(Value::as_u64).unwrap_or_default();
    let verdict = record.pointer("/decision/verdict").and_then(Value::as_str);
    let (tone, words) = match verdict {
        Some("admit") if is_retirement => ("", "kept"),
        Some("admit") => ("good", "admitted"),
        Some("reject") if is_retirement => ("", "retired"),
        Some("reject") => ("", "rejected"),
        Some("undecided") | None => ("", "undecided"),
        Some(other) => ("", other),
    };
    let known = match (record.pointer("/decision/numbers"), text(record, "problem")) {
        (Some(found), _) => numbers(Some(found)),
        (None, problem) => problem.to_owned(),
    };
    (tone, format!("trial {trial}: {id} {words}, {known}, {rollouts} rollouts"))
}

fn round_finished(record: &Value) -> String {
    let count = |name: &str| record.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let round = record.get("round").and_then(Value::as_u64).unwrap_or_default();
    let active = record.get("n_active").and_then(Value::as_u64).unwrap_or_default();
    format!(
        "round {round} has ended: {} proposed, {} admitted, {} retired, {} waiting, {active} active",
        count("proposed"),
        count("admitted"),
        count("retired"),
        count("waiting")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(event: &Value, expect: &str) {
        let name = text(event, "event").to_owned();
        let Told::Line(_, words) = in_words(&name, event) else { panic!("{event} has no line") };
        assert_eq!(words, expect);
    }

    fn numbers() -> Value {
        json!({"difference": 0.125, "interval": [-0.03, 0.28], "e_better": 3.21, "p_better": 0.11})
    }

    #[test]
    fn rounds_and_trials_are_told_in_words() {
        let skill = json!({"skill": "heat_002", "title": "Wait", "tier": "heat"});
        let started = json!({
            "event": "trial_started", "round": 1, "trial": 8, "skill": "heat_002", "title": "Wait", "tier": "heat",
            "is_retirement": true, "n_items": 6, "max_rollouts": 640,
            "preflight": {"rows": [{"difference": 0.1, "chance": 0.62}]},
        });
        check(
            &started,
            "round 1: trial 8 of the retirement of heat_002 \"Wait\" (heat) on 6 tasks, up to 640 rollouts; \
             chance to admit: 62 % at +10 points",
        );
        let measured = json!({
            "event": "trial_measured", "round": 1, "trial": 8, "rollouts": 96, "max_rollouts": 640, "is_look": true,
            "numbers": numbers(),
        });
        let known = "+12 points (-3 to +28), e 3.21, p 0.110";
        check(&measured, &format!("round 1: trial 8, 96 of 640 rollouts: {known}"));
        let admitted =
            json!({"event": "skill_admitted", "round": 1, "skill": skill, "how": "revised", "n_active": 4});
        check(&admitted, "round 1: heat_002 \"Wait\" is active (revised), 4 in all");
        let retired = json!({"event": "skill_retired", "round": 2, "skill": skill, "reason": "over_cap", "n_active": 3});
        check(&retired, "round 2: heat_002 \"Wait\" is retired (over cap), 3 are active");
        let record = json!({
            "trial": 8, "skill": "heat_002", "rollouts": 96, "decision": {"verdict": "admit", "numbers": numbers()},
        });
        let finished = json!({"event": "trial_finished", "round": 1, "record": record});
        check(&finished, &format!("round 1: trial 8: heat_002 admitted, {known}, 96 rollouts"));
        let not_tried = json!({"trial": 9, "skill": "gen_001", "rollouts": 0, "problem": "no task shows it"});
        let finished = json!({"event": "trial_finished", "round": 1, "record": not_tried});
        check(&finished, "round 1: trial 9: gen_001 undecided, no task shows it, 0 rollouts");
        let validated = json!({"event": "bank_validated", "round": 2, "score": {"hard": 0.5}, "n_items": 36});
        check(&validated, "round 2: the bank scores 0.5000 on 36 items of the selection split");
        let record = json!({"round": 2, "proposed": [1], "admitted": [], "retired": [], "waiting": [1, 2], "n_active": 4});
        let ended = json!({"event": "round_finished", "record": record});
        check(&ended, "round 2 has ended: 1 proposed, 0 admitted, 0 retired, 2 waiting, 4 active");
    }

    #[test]
    fn a_pass_that_decides_nothing_has_no_line_and_what_is_not_known_is_said_to_be() {
        let pass = json!({"event": "trial_measured", "is_look": false, "numbers": numbers()});
        assert!(matches!(in_words("trial_measured", &pass), Told::Nothing));
        assert!(matches!(in_words("trial_moved", &json!({})), Told::Unknown));
    }
}
