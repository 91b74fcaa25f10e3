//! The skills that an episode is shown.

use crate::tasks::given;
use crate::wire::{ErrorCode, Fault};
use indexmap::IndexMap;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use skill_bank::distill::TeacherPrompts;
use skill_bank::retrieve::{Retrieval, RetrievalSettings, Threshold};
use skill_bank::{BankError, BankSource, BankView, SkillRef};
use skill_core::{SkillDoc, SkillPartId};
use skill_envs::{SkillSource, Split, TaskView};
use skill_llm::error::with_causes;
use skill_llm::{CallCtx, CallPlace, ChatModel, EmbeddingModel};
use skill_pipeline::bank::outside::{OutsideBank, OutsideError, TrialPlace, Wanted};
use std::sync::Arc;

/// Views of a bank with settings that are kept ready at once.
const MAX_SOURCES: usize = 32;
/// The version of an episode that was shown no skills.
pub(crate) const OFF: &str = "off";

/// What a server shows its episodes besides the world.
#[derive(Default)]
pub struct SkillOptions {
    /// A document that is shown to every episode, before the skills of the bank.
    pub frame: Option<SkillDoc>,
    /// The bank.
    pub bank: Option<ServedBank>,
}

/// A bank, and how skills of it are selected.
pub struct ServedBank {
    /// The bank, with its trials.
    pub bank: OutsideBank,
    /// How many skills an episode is shown, and which.
    pub retrieval: Retrieval,
    /// The model of retrieval, in embedding mode.
    pub embedding: Option<Arc<dyn EmbeddingModel>>,
}

/// Who proposes candidates.
pub struct TeacherOptions {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// What it is asked with.
    pub prompts: TeacherPrompts,
    /// The most tokens of a reply.
    pub max_reply_tokens: u32,
}

/// The skills of a server.
pub(crate) struct Skills {
    frame: SkillDoc,
    bank: Option<Shelf>,
}

struct Shelf {
    bank: Arc<Mutex<OutsideBank>>,
    retrieval: Retrieval,
    embedding: Option<Arc<dyn EmbeddingModel>>,
    /// By the version of the view and the settings, the one that was used last at the end.
    sources: Mutex<IndexMap<(String, Tops), Arc<BankSource>>>,
}

/// What a reset asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum SkillsAsked {
    /// What the server was started with.
    #[default]
    Default,
    /// None.
    Off,
    /// Those of the bank.
    Bank { wanted: Wanted, tops: Tops },
}

/// How many skills at most, and how similar; `None` as the server was started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Tops {
    general: Option<usize>,
    of_type: Option<usize>,
    mistakes: Option<usize>,
    /// The bits of the cosine.
    threshold: Option<u64>,
}

impl SkillsAsked {
    /// Reads `skills` and `skill_version` of a reset.
    pub(crate) fn read(data: &Map<String, Value>) -> Result<Self, Fault> {
        let version = match given(data, "skill_version") {
            None => None,
            Some(Value::String(version)) => Some(wanted(version)),
            Some(other) => return Err(wrong("skill_version", "`skill_version` is not a text", other)),
        };
        let asked = match given(data, "skills") {
            None => Self::Default,
            Some(Value::Bool(false)) => Self::Off,
            Some(Value::Bool(true)) => Self::Default,
            Some(Value::String(text)) if text == "on" => Self::Default,
            Some(Value::String(text)) if text == OFF => Self::Off,
            Some(Value::String(text)) => Self::bank(wanted(text)),
            Some(Value::Object(fields)) => Self::of_fields(fields)?,
            Some(other) => {
                let message = "`skills` is \"on\", \"off\", \"bank\", \"trial\", a version or an object";
                return Err(wrong("skills", message, other));
            }
        };
        Ok(match (version, asked) {
            (None, asked) => asked,
            (Some(Wanted::Version(version)), _) if version == OFF => Self::Off,
            (Some(wanted), Self::Bank { tops, .. }) => Self::Bank { wanted, tops },
            (Some(wanted), Self::Default | Self::Off) => Self::bank(wanted),
        })
    }

