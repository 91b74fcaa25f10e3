//! Distillation on recorded episodes and replies.

use crate::distill::{good, run, teacher_of, tier_in};
use crate::support::{conformance, conformance_json, episode, train};
use serde_json::json;
use skill_bank::distill::{Admit, Change, DistillError, DistillPlan, DistillSettings, LeftOutReason, apply};
use skill_bank::episode::read_episodes;
use skill_bank::{Bank, Tier};
use std::collections::{BTreeMap, BTreeSet};

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_inputs() {
    let recorded = conformance_json("distill.json");
    let mut n_compared = 0;
    for (environment, rows) in recorded["inputs"].as_object().unwrap() {
        let text = conformance(&format!("memories/{environment}.json"));
        let episodes = train(read_episodes(&text).unwrap().episodes);
        let plan = DistillPlan::new(&episodes, &DistillSettings::default());
        assert_eq!(plan.missing(), []);
        let mut reached: BTreeMap<&Tier, BTreeSet<&str>> = BTreeMap::new();
        for call in &plan.calls {
            reached.entry(&call.tier).or_default().extend(call.episodes.iter().map(String::as_str));
        }
        let all: BTreeSet<&str> = episodes.iter().map(|episode| episode.id.as_str()).collect();
        assert_eq!(reached[&Tier::General], all, "all memories reach a general call");
        let failures = episodes.iter().filter(|episode| !episode.success);
        let failures: BTreeSet<&str> = failures.map(|episode| episode.id.as_str()).collect();
        assert_eq!(reached[&Tier::Mistakes], failures, "failures, and nothing else, teach mistakes");
        n_compared += all.len();
        // What the reference sends is a part of what ours sends.
        let sample = &rows["on_sample"];
        assert_eq!(sample["memories"], json!(all.len()));
        let reaching = sample["distinct_memories_in_general_and_task_calls"].as_u64().unwrap();
        assert!(reaching <= all.len() as u64);
    }
    println!("conformance: {n_compared} memories reach their calls");
}

#[tokio::test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
async fn conformance_replies() {
    let recorded = conformance_json("distill.json");
    let rows = recorded["replies"].as_array().unwrap().clone();
    for row in &rows {
        let id = row["id"].as_str().unwrap();
        let asked = row["call"].as_str().unwrap();
        let asked = asked.strip_prefix("task:").unwrap_or(asked).to_owned();
        let reply = row["reply"].as_str().unwrap_or_default().to_owned();
        let right = row["right"].as_str().unwrap();
        let target = asked.clone();
        let (model, log) = teacher_of(move |place, _| match tier_in(place) == target {
            true => Ok(reply.clone()),
            false => Ok(good(place)),
        });
        let episodes = train(vec![episode("task-1", "heat", false)]);
        let outcome = run(&episodes, &DistillSettings::default(), &model).await;
        let asked_again = log.lock().iter().any(|(place, _)| place.ends_with("repair"));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(DistillError::BrokenReply { .. }) => {
                assert!(asked_again && right.starts_with("asked again"), "{id}");
                continue;
            }
            Err(error) => panic!("{id}: {error}"),
        };
        let mut bank = Bank::new();
        let applied = apply(&mut bank, 1, &outcome.proposals, Admit::Candidate).unwrap();
        let tier = match asked.as_str() {
            "general" => Tier::General,
            "mistakes" => Tier::Mistakes,
            task_type => Tier::of_type(task_type),
        };
        let of_tier = |change: &Change| matches!(change, Change::Add { tier: own, .. } if *own == tier);
        let n_own = outcome.proposals.iter().filter(|proposal| of_tier(&proposal.change)).count();
        let n_duplicates = outcome
            .left_out
            .iter()
            .filter(|left| matches!(left.reason, LeftOutReason::Duplicate { .. }))
            .count();
        if right.starts_with("asked again") {
            // Ours reads it after all, or has asked again and goes on without the tier; it says which.
            assert!((n_own > 0 || asked_again) && !outcome.notes.is_empty(), "{id}");
        } else {
            let expected: usize =
                right.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
            let told = if right.contains("duplicate") { n_own + n_duplicates } else { n_own };
            assert_eq!(told, expected, "{id}: {right}");
        }
        let ids: BTreeSet<String> = applied.proposed.iter().map(ToString::to_string).collect();
        assert_eq!(ids.len(), outcome.proposals.len(), "{id}: each has its own id");
        let prefix = format!("{}_", tier.id_prefix());
        assert_eq!(ids.iter().filter(|own| own.starts_with(&prefix)).count(), n_own, "{id}");
    }
    let prefixes = recorded["id_prefixes"].as_array().unwrap();
    for row in prefixes {
        let tier = Tier::of_type(row["type"].as_str().unwrap());
        assert_eq!(format!("{}_", tier.id_prefix()), row["prefix"].as_str().unwrap());
    }
    println!("conformance: {} replies and {} prefixes of distillation", rows.len(), prefixes.len());
}
