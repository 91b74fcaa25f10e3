//! Attempts of the `qa` environment: what the model is asked, and what becomes of what it says.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::fixed::{Fixed, usage};
use skill_core::{Role, RolloutResult, SkillDoc, Trajectory, TrajectoryMessage, TrajectoryTurn};
use skill_envs::qa::{QaEnv, QaItem, QaScorer, QaSettings, ROLLOUT_PROMPT};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SCORING_VERSION, Split};
use skill_llm::{CallCtx, CallPlace, ChatReply, ErrorClass, FinishReason, LlmError};

fn saying(text: &str, finish: FinishReason) -> Fixed {
    Fixed::replying(vec![ChatReply::new(text, usage(), finish)])
}

fn env_of(question: QaItem, settings: QaSettings) -> QaEnv {
    QaEnv::from_items(vec![question], Vec::new(), Vec::new(), settings).unwrap()
}

fn place() -> CallPlace {
    CallPlace::new("step 1").child("rollout").child("q1")
}

async fn attempt(env: &QaEnv, skill: &str, model: &Fixed) -> Result<RolloutResult, EnvError> {
    let item = &env.items(Split::Train)[0];
    let ctx = RolloutCtx::new(CallCtx::new(place()));
    env.rollout(item, &SkillDoc::from(skill), model, &ctx).await
}

fn nile() -> QaItem {
    QaItem::new("q1", "Which river flows through Cairo?", ["Nile", "the river Nile"])
}

fn nile_with_context() -> QaItem {
    QaItem {
        context: "Cairo lies in the north of Egypt.\nThe Nile flows through it.\n".to_owned(),
        task_type: "geography".to_owned(),
        ..nile()
    }
}

/// What the model is asked, role by role.
async fn asked(question: QaItem, skill: &str) -> String {
    let model = saying("x", FinishReason::Stop);
    let env = env_of(question, QaSettings::default());
    attempt(&env, skill, &model).await.unwrap();
    let requests = model.requests();
    let messages = requests[0].messages.iter();
    messages.map(|message| format!("[{}]\n{}\n", message.role.as_str(), message.text())).collect()
}

#[tokio::test]
async fn the_prompt_of_a_question() {
    insta::assert_snapshot!(asked(nile(), "# Answering\n\n- Give the bare name.\n").await);
}

#[tokio::test]
async fn the_prompt_of_a_question_with_context() {
    insta::assert_snapshot!(asked(nile_with_context(), "# Answering\n\n- Give the bare name.\n").await);
}

#[tokio::test]
async fn the_prompt_without_a_skill() {
    let bare = asked(nile(), "").await;
    assert_eq!(asked(nile(), " \n\t").await, bare);
    insta::assert_snapshot!(bare);
}

#[tokio::test]
async fn braces_in_skill_and_data_stay_as_they_are() {
    let question = QaItem { context: "{% raw %} <b>".to_owned(), ..QaItem::new("q1", "{{ x }}?", ["a"]) };
    insta::assert_snapshot!(asked(question, "Use {{ answer }} & {# so #}.").await);
}

#[tokio::test]
async fn a_right_answer_with_everything_that_is_recorded() {
    let model = saying("  The Nile.\n", FinishReason::Stop);
    let env = env_of(nile_with_context(), QaSettings { max_tokens: Some(32), ..QaSettings::default() });
    let result = attempt(&env, "Be brief.", &model).await.unwrap();

    let (request, asked_at) = model.asked.lock().remove(0);
    assert_eq!(asked_at, place());
    assert_eq!(request.sampling.max_tokens, Some(32));
    assert!(model.asked.lock().is_empty(), "one call only");

    let [system, user] = [Role::System, Role::User].map(|role| request.text_of(role));
    let mut expect = RolloutResult::new("q1".into(), 1.0, 1.0);
    expect.n_turns = 1;
    expect.task_type = "geography".to_owned();
    expect.predicted_answer = "The Nile.".to_owned();
    expect.question = "Which river flows through Cairo?".to_owned();
    expect.reference_text = "Nile | the river Nile".to_owned();
    expect.target_system_prompt = system.clone();
    expect.target_user_prompt = user.clone();
    expect.usage = usage();
    expect.trajectory = Trajectory::of_messages([
        TrajectoryMessage::new(Role::System, system),
        TrajectoryMessage::new(Role::User, user),
        TrajectoryMessage::new(Role::Assistant, "  The Nile.\n"),
    ]);
    let mut turn = TrajectoryTurn::new(vec![0, 1], 2, FinishReason::Stop);
    turn.usage = expect.usage;
    expect.trajectory.turns.push(turn);
    assert_eq!(result, expect);
}