    fn bank(wanted: Wanted) -> Self {
        Self::Bank { wanted, tops: Tops::default() }
    }

    fn of_fields(fields: &Map<String, Value>) -> Result<Self, Fault> {
        let (mut asked, mut tops) = (Wanted::Current, Tops::default());
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let count = || {
                let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
                count.ok_or_else(|| wrong(name, &format!("`{name}` is not a whole number from 0 on"), value))
            };
            match (name.as_str(), value) {
                ("bank", Value::Bool(true)) => {}
                ("bank" | "version", Value::String(version)) => asked = wanted(version),
                ("k", _) => {
                    let count = Some(count()?);
                    tops = Tops { general: count, of_type: count, mistakes: count, ..tops };
                }
                ("top_k", _) => tops.general = Some(count()?),
                ("task_top_k", _) => tops.of_type = Some(count()?),
                ("mistakes_top_k", _) => tops.mistakes = Some(count()?),
                ("threshold", _) => {
                    let cosine = value.as_f64().filter(|cosine| (-1.0..=1.0).contains(cosine));
                    let message = "`threshold` is not a cosine, a number from -1 to 1";
                    tops.threshold = Some(cosine.ok_or_else(|| wrong(name, message, value))?.to_bits());
                }
                _ => {
                    let message = format!(
                        "`{name}` is not a field of `skills`: use version, k, top_k, task_top_k, mistakes_top_k or \
                         threshold"
                    );
                    return Err(Fault::field("extra_forbidden", name, message, value.clone()));
                }
            }
        }
        Ok(match asked {
            Wanted::Version(version) if version == OFF => Self::Off,
            wanted => Self::Bank { wanted, tops },
        })
    }
}

fn wanted(name: &str) -> Wanted {
    match name {
        "bank" => Wanted::Current,
        "trial" => Wanted::Trial,
        version => Wanted::Version(version.to_owned()),
    }
}

fn wrong(name: &str, message: &str, value: &Value) -> Fault {
    Fault::field("value_error", name, message, value.clone())
}

/// What an episode is shown.
#[derive(Debug, Default)]
pub(crate) struct Picked {
    /// The text, empty if there is none.
    pub(crate) text: String,
    /// What names it: that of a bank, the hash of a document, or `off`.
    pub(crate) version: String,
    pub(crate) parts: Vec<SkillPartId>,
    /// Its place in the trial under way.
    pub(crate) trial: Option<TrialPlace>,
}

impl Picked {
    pub(crate) fn metadata(&self) -> Value {
        let mut shown = json!({"version": self.version, "shown": self.parts});
        if let (Some(trial), Value::Object(fields)) = (&self.trial, &mut shown) {
            fields.insert("candidate".to_owned(), json!(trial.candidate));
            fields.insert("half".to_owned(), json!(trial.half));
        }
        shown
    }
}

impl Skills {
    pub(crate) fn new(options: SkillOptions) -> Self {
        let SkillOptions { frame, bank } = options;
        let bank = bank.map(|ServedBank { bank, retrieval, embedding }| Shelf {
            bank: Arc::new(Mutex::new(bank)),
            retrieval,
            embedding,
            sources: Mutex::default(),
        });
        Self { frame: frame.unwrap_or_default(), bank }
    }

    /// The bank, if there is one.
    pub(crate) fn bank(&self) -> Option<&Arc<Mutex<OutsideBank>>> {
        self.bank.as_ref().map(|shelf| &shelf.bank)
    }

