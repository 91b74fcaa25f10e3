//! Retrieval: what is selected, in which order, why, and within which limits.

use proptest::prelude::*;
use skill_bank::retrieve::{
    Compat, NOTHING_RELEVANT, Retrieval, RetrievalMode, RetrievalSettings, Section, Selection, SkillVectors,
    Threshold, Warning, WhyLeftOut, embedding_text, top_k_over,
};
use skill_bank::task_type::{Detected, Found};
use skill_bank::{BankError, BankView, Content, SkillRef, Tier, Utility, ViewedSkill};
use skill_core::SkillPartId;
use skill_core::tokens::estimate_tokens;

pub(crate) fn skill(id: &str, tier: Tier, lower_bound: Option<f64>) -> ViewedSkill {
    let content = match tier {
        Tier::Mistakes => Content::Mistake {
            description: format!("Mistake {id}"),
            why_it_happens: String::new(),
            how_to_avoid: format!("Avoid {id}."),
        },
        _ => Content::principle(format!("Title {id}"), format!("Do {id}."), format!("When {id}.")),
    };
    let utility = lower_bound.map(|lower| Utility {
        difference: lower + 0.1,
        interval: [lower, lower + 0.2],
        with: [6, 10],
        without: [5, 10],
        informative_groups: 4,
    });
    ViewedSkill { id: SkillRef::new(SkillPartId::new(id), 1), tier, content, utility }
}

fn settings(change: impl FnOnce(&mut RetrievalSettings)) -> RetrievalSettings {
    let mut settings = RetrievalSettings::default();
    change(&mut settings);
    settings
}

fn retrieval(change: impl FnOnce(&mut RetrievalSettings)) -> Retrieval {
    Retrieval::new(settings(change)).unwrap()
}

/// The ids of what a section shows, in order.
pub(crate) fn ids(selection: &Selection, section: Section) -> Vec<String> {
    let shown = selection.shown.iter().filter(|shown| shown.section == section);
    shown.map(|shown| shown.id.to_string()).collect()
}

fn left_out(selection: &Selection, why: WhyLeftOut) -> Vec<String> {
    let left_out = selection.left_out.iter().filter(|left_out| left_out.why == why);
    left_out.map(|left_out| left_out.id.to_string()).collect()
}

/// General skills g0.. with these lower bounds, heat skills h0.., one of another type, and mistakes.
fn view(general: &[Option<f64>], heat: &[Option<f64>], n_mistakes: usize) -> BankView {
    let of = |prefix: &'static str, tier: Tier| {
        move |(number, bound): (usize, &Option<f64>)| {
            skill(&format!("{prefix}{number}"), tier.clone(), *bound)
        }
    };
    let mut skills: Vec<ViewedSkill> = general.iter().enumerate().map(of("g", Tier::General)).collect();
    skills.extend(heat.iter().enumerate().map(of("h", Tier::of_type("heat"))));
    skills.push(skill("c0", Tier::of_type("cool"), None));
    skills.extend((0..n_mistakes).map(|number| skill(&format!("m{number}"), Tier::Mistakes, None)));
    BankView::new(skills)
}

