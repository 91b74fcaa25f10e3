//! Selections and texts compared with recorded ones of the reference, and with the right answer where it is wrong.

use crate::recorded::{Counted, file, rows};
use crate::retrieve::ids;
use serde_json::Value;
use skill_bank::retrieve::{
    Compat, Retrieval, RetrievalMode, RetrievalSettings, Section, Selection, SkillVectors, Threshold,
    embedding_text, top_k_over,
};
use skill_bank::task_type::{Detected, Found};
use skill_bank::{BankView, Content, SkillRef, Tier, ViewedSkill};
use skill_core::SkillPartId;
use skill_core::canonical::hex_sha256;

/// Recorded similarities have five digits.
const TOLERANCE: f32 = 1e-4;
/// Neighbours that are closer than this may change places.
const SMALLEST_GAP: f64 = 1e-3;

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn names(value: &Value) -> Vec<String> {
    list(value).iter().map(|name| name.as_str().unwrap_or("without-id").to_owned()).collect()
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_i64().unwrap_or(0)).unwrap_or(0)
}

/// A bank's JSON as agents may be shown it, in the order of the file, with so many dynamic skills.
fn view_of(bank: &Value, dynamic: &[Value]) -> BankView {
    let viewed = |id_field: &str, value: &Value, tier: Tier| {
        let id = value.get(id_field).and_then(Value::as_str).unwrap_or("without-id");
        let content = match tier {
            Tier::Mistakes => Content::Mistake {
                description: text(value, "description"),
                why_it_happens: text(value, "why_it_happens"),
                how_to_avoid: text(value, "how_to_avoid"),
            },
            _ => Content::Principle {
                title: text(value, "title"),
                principle: text(value, "principle"),
                when_to_apply: text(value, "when_to_apply"),
            },
        };
        ViewedSkill { id: SkillRef::new(SkillPartId::new(id), 1), tier, content, utility: None }
    };
    let mut skills = Vec::new();
    for value in list(&bank["general_skills"]).iter().chain(dynamic) {
        skills.push(viewed("skill_id", value, Tier::General));
    }
    for key in ["task_specific_skills", "query_type_skills"] {
        for (task_type, values) in bank.get(key).and_then(Value::as_object).into_iter().flatten() {
            skills
                .extend(list(values).iter().map(|value| viewed("skill_id", value, Tier::of_type(task_type))));
        }
    }
    skills.extend(
        list(&bank["common_mistakes"]).iter().map(|value| viewed("mistake_id", value, Tier::Mistakes)),
    );
    BankView::new(skills)
}

fn official(bank: &str, n_dynamic: usize) -> BankView {
    let dynamic = rows("retrieval.json", "dyn_skills");
    view_of(&file(&format!("banks/{bank}.json")), &dynamic[..n_dynamic])
}

fn retrieval(change: impl FnOnce(&mut RetrievalSettings)) -> Retrieval {
    let mut settings = RetrievalSettings::default();
    change(&mut settings);
    Retrieval::new(settings).unwrap()
}

fn named(task_type: &str) -> Detected {
    match task_type {
        "unknown" => Detected::unknown(),
        known => Detected::environment(known),
    }
}

fn lists(selection: &Selection) -> [Vec<String>; 3] {
    [Section::General, Section::TaskType, Section::Mistakes].map(|section| ids(selection, section))
}

/// With the paper's rules every list and every text is theirs, byte for byte.
#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_template() {
    let mut counted = Counted::new("retrieval.json template, with the paper's rules");
    for row in rows("retrieval.json", "template") {
        let view = official(row["bank"].as_str().unwrap(), number(&row["dyn"]));
        let paper = retrieval(|settings| {
            settings.compat = Compat::Paper;
            settings.top_k = number(&row["top_k"]);
            settings.task_top_k = row["task_specific_top_k"].as_i64().map(|top_k| top_k as usize);
        });
        let selection = paper.prepare(view).select(named(row["task_type"].as_str().unwrap()), None);
        let expect = ["general_ids", "task_ids", "mistake_ids"].map(|list| names(&row[list]));
        assert_eq!(lists(&selection), expect, "{}", row["id"]);
        assert_eq!(hex_sha256(selection.text.as_bytes()), row["rendered_sha256"], "{}", row["id"]);
        assert_eq!(selection.text.chars().count(), number(&row["rendered_chars"]), "{}", row["id"]);
        counted.add();
    }
}