    /// What an episode about this task is shown.
    pub(crate) async fn pick(
        &self,
        asked: &SkillsAsked,
        task: &TaskView<'_>,
        split: Split,
    ) -> Result<Picked, Fault> {
        let (wanted, tops) = match (asked, &self.bank) {
            (SkillsAsked::Off, _) => return Ok(Picked { version: OFF.to_owned(), ..Picked::default() }),
            (SkillsAsked::Default, None) => return Ok(self.frame_alone()),
            (SkillsAsked::Default, Some(_)) => (Wanted::Current, Tops::default()),
            (SkillsAsked::Bank { wanted, tops }, _) => (wanted.clone(), tops.clone()),
        };
        let Some(shelf) = &self.bank else {
            let message = "this server has no bank: start it with one, or leave `skills` out";
            return Err(Fault::field("value_error", "skills", message, Value::Null));
        };
        // Files are read and written here, and a bank is small: nobody waits for long.
        let chosen = shelf.bank.lock().choose(&wanted, task, split).map_err(of_bank)?;
        let version = chosen.view.version().to_owned();
        if chosen.view.skills().is_empty() {
            let text = self.frame.agent_view().to_string();
            return Ok(Picked { text, version, parts: Vec::new(), trial: chosen.trial });
        }
        let source = shelf.source(chosen.view, tops, &self.frame)?;
        let call = CallCtx::new(CallPlace::new("serve").child(task.item).child("skill"));
        let shown = source.show(task, &call).await;
        let shown = shown.map_err(|error| Fault::new(ErrorCode::ExecutionError, with_causes(&error)))?;
        Ok(Picked {
            text: shown.skill.agent_view().to_string(),
            version,
            parts: shown.parts,
            trial: chosen.trial,
        })
    }

    /// The skills of a view that a task would be shown.
    pub(crate) async fn selects(&self, view: BankView, task: &TaskView<'_>) -> Result<Vec<SkillRef>, Fault> {
        let Some(shelf) = &self.bank else { return Ok(Vec::new()) };
        let source = shelf.source(view, Tops::default(), &self.frame)?;
        let call = CallCtx::new(CallPlace::new("serve").child(task.item).child("trial"));
        let selection = source.selection(task, &call).await;
        let selection =
            selection.map_err(|error| Fault::new(ErrorCode::ExecutionError, with_causes(&error)))?;
        Ok(selection.shown.into_iter().map(|shown| shown.id).collect())
    }

    /// The type of a task, as retrieval finds it.
    pub(crate) fn task_type(&self, named: &str, goal: &str) -> Option<String> {
        let types = self.bank.as_ref()?.retrieval.types();
        types.detector(std::iter::empty()).detect(named, goal).task_type
    }

    fn frame_alone(&self) -> Picked {
        if self.frame.is_blank() {
            return Picked { version: OFF.to_owned(), ..Picked::default() };
        }
        let (text, version) = (self.frame.agent_view().to_string(), self.frame.source_sha256());
        Picked { text, version, ..Picked::default() }
    }
}

impl Shelf {
    /// What selects skills of a view with these settings.
    fn source(&self, view: BankView, tops: Tops, frame: &SkillDoc) -> Result<Arc<BankSource>, Fault> {
        let key = (view.version().to_owned(), tops);
        let mut sources = self.sources.lock();
        if let Some(idx) = sources.get_index_of(&key) {
            let last = sources.len() - 1;
            sources.move_index(idx, last);
            if let Some((_, source)) = sources.last() {
                return Ok(Arc::clone(source));
            }
        }
        let retrieval = self.with(&key.1).map_err(|error| unusable(&error))?;
        // Skills of one view have one set of vectors, whatever is selected by them.
        let sibling = sources.iter().find(|((version, _), _)| *version == key.0).map(|(_, source)| source);
        let source = match sibling {
            Some(sibling) => sibling.with_retrieval(&retrieval),
            None => BankSource::new(view, &retrieval, self.embedding.clone()),
        };
        let source = source.map_err(|error| unusable(&error))?;
        let source = Arc::new(if frame.is_blank() { source } else { source.with_frame(frame.clone()) });
        sources.insert(key, Arc::clone(&source));
        if sources.len() > MAX_SOURCES {
            sources.shift_remove_index(0);
        }
        Ok(source)
    }

