//! A bank as a source of skills: what agents are shown, what is asked of the embedding model, and what names it.

use crate::retrieve::skill;
use async_trait::async_trait;
use parking_lot::Mutex;
use skill_bank::retrieve::{Retrieval, RetrievalMode, RetrievalSettings, Section, Threshold};
use skill_bank::{BankError, BankSource, BankView, Tier};
use skill_core::{SkillDoc, SkillPartId, Usage};
use skill_envs::{EnvError, Item, SkillSource as _, TaskView};
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingReply, EmbeddingRequest, LlmError, ModelId};
use std::sync::Arc;

/// Embeds a text as how often the letters `a` and `b` are in it, two texts at a time, and remembers what it was asked.
struct Letters {
    id: ModelId,
    asked: Mutex<Vec<Vec<String>>>,
    n_missing: usize,
}

impl Letters {
    fn new(n_missing: usize) -> Arc<Self> {
        Arc::new(Self { id: ModelId::new("test", "letters"), asked: Mutex::default(), n_missing })
    }

    fn asked(&self) -> Vec<Vec<String>> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl EmbeddingModel for Letters {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn max_texts(&self) -> usize {
        2
    }

    async fn embed(&self, request: &EmbeddingRequest, _: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        let texts: Vec<String> = request.texts.iter().map(|text| text.to_string()).collect();
        let count =
            |text: &String, letter: char| text.chars().filter(|found| *found == letter).count() as f32;
        let vector = |text: &String| vec![count(text, 'a'), count(text, 'b'), 0.1];
        let vectors = texts.iter().skip(self.n_missing).map(vector).collect();
        self.asked.lock().push(texts);
        Ok(EmbeddingReply::new(vectors, Usage::default()))
    }
}

fn view() -> BankView {
    BankView::new(vec![
        skill("aaa", Tier::General, None),
        skill("bbb", Tier::General, None),
        skill("gen_3", Tier::of_type("heat"), None),
        skill("err_1", Tier::Mistakes, None),
    ])
}

fn retrieval(mode: RetrievalMode, change: impl FnOnce(&mut RetrievalSettings)) -> Retrieval {
    let mut settings = RetrievalSettings { mode, ..RetrievalSettings::default() };
    change(&mut settings);
    Retrieval::new(settings).unwrap()
}

fn item(task_type: &str) -> Item {
    Item { task_type: task_type.to_owned(), ..Item::new("i1", serde_json::Value::Null) }
}

async fn shown(source: &BankSource, task_type: &str, goal: &str) -> Result<(String, Vec<String>), EnvError> {
    let item = item(task_type);
    let shown = source.show(&TaskView::new(&item, goal), &CallCtx::default()).await?;
    let parts = shown.parts.iter().map(SkillPartId::to_string).collect();
    Ok((shown.skill.source_text().to_owned(), parts))
}

#[tokio::test]
async fn a_task_is_shown_what_is_selected_for_it() {
    let source = BankSource::new(view(), &retrieval(RetrievalMode::Template, |_| {}), None).unwrap();
    let (text, parts) = shown(&source, "heat", "").await.unwrap();
    assert_eq!(parts, ["aaa", "bbb", "gen_3", "err_1"]);
    assert!(text.contains("### Heat Skills"), "{text}");
    let (_, parts) = shown(&source, "", "sing").await.unwrap();
    assert_eq!(parts, ["aaa", "bbb", "err_1"], "an unknown type has general skills and mistakes");
    let item = item("");
    let task = TaskView::new(&item, "put a hot mug on desk");
    let selection = source.selection(&task, &CallCtx::default()).await.unwrap();
    assert_eq!(selection.task_type.task_type.as_deref(), Some("heat"));
    assert_eq!(selection.shown[2].section, Section::TaskType);
}

#[tokio::test]
async fn skills_are_embedded_once_and_goals_for_each_task() {
    let model = Letters::new(0);
    let by_embedding = retrieval(RetrievalMode::Embedding, |_| {});
    let source = BankSource::new(view(), &by_embedding, Some(Arc::clone(&model) as _)).unwrap();
    assert_eq!(model.asked().len(), 0, "nothing is embedded before a task needs it");
    let tasks = [shown(&source, "heat", "b b"), shown(&source, "heat", "a a")];
    let [one, other] = tasks;
    let (one, other) = tokio::join!(one, other);
    assert_eq!(one.unwrap().1, ["bbb", "aaa", "gen_3", "err_1"]);
    assert_eq!(other.unwrap().1, ["aaa", "bbb", "gen_3", "err_1"]);
    let (_, parts) = shown(&source, "heat", "  ").await.unwrap();
    assert_eq!(parts, ["aaa", "bbb", "gen_3", "err_1"], "without a goal the order is the bank's");
    let mut asked = model.asked();
    asked.sort();
    insta::assert_compact_debug_snapshot!(
        asked,
        @r#"[["Title aaa. Do aaa.. When aaa.", "Title bbb. Do bbb.. When bbb."], ["Title gen_3. Do gen_3.. When gen_3."], ["a a"], ["b b"]]"#
    );
}

#[tokio::test]
async fn vectors_that_are_missing_end_the_rollout() {
    let by_embedding = retrieval(RetrievalMode::Embedding, |_| {});
    let source = BankSource::new(view(), &by_embedding, Some(Letters::new(1) as _)).unwrap();
    let error = shown(&source, "heat", "goal").await.unwrap_err();
    assert!(matches!(error, EnvError::Configuration { .. }), "{error}");
}

#[test]
fn embedding_needs_a_model_and_a_threshold_its_own_one() {
    let new = |model: Option<Arc<Letters>>, calibrated_for: Option<&str>| {
        let threshold = calibrated_for.map(|model| Threshold { model: model.to_owned(), value: 0.2 });
        let retrieval = retrieval(RetrievalMode::Embedding, |settings| settings.threshold = threshold);
        BankSource::new(view(), &retrieval, model.map(|model| model as _)).map(|_| ())
    };
    let model = || Some(Letters::new(0));
    let own = model().unwrap().id.to_string();
    assert_eq!(new(None, None), Err(BankError::NoEmbeddingModel));
    assert_eq!(new(model(), None), Ok(()));
    assert_eq!(new(model(), Some(&own)), Ok(()));
    let other = BankError::OtherModelsThreshold { calibrated: "other".into(), model: own };
    assert_eq!(new(model(), Some("other")), Err(other));
}

#[tokio::test]
async fn a_frame_stands_before_the_skills() {
    const FRAME: &str = "# House rules\n\nBe kind.\n";
    let frame = || SkillDoc::new(FRAME);
    let source = |view| BankSource::new(view, &retrieval(RetrievalMode::Template, |_| {}), None).unwrap();
    let (text, parts) = shown(&source(view()).with_frame(frame()), "heat", "").await.unwrap();
    let skills: Vec<&str> = text.strip_prefix(FRAME).unwrap().lines().collect();
    assert_eq!(skills[..2], ["", "### General Principles"]);
    assert!(skills[2].starts_with("- "), "{text}");
    assert_eq!(parts.len(), 4);
    let empty = source(BankView::new(Vec::new())).with_frame(frame());
    assert_eq!(shown(&empty, "heat", "").await.unwrap(), (FRAME.to_owned(), Vec::new()));
}

#[test]
fn everything_that_decides_the_text_is_in_the_version() {
    let template = |change: fn(&mut RetrievalSettings)| retrieval(RetrievalMode::Template, change);
    let version = |view: BankView, retrieval: &Retrieval, model: Option<Arc<Letters>>| {
        BankSource::new(view, retrieval, model.map(|model| model as _)).unwrap().version()
    };
    let base = version(view(), &template(|_| {}), None);
    assert_eq!(base, version(view(), &template(|_| {}), Some(Letters::new(0))), "the model is not used");
    let hidden = view().skills()[0].id.clone();
    let framed = BankSource::new(view(), &template(|_| {}), None).unwrap().with_frame(SkillDoc::new("F"));
    let others = [
        version(view().without(&hidden), &template(|_| {}), None),
        version(view(), &template(|settings| settings.top_k = 5), None),
        version(view(), &template(|settings| settings.max_skill_chars = 50), None),
        version(view(), &retrieval(RetrievalMode::Embedding, |_| {}), Some(Letters::new(0))),
        framed.version(),
    ];
    assert!(others.iter().all(|other| *other != base && other.len() == 64), "{others:?}");
}