/// With our rules the lists are theirs where dynamic skills and wrong types do not matter, and right elsewhere.
#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_template_right() {
    let mut counted = Counted::new("retrieval.json template, with our rules");
    let detected = rows("retrieval.json", "detect");
    for row in rows("retrieval.json", "template") {
        let [bank, goal] = ["bank", "goal"].map(|name| text(&row, name));
        let top_k = number(&row["top_k"]);
        let task_top_k = row["task_specific_top_k"].as_i64().map(|top_k| top_k as usize);
        let view = official(&bank, number(&row["dyn"]));
        let in_order = |tier: Tier, most: usize| -> Vec<String> {
            view.tier(&tier).take(most).map(|(_, skill)| skill.id.to_string()).collect()
        };
        let ours = retrieval(|settings| {
            settings.top_k = top_k;
            settings.task_top_k = task_top_k;
        });
        // The goal is looked up among the detected ones for its collection of questions and its right types.
        let known = detected.iter().find(|known| text(known, "goal") == goal);
        let source = known.map(|known| text(known, "data_source")).unwrap_or_default();
        let selection = ours.select(&view, &source, &goal, None);
        let found = selection.task_type.task_type.clone().unwrap();
        let right =
            known.map(|known| names(&known["right"]["types"])).unwrap_or_else(|| vec!["apparel".into()]);
        let is_theirs_wrong = bank == "search" || !right.contains(&text(&row, "task_type"));
        match known {
            Some(_) => assert!(right.contains(&found), "{}: {found}", row["id"]),
            // A goal that is in no row of `detect`: the type of their list is right unless it is another word's.
            None => assert!(found == right[0] || found == text(&row, "task_type"), "{}: {found}", row["id"]),
        }
        let expect = [
            in_order(Tier::General, top_k),
            in_order(Tier::of_type(&found), task_top_k.unwrap_or(usize::MAX)),
            in_order(Tier::Mistakes, 5),
        ];
        assert_eq!(lists(&selection), expect, "{}", row["id"]);
        assert_eq!(selection.warnings, [], "{}", row["id"]);
        if number(&row["dyn"]) == 0 && !is_theirs_wrong {
            let theirs = ["general_ids", "task_ids", "mistake_ids"].map(|list| names(&row[list]));
            // Words of `examine` name the type of `look_at`.
            if found == text(&row, "task_type") {
                assert_eq!(lists(&selection), theirs, "{}", row["id"]);
            }
        }
        counted.add();
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_odd_banks() {
    let mut counted = Counted::new("retrieval.json odd");
    for row in rows("retrieval.json", "odd") {
        let view = view_of(&row["bank"], &[]);
        let reference = &row["reference"];
        let goal = text(&row, "goal");
        let with = |compat| {
            retrieval(|settings| {
                settings.compat = compat;
                settings.top_k = number(&row["top_k"]);
            })
        };
        let theirs =
            with(Compat::Paper).prepare(view.clone()).select(named(&text(reference, "task_type")), None);
        assert_eq!(theirs.text, reference["rendered"], "{}", row["id"]);
        let has_text = |id: &String| {
            let skill = view.skills().iter().find(|skill| skill.id.to_string() == *id);
            skill.is_some_and(|skill| !skill.content.title().is_empty())
        };
        let expect = ["general_ids", "task_ids", "mistake_ids"]
            .map(|list| names(&reference[list]).into_iter().filter(has_text).collect::<Vec<String>>());
        assert_eq!(lists(&theirs), expect, "{}", row["id"]);
        // Ours takes neither the first key of a bank with strange types nor the first family of one with two.
        let right = match row["id"].as_str().unwrap() {
            "odd-03" => "writing".to_owned(),
            "odd-04" => "apparel".to_owned(),
            _ => text(reference, "task_type"),
        };
        let ours = with(Compat::None).select(&view, "", &goal, None);
        let found = ours.task_type.task_type.clone().unwrap_or_else(|| "unknown".to_owned());
        assert_eq!(found, right, "{}", row["id"]);
        if right == text(reference, "task_type") {
            assert_eq!((lists(&ours), ours.text.as_str()), (expect, reference["rendered"].as_str().unwrap()));
        }
        assert!(!matches!(ours.task_type.found, Found::Environment));
        counted.add();
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_rendered_sizes() {
    let mut counted = Counted::new("agent_prompt.json sizes");
    let data = file("agent_prompt.json");
    let growth = &data["growth_with_dyn_skills"];
    // The texts of more dynamic skills are not recorded.
    let grown = list(&growth["rows"]).into_iter().filter(|row| number(&row["dyn"]) <= 8);
    let grown = grown.map(|row| (text(growth, "bank"), "heat".to_owned(), row));
    let sizes = list(&data["rendered_sizes"]);
    let sizes = sizes.into_iter().map(|row| (text(&row, "bank"), text(&row, "task_type"), row));
    for (bank, task_type, row) in sizes.chain(grown) {
        let view = official(&bank, number(&row["dyn"]));
        let selection = retrieval(|settings| settings.compat = Compat::Paper)
            .prepare(view)
            .select(named(&task_type), None);
        let [general, task, _] = lists(&selection);
        assert_eq!(general.len(), number(&row["general"]), "{row}");
        assert!(row.get("task").is_none_or(|expect| task.len() == number(expect)), "{row}");
        assert_eq!(selection.text.chars().count(), number(&row["chars"]), "{row}");
        counted.add();
    }
}

/// Compares a ranking: exactly, or where neighbours are closer than the gap, by their similarities.
#[track_caller]
fn check_ranking(
    row: &Value,
    what: &str,
    found: &[String],
    expect: &[String],
    similarity: impl Fn(&str) -> f32,
) {
    assert_eq!(found.len(), expect.len(), "{} {what}: {found:?} {expect:?}", row["id"]);
    if row["smallest_gap_between_ranks"].as_f64().unwrap() >= SMALLEST_GAP {
        assert_eq!(found, expect, "{} {what}", row["id"]);
    }
    for (found, expect) in found.iter().zip(expect) {
        let gap = f64::from((similarity(found) - similarity(expect)).abs());
        assert!(gap < SMALLEST_GAP, "{} {what}: {found} for {expect}", row["id"]);
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_embedding_rankings() {
    let mut counted = Counted::new("embedding.json rankings");
    for row in rows("embedding.json", "rankings") {
        let bank = text(&row, "bank");
        let view = official(&bank, 0);
        let recorded: Vec<(String, f32)> = list(&row["similarities"])
            .iter()
            .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_f64().unwrap() as f32))
            .collect();
        let of = |id: &str| recorded.iter().find(|(own, _)| own == id).map(|(_, cosine)| *cosine);
        // Vectors with the recorded cosines give these cosines.
        let vectors: Vec<Option<Vec<f32>>> = view
            .skills()
            .iter()
            .map(|skill| {
                of(&skill.id.to_string())
                    .map(|cosine| vec![3.0 * cosine, 3.0 * (1.0 - cosine * cosine).sqrt()])
            })
            .collect();
        let similarities = SkillVectors::new(vectors.iter().map(Option::as_deref))
            .unwrap()
            .similarities(&[2.0, 0.0])
            .unwrap();
        for (skill, similarity) in view.skills().iter().zip(&similarities) {
            match (of(&skill.id.to_string()), similarity) {
                (Some(recorded), Some(found)) => {
                    assert!((recorded - found).abs() < TOLERANCE, "{}", row["id"]);
                }
                (None, None) => assert_eq!(skill.tier, Tier::Mistakes),
                (recorded, found) => panic!("{}: {recorded:?} {found:?}", row["id"]),
            }
        }
        let similarity = |id: &str| of(id).unwrap();
        let id = |place: usize| view.skills()[place].id.to_string();

        let by_embedding = |compat| {
            retrieval(|settings| {
                settings.mode = RetrievalMode::Embedding;
                settings.compat = compat;
            })
        };
        let right_type = text(&row, "right_type");
        let paper =
            by_embedding(Compat::Paper).prepare(view.clone()).select(named(&right_type), Some(&similarities));
        let [general, task, mistakes] = lists(&paper);
        check_ranking(&row, "general", &general, &names(&row["reference"]["general"]), similarity);
        assert_eq!(mistakes, names(&row["reference"]["mistakes"]));
        // The reference does not read the task skills of the search bank.
        if bank != "search" {
            check_ranking(&row, "task", &task, &names(&row["reference"]["task"]), similarity);
        }
        assert!(paper.text.lines().any(|line| line == "### Task-Relevant Skills"));

        // Ours: the same general skills, and only those of the right type, by similarity.
        let ours =
            by_embedding(Compat::None).prepare(view.clone()).select(named(&right_type), Some(&similarities));
        let [general, task, _] = lists(&ours);
        check_ranking(&row, "our general", &general, &names(&row["reference"]["general"]), similarity);
        assert_eq!(task.len(), view.tier(&Tier::of_type(&right_type)).count());
        assert!(task.windows(2).all(|pair| similarity(&pair[0]) >= similarity(&pair[1])));

        let tiers = |wanted: &dyn Fn(&Tier) -> bool| -> Vec<usize> {
            let places = view.skills().iter().enumerate().filter(|(_, skill)| wanted(&skill.tier));
            places.map(|(place, _)| place).collect()
        };
        let pools: [(&str, Vec<usize>); 3] = [
            ("task_tier_of_right_type", tiers(&|tier| tier.task_type() == Some(&right_type))),
            ("all_task", tiers(&|tier| tier.task_type().is_some())),
            ("both_tiers", tiers(&|tier| *tier != Tier::Mistakes)),
        ];
        for rule in ["paper", "lower_delta"] {
            let [delta, k] = ["delta", "K"].map(|name| row[rule][name].as_f64().unwrap());
            for (pool, places) in &pools {
                let found: Vec<String> = top_k_over(&similarities, places.iter().copied(), delta, k as usize)
                    .into_iter()
                    .map(id)
                    .collect();
                let expect: Vec<String> =
                    list(&row[rule][*pool]).iter().map(|pair| pair[0].as_str().unwrap().to_owned()).collect();
                check_ranking(&row, pool, &found, &expect, similarity);
            }
        }
        // A similarity that is recorded as the threshold itself was on one side of it or the other.
        for (delta, n_above) in row["above"].as_object().unwrap() {
            let above =
                |delta: f64| top_k_over(&similarities, 0..view.skills().len(), delta, usize::MAX).len();
            let delta: f64 = delta.parse().unwrap();
            let found = above(delta + f64::from(TOLERANCE))..=above(delta - f64::from(TOLERANCE));
            assert!(found.contains(&number(n_above)), "{} above {delta}: {found:?}", row["id"]);
        }
        counted.add();
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_embedding_texts() {
    let mut counted = Counted::new("embedding.json texts of skills");
    for row in rows("embedding.json", "texts") {
        // The vectors of the others need the model.
        let Some((bank, id)) = row.get("of").and_then(Value::as_str).and_then(|of| of.split_once('/')) else {
            continue;
        };
        let view = official(bank, 0);
        let skill = view.skills().iter().find(|skill| skill.id.to_string() == id).unwrap();
        assert_eq!(embedding_text(&skill.content).unwrap(), row["text"], "{}", row["id"]);
        counted.add();
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_embedding_special() {
    let mut counted = Counted::new("embedding.json special");
    let data = file("embedding.json");
    let special = &data["special"];
    // Four equal skills.
    let equal: Vec<ViewedSkill> = (1..=4)
        .map(|number| crate::retrieve::skill(&format!("gen_{number:03}"), Tier::General, None))
        .collect();
    let general = |compat| {
        let retrieval = retrieval(|settings| {
            settings.mode = RetrievalMode::Embedding;
            settings.compat = compat;
            settings.top_k = 2;
        });
        ids(
            &retrieval.select(&BankView::new(equal.clone()), "", "goal", Some(&[Some(0.5); 4])),
            Section::General,
        )
    };
    assert_eq!(general(Compat::Paper), names(&special["tie"]["reference"]));
    assert_eq!(general(Compat::None), names(&special["tie"]["right"]));
    counted.add();
    // The threshold of the paper leaves nothing of the general skills with this model.
    let rankings = rows("embedding.json", "rankings");
    let row = rankings.iter().find(|row| text(row, "bank") == "alfworld").unwrap();
    let similarities: Vec<Option<f32>> =
        list(&row["similarities"]).iter().map(|pair| pair[1].as_f64().map(|cosine| cosine as f32)).collect();
    let thresholded = retrieval(|settings| {
        settings.mode = RetrievalMode::Embedding;
        settings.threshold = Some(Threshold { model: "all-MiniLM-L6-v2".into(), value: 0.4 });
    });
    let selection = thresholded.prepare(official("alfworld", 0)).select(named("heat"), Some(&similarities));
    let n_above = number(&row["above"]["0.4"]);
    assert!(ids(&selection, Section::General).len() + ids(&selection, Section::TaskType).len() <= n_above);
    counted.add();
}