/// `S_ret = TopK({s in S_k : sim > delta}, K)`, where S_k are the general skills and those of the type.
#[test]
fn a_total_is_the_most_of_general_skills_and_those_of_the_type_together() {
    // g0 g1 g2 g3, h0 h1 h2, c0, m0.
    let view = view(&[None; 4], &[None; 3], 1);
    let similarities: Vec<Option<f32>> =
        [0.1, 0.8, 0.3, 0.5, 0.7, 0.2, 0.6, 0.9].into_iter().map(Some).chain([None]).collect();
    let shown = |total: Option<usize>, delta: f64| {
        let threshold = Some(Threshold { model: "m".into(), value: delta });
        let mode = RetrievalMode::Embedding;
        let retrieval = retrieval(|settings| {
            *settings = RetrievalSettings { total, threshold, mode, ..settings.clone() };
        });
        let selection = retrieval.select(&view, "heat", "goal", Some(&similarities));
        let of = |section| ids(&selection, section).join(" ");
        (of(Section::General), of(Section::TaskType), of(Section::Mistakes), selection)
    };
    for (total, general, of_type) in [
        (0, "", ""),
        (1, "g1", ""),
        (2, "g1", "h0"),
        (3, "g1", "h0 h2"),
        (4, "g1 g3", "h0 h2"),
        (9, "g1 g3 g2", "h0 h2"),
    ] {
        let (found, found_of_type, mistakes, selection) = shown(Some(total), 0.25);
        assert_eq!((found.as_str(), found_of_type.as_str()), (general, of_type), "{total}");
        assert_eq!(mistakes, "m0", "a mistake is not counted");
        let n_over = left_out(&selection, WhyLeftOut::OverTotal).len();
        assert_eq!(n_over, 5_usize.saturating_sub(total), "{total}");
        assert_eq!(left_out(&selection, WhyLeftOut::BelowThreshold).len(), 2, "{total}");
        // The same by the formula of the paper and of krill.
        let pool = top_k_over(&similarities, [0, 1, 2, 3, 4, 5, 6], 0.25, total);
        assert_eq!(pool.len(), found.split_whitespace().count() + found_of_type.split_whitespace().count());
    }
    assert_eq!(shown(None, 0.25).0, "g1 g3 g2");
    // The limits of the tiers hold beside it.
    let one = retrieval(|settings| (settings.top_k, settings.total) = (1, Some(3)));
    let selection = one.select(&view, "heat", "", None);
    assert_eq!(ids(&selection, Section::General), ["g0"]);
    assert_eq!(ids(&selection, Section::TaskType), ["h0", "h1"]);
    assert_eq!(left_out(&selection, WhyLeftOut::OverTopK), ["g1", "g2", "g3"]);
    assert_eq!(left_out(&selection, WhyLeftOut::OverTotal), ["h2"]);
}

#[test]
fn without_similarities_the_total_goes_to_the_highest_utility() {
    let view = view(&[Some(0.2), None, Some(-0.1)], &[Some(0.1), None], 0);
    for (total, expect) in [
        (1, &["g0"][..]),
        (2, &["g0", "h0"]),
        (3, &["g0", "g2", "h0"]),
        (4, &["g0", "g2", "h0", "h1"]),
        (5, &["g0", "g2", "g1", "h0", "h1"]),
    ] {
        let selection = retrieval(|settings| settings.total = Some(total)).select(&view, "heat", "", None);
        let shown: Vec<String> = selection.shown.iter().map(|shown| shown.id.to_string()).collect();
        assert_eq!(shown, expect, "a total of {total}");
    }
    // A total that nobody sets is not part of what a run is.
    assert_eq!(serde_json::to_value(RetrievalSettings::default()).unwrap().get("total"), None);
}

#[test]
fn utility_decides_inside_a_tier_and_the_bank_decides_ties() {
    let view = view(&[None, Some(0.1), None, Some(0.3), Some(-0.2)], &[None, Some(0.0)], 6);
    let selection = retrieval(|settings| settings.top_k = 4).select(&view, "heat", "", None);
    assert_eq!(ids(&selection, Section::General), ["g3", "g1", "g4", "g0"]);
    assert_eq!(ids(&selection, Section::TaskType), ["h1", "h0"]);
    assert_eq!(ids(&selection, Section::Mistakes), ["m0", "m1", "m2", "m3", "m4"]);
    assert_eq!(left_out(&selection, WhyLeftOut::OverTopK), ["g2", "m5"]);
    assert_eq!(selection.left_out[0].rank, 5);
    assert_eq!((selection.n_other_types, selection.n_unmeasured), (1, 7));
    assert_eq!(selection.task_type.found, Found::Environment);
    assert!(selection.warnings.is_empty());
    let first = &selection.shown[0];
    assert_eq!((first.rank, first.lower_bound, first.similarity, first.is_cut), (1, Some(0.3), None, false));
    assert_eq!(selection.parts()[0].as_str(), "g3");
    assert!(selection.shows(&first.id) && !selection.shows(&selection.left_out[0].id));
}