#[tokio::test]
async fn scores_and_reasons() {
    async fn check(scorer: QaScorer, finish: FinishReason, reply: &str, expect: (f64, f64), reason: &str) {
        let model = saying(reply, finish);
        let env = env_of(nile(), QaSettings { scorer, ..QaSettings::default() });
        let result = attempt(&env, "", &model).await.unwrap();
        assert_eq!((result.hard, result.soft), expect, "{scorer:?} {reply:?}");
        assert_eq!(result.fail_reason, reason, "{scorer:?} {reply:?}");
    }
    use FinishReason::{ContentFilter, Length, Other, Stop, ToolCalls};
    use QaScorer::{Contains, EmF1};
    let expected = r#"expected "Nile" or "the river Nile""#;
    let wrong = |reply: &str| format!("the reply {reply} matches no reference answer; {expected}");

    check(EmF1, Stop, "the nile", (1.0, 1.0), "").await;
    check(EmF1, Stop, "It is the Nile", (0.0, 0.5), &wrong(r#""It is the Nile""#)).await;
    check(Contains, Stop, "It is the\nNile!", (1.0, 1.0), "").await;
    check(Contains, Stop, "The river\n\"Congo\"", (0.0, 0.6667), &wrong(r#""The river\n\"Congo\"""#)).await;
    // What was cut may still hold the answer.
    check(Contains, Length, "The Nile flows", (1.0, 1.0), "").await;
    for scorer in QaScorer::ALL {
        let cut = format!("{}; the reply was cut at its token limit", wrong(r#""Congo""#));
        check(scorer, Length, "Congo", (0.0, 0.0), &cut).await;
        let empty = format!("the reply is empty; {expected}");
        check(scorer, Stop, " \n", (0.0, 0.0), &empty).await;
        check(scorer, Other("eos".to_owned()), "", (0.0, 0.0), &empty).await;
        check(scorer, ToolCalls, "", (0.0, 0.0), &format!("{empty}; the reply called a tool")).await;
        let filtered = "; the provider's content filter withheld the reply or a part of it";
        check(scorer, ContentFilter, "", (0.0, 0.0), &format!("{empty}{filtered}")).await;
    }
}

#[tokio::test]
async fn an_empty_reply_is_wrong_even_where_nothing_is_left_of_the_answer() {
    let env = env_of(QaItem::new("q1", "Which letter comes first?", ["A"]), QaSettings::default());
    let hard_of = async |reply| {
        let model = saying(reply, FinishReason::Stop);
        attempt(&env, "", &model).await.unwrap().hard
    };
    assert_eq!(hard_of("").await, 0.0);
    assert_eq!(hard_of("B").await, 0.0);
    assert_eq!(hard_of("A").await, 1.0);
}

#[tokio::test]
async fn reasons_are_cut_at_whole_characters() {
    let question =
        QaItem::new("q1", "q", ["ß".repeat(61), "ß".repeat(60), "c".into(), "d".into(), "e".into()]);
    let env = env_of(question, QaSettings::default());
    let model = saying(&"é".repeat(81), FinishReason::Stop);
    let result = attempt(&env, "", &model).await.unwrap();
    assert_eq!(result.predicted_answer.chars().count(), 81);
    insta::assert_snapshot!(result.fail_reason);
}

#[tokio::test]
async fn why_a_reply_ended_is_recorded() {
    async fn check(finish: FinishReason, is_cut: bool) {
        let env = env_of(nile(), QaSettings::default());
        let result = attempt(&env, "", &saying("Nile", finish.clone())).await.unwrap();
        assert_eq!((result.trajectory.last_finish(), result.is_cut()), (Some(&finish), is_cut));
        assert!(result.extras.is_empty());
        assert_eq!(result.without_trajectory().is_cut(), is_cut);
    }
    check(FinishReason::Stop, false).await;
    check(FinishReason::Length, true).await;
    check(FinishReason::ToolCalls, false).await;
    check(FinishReason::ContentFilter, false).await;
    check(FinishReason::Other("weird".to_owned()), false).await;
}

#[tokio::test]
async fn an_outage_is_an_error_and_no_score() {
    let outage = LlmError::Connection { provider: "test".to_owned(), message: "refused".to_owned() };
    let env = env_of(nile(), QaSettings::default());
    let error = attempt(&env, "", &Fixed::by(move |_| Err(outage.clone()))).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(
        matches!(&error, EnvError::Model(source) if source.class() == ErrorClass::Connection),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_item_of_another_environment_is_an_error() {
    let env = env_of(nile(), QaSettings::default());
    let model = saying("x", FinishReason::Stop);
    let stranger = Item::new("q2", serde_json::json!({}));
    let error =
        env.rollout(&stranger, &SkillDoc::default(), &model, &RolloutCtx::default()).await.unwrap_err();
    assert!(matches!(&error, EnvError::Configuration { message } if message.contains("`q2`")), "{error:?}");
    assert!(model.asked.lock().is_empty());
}

#[test]
fn settings_hold_what_decides_a_score() {
    let env = env_of(nile(), QaSettings::default());
    assert_eq!(env.name(), "qa");
    assert_eq!(
        env.settings(),
        serde_json::json!({"scoring_version": SCORING_VERSION, "scorer": "em_f1", "max_tokens": null, "prompt": ROLLOUT_PROMPT})
    );
    let prompt = "{% block system %}{{ skill }}{% endblock %}{% block user %}{{ question }}{% endblock %}";
    let settings =
        QaSettings { scorer: QaScorer::Contains, max_tokens: Some(8), prompt: Some(prompt.to_owned()) };
    assert_eq!(
        env_of(nile(), settings).settings(),
        serde_json::json!({"scoring_version": SCORING_VERSION, "scorer": "contains", "max_tokens": 8, "prompt": prompt})
    );
}

#[test]
fn scorers_are_named_as_in_files() {
    for scorer in QaScorer::ALL {
        assert_eq!(serde_json::to_value(scorer).unwrap(), scorer.as_str());
    }
}

#[tokio::test]
async fn another_prompt_takes_the_place_of_the_built_in_one() {
    let prompt = "{% block system %}{{ skill }}{% endblock %}\
                  {% block user %}{{ task_type }}|{{ context }}|{{ question }}{% endblock %}";
    let env =
        env_of(nile_with_context(), QaSettings { prompt: Some(prompt.to_owned()), ..QaSettings::default() });
    let result = attempt(&env, "S", &saying("x", FinishReason::Stop)).await.unwrap();
    assert_eq!(result.target_system_prompt, "S");
    let expect = nile_with_context();
    assert_eq!(
        result.target_user_prompt,
        [expect.task_type.as_str(), expect.context.trim_end(), &expect.question].join("|")
    );
}

#[test]
fn a_prompt_that_cannot_work_is_refused_before_the_run() {
    #[track_caller]
    fn check(system: &str, user: &str, expect: &str) {
        let prompt =
            format!("{{% block system %}}{system}{{% endblock %}}\n{{% block user %}}{user}{{% endblock %}}");
        let settings = QaSettings { prompt: Some(prompt), ..QaSettings::default() };
        let error = QaEnv::from_items(vec![nile()], Vec::new(), Vec::new(), settings).unwrap_err();
        assert!(matches!(error, EnvError::Prompt(_)));
        assert_eq!(error.to_string(), format!("prompt `rollout_qa`: {expect}"));
    }
    check("{{ skill }}", "{{ query }}", "line 2: undefined value: `query` is undefined");
    let misspelt = "{% if context %}{{ kontext }}{% endif %}{{ question }}";
    check("{{ skill }}", misspelt, "line 2: undefined value: `kontext` is undefined");
    check("Be brief.", "{{ question }}", "never shows `{{ skill }}`, without which nothing can be learned");
    check(
        "{{ skill }}",
        "{% if not context %}{{ question }}{% endif %}",
        "never shows `{{ question }}`, without which nothing can be learned",
    );
}

#[test]
fn references_that_are_sentences_are_found() {
    use skill_envs::answerable::AnswerFinding;
    let items = |answer: &dyn Fn(usize) -> Vec<String>| -> Vec<QaItem> {
        (0..9)
            .map(|n| QaItem::new(format!("q{n}"), format!("What became of parcel {n}?"), answer(n)))
            .collect()
    };
    let found = |answer: &dyn Fn(usize) -> Vec<String>, scorer| {
        let settings = QaSettings { scorer, ..QaSettings::default() };
        let env = QaEnv::from_items(items(answer), Vec::new(), Vec::new(), settings).unwrap();
        env.answerable(&skill_core::SkillDoc::default())
    };
    let sentence = |n: usize| {
        vec![format!(
            "Parcel {n} was sent on Monday, and nobody has seen it since, so that it counts as lost."
        )]
    };
    let findings = found(&sentence, QaScorer::EmF1);
    assert!(matches!(findings.as_slice(), [AnswerFinding::ReferencesProse { n_words: 18 }]), "{findings:?}");
    assert_eq!(found(&sentence, QaScorer::Contains), []);
    // A reply has to equal one reference only, so a short one among them is enough.
    let with_short = |n: usize| vec![sentence(n).remove(0), format!("parcel {n} is lost")];
    assert_eq!(found(&with_short, QaScorer::EmF1), []);
}
