//! How fast skills are retrieved: `cargo bench -p skill-bank --bench retrieval`.
//!
//! From a bank of 1,000 skills, with the text and all reasons: 100 µs by template, 1 ms by embedding once the goal is
//! embedded. The worst case has all skills in the tiers that are considered.

use divan::{Bencher, black_box};
use skill_bank::retrieve::{PreparedBank, Retrieval, RetrievalMode, RetrievalSettings, SkillVectors};
use skill_bank::{BankView, Content, SkillRef, Tier, ViewedSkill};
use skill_core::SkillPartId;

const N_SKILLS: usize = 1_000;
const N_DIMENSIONS: usize = 384;
const GOAL: &str = "put a hot mug in the cabinet and a clean plate on the dining table.";

fn main() {
    divan::main();
}

/// A bank whose skills are in two tiers, or spread over general skills, six types and mistakes.
fn view(is_spread: bool) -> BankView {
    let types = ["clean", "heat", "cool", "pick_and_place", "examine", "look_at_obj_in_light"];
    let skill = |number: usize| {
        let tier = match (is_spread, number % 8) {
            (false, place) if place % 2 == 0 => Tier::General,
            (false, _) => Tier::of_type("heat"),
            (true, 0) => Tier::General,
            (true, 1) => Tier::Mistakes,
            (true, place) => Tier::of_type(types.get(place - 2).copied().unwrap_or("heat")),
        };
        let content = match tier {
            Tier::Mistakes => Content::Mistake {
                description: format!("Mistake {number}: the appliance is opened before it is empty."),
                why_it_happens: String::new(),
                how_to_avoid: "Look into it first.".repeat(4),
            },
            _ => Content::Principle {
                title: format!("Skill {number}"),
                principle: "Open a container before you judge what is in it. ".repeat(3),
                when_to_apply: "On arriving at a closed container.".to_owned(),
            },
        };
        ViewedSkill {
            id: SkillRef::new(SkillPartId::new(format!("gen_{number:04}")), 1),
            tier,
            content,
            utility: None,
        }
    };
    BankView::new((0..N_SKILLS).map(skill).collect())
}

fn prepared(mode: RetrievalMode, is_spread: bool) -> Option<PreparedBank> {
    let settings = RetrievalSettings {
        mode,
        task_top_k: Some(6),
        token_budget: Some(1_000),
        ..RetrievalSettings::default()
    };
    Some(Retrieval::new(settings).ok()?.prepare(view(is_spread)))
}

/// Numbers that look like those of an embedding, the same each time.
fn vector(seed: usize) -> Vec<f32> {
    let number = |at: usize| ((seed * 31 + at * 17) % 101) as f32 / 50.0 - 1.01;
    (0..N_DIMENSIONS).map(number).collect()
}

#[divan::bench(args = [false, true])]
fn template(bencher: Bencher<'_, '_>, is_spread: bool) {
    let Some(bank) = prepared(RetrievalMode::Template, is_spread) else { return };
    bencher.bench(|| bank.select(bank.detect("", black_box(GOAL)), None));
}

#[divan::bench(args = [false, true])]
fn embedding(bencher: Bencher<'_, '_>, is_spread: bool) {
    let Some(bank) = prepared(RetrievalMode::Embedding, is_spread) else { return };
    let vectors: Vec<Vec<f32>> = (0..N_SKILLS).map(vector).collect();
    let Ok(vectors) = SkillVectors::new(vectors.iter().map(|vector| Some(vector.as_slice()))) else { return };
    let goal = vector(N_SKILLS);
    bencher.bench(|| {
        let similarities = vectors.similarities(black_box(&goal)).unwrap_or_default();
        bank.select(bank.detect("", black_box(GOAL)), Some(&similarities))
    });
}