#[test]
fn an_unknown_type_and_an_empty_tier_are_warnings() {
    let view = view(&[None], &[None], 1);
    let retrieval = retrieval(|_| {});
    let select = |environment_type: &str, goal: &str| retrieval.select(&view, environment_type, goal, None);
    let unknown = retrieval.prepare(view.clone()).select(Detected::unknown(), None);
    assert_eq!(unknown.warnings, [Warning::UnknownType]);
    assert_eq!(unknown.parts().len(), 2, "{unknown:?}");
    assert_eq!(select("clean", "").warnings, [Warning::EmptyTaskTier { task_type: "clean".into() }]);
    let told_by_the_goal = select("", "put a hot mug in cabinet");
    assert_eq!(told_by_the_goal.warnings, []);
    let empty = retrieval.select(&BankView::new(Vec::new()), "", "put a mug on the desk", None);
    assert_eq!((empty.text.as_str(), empty.shown.len()), (NOTHING_RELEVANT, 0));
}

#[test]
fn the_text_has_the_sections_in_their_order() {
    let selection = retrieval(|_| {}).select(&view(&[None], &[None], 1), "heat", "", None);
    insta::assert_snapshot!(selection.text, @r"
    ### General Principles
    - **Title g0**: Do g0.

    ### Heat Skills
    - **Title h0**: Do h0.
      _Apply when: When h0._

    ### Mistakes to Avoid
    - **Don't**: Mistake m0
      **Instead**: Avoid m0.
    ");
    assert_eq!(selection.tokens, estimate_tokens(&selection.text));
}

#[test]
fn long_skills_are_cut_and_empty_ones_left_out() {
    let mut long = skill("g0", Tier::General, None);
    long.content = Content::principle("T", "word ".repeat(200), "W");
    let mut empty = skill("g1", Tier::General, None);
    empty.content = Content::principle("", " ", "W");
    let view = BankView::new(vec![long, empty, skill("g2", Tier::General, None)]);
    let selection = retrieval(|settings| settings.top_k = 2).select(&view, "", "", None);
    assert_eq!(ids(&selection, Section::General), ["g0", "g2"]);
    assert!(selection.shown[0].is_cut && !selection.shown[1].is_cut);
    assert_eq!(left_out(&selection, WhyLeftOut::Empty), ["g1"]);
    let first = selection.text.lines().nth(1).unwrap();
    assert!(first.ends_with("word…") && first.chars().count() <= 500 + "- ****: ".len(), "{first}");
}

#[test]
fn the_budget_drops_the_lowest_ranks_first() {
    let view = view(&[None; 4], &[None; 4], 4);
    let select =
        |budget| retrieval(|settings| settings.token_budget = budget).select(&view, "heat", "", None);
    let whole = select(None).tokens;
    let most = select(Some(whole + 20));
    assert_eq!((most.left_out.len(), most.shown.len()), (0, 12));
    for (budget, expect) in [(25, (0, 1, 0)), (55, (1, 1, 1)), (80, (2, 2, 1)), (0, (0, 0, 0))] {
        let selection = select(Some(budget));
        let n_shown = |section| ids(&selection, section).len();
        let found = (n_shown(Section::General), n_shown(Section::TaskType), n_shown(Section::Mistakes));
        assert_eq!(found, expect, "{budget}: {}", selection.text);
        assert_eq!(left_out(&selection, WhyLeftOut::OverBudget).len(), 12 - selection.shown.len());
    }
}

#[test]
fn similarity_ranks_inside_a_tier_after_utility() {
    let view = view(&[None, None, Some(0.2), None], &[None, None], 1);
    let similarities: Vec<Option<f32>> =
        [0.1, 0.5, -0.3, 0.4, 0.2, 0.6, 0.9].into_iter().map(Some).chain([None]).collect();
    let by_embedding = |change: fn(&mut RetrievalSettings)| {
        let retrieval = retrieval(|settings| {
            settings.mode = RetrievalMode::Embedding;
            change(settings);
        });
        retrieval.select(&view, "heat", "goal", Some(&similarities))
    };
    let selection = by_embedding(|_| {});
    assert_eq!(ids(&selection, Section::General), ["g2", "g1", "g3", "g0"]);
    assert_eq!(ids(&selection, Section::TaskType), ["h1", "h0"], "the skill of another type is not shown");
    assert_eq!(ids(&selection, Section::Mistakes), ["m0"]);
    assert_eq!(selection.shown[1].similarity, Some(0.5));
    let selection = by_embedding(|settings| {
        settings.threshold = Some(Threshold { model: "m".into(), value: 0.35 });
    });
    assert_eq!(ids(&selection, Section::General), ["g1", "g3"]);
    assert_eq!(ids(&selection, Section::Mistakes), ["m0"], "mistakes have no similarity");
    assert_eq!(left_out(&selection, WhyLeftOut::BelowThreshold), ["g2", "g0", "h0"]);
    let paper = by_embedding(|settings| settings.compat = Compat::Paper);
    assert_eq!(ids(&paper, Section::TaskType), ["c0", "h1", "h0"]);
    assert_eq!(ids(&paper, Section::General), ["g1", "g3", "g0", "g2"]);
    let without =
        retrieval(|settings| settings.mode = RetrievalMode::Embedding).select(&view, "heat", "", None);
    assert_eq!(
        (without.mode, without.warnings.as_slice()),
        (RetrievalMode::Template, &[Warning::NoGoal][..])
    );
}

#[test]
fn vectors_that_cannot_be_compared_are_refused() {
    let new = |vectors: &[Option<&[f32]>]| SkillVectors::new(vectors.iter().copied());
    let is_bad = |result: Result<(), BankError>| matches!(result, Err(BankError::BadVectors { .. }));
    for vectors in [
        &[Some(&[1.0, 0.0][..]), Some(&[1.0][..])][..],
        &[Some(&[0.0, 0.0][..])],
        &[Some(&[f32::NAN][..])],
        &[Some(&[][..])],
    ] {
        assert!(is_bad(new(vectors).map(|_| ())), "{vectors:?}");
    }
    let vectors = new(&[Some(&[3.0, 4.0]), None, Some(&[0.0, -2.0])]).unwrap();
    assert_eq!(vectors.similarities(&[0.0, 5.0]).unwrap(), [Some(0.8), None, Some(-1.0)]);
    for goal in [&[1.0][..], &[0.0, 0.0], &[f32::INFINITY, 0.0]] {
        assert!(is_bad(vectors.similarities(goal).map(|_| ())), "{goal:?}");
    }
    for value in [1.5, f64::NAN] {
        let threshold = Some(Threshold { model: "m".into(), value });
        let refused = Retrieval::new(settings(|settings| settings.threshold = threshold));
        assert!(matches!(refused, Err(BankError::BadThreshold { .. })));
    }
}

#[test]
fn the_text_that_is_embedded_is_the_papers() {
    let text = |title: &str, principle: &str, when_to_apply: &str| {
        embedding_text(&Content::principle(title, principle, when_to_apply))
    };
    assert_eq!(text(" T ", "P.", "W\n").as_deref(), Some("T. P.. W"));
    assert_eq!(text("", "P", " ").as_deref(), Some("P"));
    assert_eq!(text("", "", ""), None);
    assert_eq!(embedding_text(&skill("m", Tier::Mistakes, None).content), None);
    assert_eq!(top_k_over(&[Some(0.5), None, Some(0.6), Some(0.6)], [3, 0, 1, 2, 9], 0.5, 5), [3, 2]);
}

fn any_skills() -> impl Strategy<Value = Vec<ViewedSkill>> {
    let tier = prop_oneof![
        Just(Tier::General),
        Just(Tier::Mistakes),
        Just(Tier::of_type("heat")),
        Just(Tier::of_type("cool")),
    ];
    // Strings of a pattern are made letter by letter, which takes most of such a test.
    let text =
        prop_oneof![3 => 0_usize..10, 1 => 100_usize..150].prop_map(|n_words| "größe ".repeat(n_words));
    let any = (tier, text, prop::option::of(-1.0..1.0_f64));
    prop::collection::vec(any, 0..60).prop_map(|skills| {
        let skills = skills.into_iter().enumerate().map(|(number, (tier, text, bound))| {
            let mut skill = skill(&format!("s{number}"), tier, bound);
            if let Content::Principle { principle, .. } = &mut skill.content {
                *principle = text;
            }
            skill
        });
        skills.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No bank makes the text longer than the budget, or a section longer than its K; and nothing goes missing.
    #[test]
    fn no_bank_passes_the_limits(
        skills in any_skills(),
        top_k in 0_usize..8,
        task_top_k in prop::option::of(0_usize..8),
        total in prop::option::of(0_usize..8),
        budget in prop::option::of(0_u64..400),
        cosines in prop::option::of(prop::collection::vec(prop::option::of(-1.0_f32..1.0), 60)),
    ) {
        let retrieval = retrieval(|settings| {
            settings.mode = RetrievalMode::Embedding;
            settings.top_k = top_k;
            settings.task_top_k = task_top_k;
            settings.total = total;
            settings.token_budget = budget;
        });
        let n_considered = skills.iter().filter(|skill| skill.tier != Tier::of_type("cool")).count();
        let view = BankView::new(skills);
        let selection = retrieval.select(&view, "heat", "", cosines.as_deref());
        prop_assert!(ids(&selection, Section::General).len() <= top_k);
        prop_assert!(ids(&selection, Section::Mistakes).len() <= 5);
        let n_of_total = ids(&selection, Section::General).len() + ids(&selection, Section::TaskType).len();
        prop_assert!(n_of_total <= total.unwrap_or(usize::MAX));
        prop_assert!(ids(&selection, Section::TaskType).len() <= task_top_k.unwrap_or(usize::MAX));
        prop_assert_eq!(selection.shown.len() + selection.left_out.len(), n_considered);
        if let Some(budget) = budget.filter(|_| !selection.shown.is_empty()) {
            prop_assert!(selection.tokens <= budget, "{} tokens of {budget}", selection.tokens);
        }
    }

    /// What is shown of skills with different utility does not depend on their order in the bank.
    #[test]
    fn the_order_of_the_bank_matters_only_for_ties(
        skills in any_skills().prop_map(|mut skills| {
            for (number, skill) in skills.iter_mut().enumerate() {
                let measured = super::retrieve::skill("x", Tier::General, Some(number as f64 / 1000.0));
                skill.utility = measured.utility;
            }
            skills
        }).prop_flat_map(|skills| (Just(skills.clone()), Just(skills).prop_shuffle())),
        budget in prop::option::of(0_u64..400),
    ) {
        let retrieval = retrieval(|settings| settings.token_budget = budget);
        let select = |skills: Vec<ViewedSkill>| retrieval.select(&BankView::new(skills), "heat", "", None);
        prop_assert_eq!(select(skills.0).text, select(skills.1).text);
    }
}

/// A bank that grows from 10 to 100 and 1,000 skills of a tier makes no longer text: K bounds it, or the budget does.
#[test]
fn a_bank_that_grows_does_not_make_the_text_longer() {
    let by_default = RetrievalSettings::default().task_top_k;
    assert_eq!(by_default, Some(6));
    let select = |n_skills: usize, budget: Option<u64>, task_top_k: Option<usize>| {
        let bounds = vec![None; n_skills];
        let retrieval = retrieval(|settings| {
            settings.token_budget = budget;
            settings.task_top_k = task_top_k;
        });
        retrieval.select(&view(&bounds, &bounds, 5), "heat", "", None)
    };
    let few = select(10, None, by_default);
    for n_skills in [100, 1_000] {
        assert_eq!(select(n_skills, None, by_default).text, few.text, "{n_skills} skills");
        for budget in [100, 300, 600] {
            let [few, many] = [10, n_skills].map(|n_skills| select(n_skills, Some(budget), None));
            assert!(few.tokens <= budget && many.tokens <= budget, "{n_skills} skills, {budget} tokens");
            assert_eq!(
                many.shown.len() + many.left_out.len(),
                2 * n_skills + 5,
                "everything is accounted for"
            );
        }
    }
}