    fn with(&self, tops: &Tops) -> Result<Retrieval, BankError> {
        if *tops == Tops::default() {
            return Ok(self.retrieval.clone());
        }
        let own = self.retrieval.settings();
        let threshold = match (&self.embedding, tops.threshold) {
            (Some(model), Some(bits)) => {
                Some(Threshold { model: model.id().to_string(), value: f64::from_bits(bits) })
            }
            _ => own.threshold.clone(),
        };
        let settings = RetrievalSettings {
            top_k: tops.general.unwrap_or(own.top_k),
            task_top_k: tops.of_type.map_or(own.task_top_k, Some),
            mistakes_top_k: tops.mistakes.unwrap_or(own.mistakes_top_k),
            threshold,
            ..own.clone()
        };
        Ok(Retrieval::new(settings)?.with_types(self.retrieval.types().clone()))
    }
}

fn unusable(error: &BankError) -> Fault {
    Fault::field("value_error", "skills", with_causes(error), Value::Null)
}

/// A version or a candidate that is not there is the client's fault, a bank that cannot be read is not.
fn of_bank(error: OutsideError) -> Fault {
    match error {
        OutsideError::UnknownVersion { .. } | OutsideError::UnknownEpisode { .. } => {
            Fault::field("value_error", "skills", error.to_string(), Value::Null)
        }
        error => Fault::new(ErrorCode::ExecutionError, with_causes(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(data: Value, expect: Result<SkillsAsked, &str>) {
        let found = SkillsAsked::read(data.as_object().unwrap());
        let found =
            found.map_err(|fault| fault.errors.into_iter().map(|problem| problem.loc.concat()).collect());
        assert_eq!(found, expect.map_err(str::to_owned), "{data}");
    }

    #[test]
    fn skills_are_asked_for_in_words_or_by_fields() {
        let bank = |wanted, tops| Ok(SkillsAsked::Bank { wanted, tops });
        let none = Tops::default;
        let version = || Wanted::Version("gen_001@2".to_owned());
        read(json!({}), Ok(SkillsAsked::Default));
        read(json!({"skills": null}), Ok(SkillsAsked::Default));
        for off in [json!("off"), json!(false), json!({"version": "off"})] {
            read(json!({"skills": off}), Ok(SkillsAsked::Off));
        }
        for on in [json!("on"), json!(true)] {
            read(json!({"skills": on}), Ok(SkillsAsked::Default));
        }
        for on in [json!("bank"), json!({}), json!({"bank": true})] {
            read(json!({"skills": on}), bank(Wanted::Current, none()));
        }
        read(json!({"skills": "trial"}), bank(Wanted::Trial, none()));
        read(json!({"skills": "gen_001@2"}), bank(version(), none()));
        read(json!({"skill_version": "gen_001@2"}), bank(version(), none()));
        read(json!({"skill_version": "off", "skills": "bank"}), Ok(SkillsAsked::Off));
        let three = Tops { general: Some(3), of_type: Some(3), mistakes: Some(3), threshold: None };
        read(json!({"skills": {"k": 3}}), bank(Wanted::Current, three.clone()));
        read(json!({"skills": {"k": 3}, "skill_version": "gen_001@2"}), bank(version(), three.clone()));
        let closer = Tops { threshold: Some(0.5_f64.to_bits()), ..three };
        read(json!({"skills": {"k": 3, "threshold": 0.5}}), bank(Wanted::Current, closer));
        for (name, bad) in [("k", json!(-1)), ("k", json!("3")), ("threshold", json!(2)), ("depth", json!(1))]
        {
            read(json!({"skills": {name: bad}}), Err(name));
        }
        read(json!({"skills": 3}), Err("skills"));
        read(json!({"skill_version": 3}), Err("skill_version"));
    }
}
