//! Local models as chat models, on a small model with random weights.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, ErrorClass, FinishReason, Message, ResponseSchema,
    Sampling, ToolSpec,
};
use skill_train::TrainError;
use skill_train::chat_model::{
    ChatDefaults, LocalChatModel, LocalModel, LocalModelOptions, ModelFiles, SchemaRule, WeightFormat,
};
use skill_train::lora::LoraConfig;
use skill_train::tokenizer::{JsonTokenizer, TokenCodec as _};
use skill_train::weights::{TensorView, encode};

use crate::small;

const TOKENIZER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/weights/tokenizers/tiny/tokenizer.json");
const TEMPLATE: &str = include_str!("../data/own/chat_template.jinja");
/// Longer than a piece of a prompt.
const SKILL: &str = "Look at the note before you answer. Name the town and nothing else, then stop. \
    If the note does not say it, say so. Never guess a number. Words such as maybe help nobody. \
    Read each question twice, and answer it once. Keep the order of the questions.";

/// Writes a model folder; the same folder for the same changes.
fn write(folder: &Path, changes: &[(&str, serde_json::Value)]) {
    let tokenizer = JsonTokenizer::from_file(Path::new(TOKENIZER)).unwrap();
    let mut all = vec![
        ("vocab_size", json!(tokenizer.n_tokens())),
        ("max_position_embeddings", json!(1024)),
        ("eos_token_id", json!(2)),
    ];
    all.extend(changes.iter().cloned());
    let model = small::model("llama", &all);
    let base = model.base().unwrap();
    let tensors: Vec<TensorView<'_>> = base
        .iter()
        .map(|(name, tensor)| TensorView { name, shape: &tensor.shape, values: &tensor.values })
        .collect();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("model.safetensors"), encode(&tensors)).unwrap();
    std::fs::write(folder.join("config.json"), small::config_text("llama", &all)).unwrap();
    std::fs::copy(TOKENIZER, folder.join("tokenizer.json")).unwrap();
    std::fs::write(folder.join("chat_template.jinja"), TEMPLATE).unwrap();
}

fn opened(change: impl FnOnce(&mut LocalModelOptions)) -> (tempfile::TempDir, Arc<LocalModel>) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[]);
    let mut options = LocalModelOptions::new(folder.path());
    change(&mut options);
    let model = Arc::new(LocalModel::open(options).unwrap());
    (folder, model)
}

fn request(question: &str) -> ChatRequest {
    ChatRequest {
        sampling: Sampling { max_tokens: Some(12), seed: Some(3), ..Sampling::default() },
        ..ChatRequest::new(vec![Message::system(SKILL), Message::user(question)])
    }
}

async fn all(model: &LocalChatModel, requests: Vec<ChatRequest>) -> Vec<ChatReply> {
    let mut tasks = Vec::new();
    for request in requests {
        let model = model.clone();
        tasks.push(tokio::spawn(async move { model.chat(&request, &CallCtx::default()).await.unwrap() }));
    }
    let mut replies = Vec::new();
    for task in tasks {
        replies.push(task.await.unwrap());
    }
    replies
}

#[tokio::test]
async fn a_reply_is_that_of_its_request_whatever_else_is_in_flight() {
    let questions: Vec<String> = (0..12).map(|index| format!("Question {index}: where is it?")).collect();
    let mut alone = Vec::new();
    for question in &questions {
        let (_folder, model) = opened(|options| options.prefix_cache_bytes = 0);
        let model = LocalChatModel::new(model, ChatDefaults::default());
        alone.push(model.chat(&request(question), &CallCtx::default()).await.unwrap());
    }
    let (_folder, model) = opened(|options| options.max_rows = 5);
    let chat = LocalChatModel::new(Arc::clone(&model), ChatDefaults::default());
    let together = all(&chat, questions.iter().map(|question| request(question)).collect()).await;
    assert_eq!(together, alone);
    assert!(together.iter().any(|reply| reply.text != together[0].text), "{together:?}");
    let work = model.work_done();
    assert_eq!(work.prompt_tokens, together.iter().map(|reply| reply.usage.input).sum::<u64>());
    // The skill is computed about once and not twelve times.
    assert!(work.computed_tokens - work.reply_tokens < work.prompt_tokens / 3, "{work:?}");
    assert!(work.passes < work.reply_tokens, "{work:?}");
}

#[tokio::test]
async fn replies_without_a_seed_depend_on_place_and_number() {
    let (_folder, model) = opened(|_| {});
    let asked = |seed: u64| {
        let chat = LocalChatModel::new(Arc::clone(&model), ChatDefaults { seed, ..ChatDefaults::default() });
        let mut request = request("Where?");
        request.sampling.seed = None;
        async move {
            let call = CallCtx::new(CallPlace::new("here"));
            let first = chat.chat(&request, &call).await.unwrap().text;
            let second = chat.chat(&request, &call).await.unwrap().text;
            let elsewhere = chat.chat(&request, &CallCtx::new(CallPlace::new("there"))).await.unwrap().text;
            [first, second, elsewhere]
        }
    };
    let replies = asked(0).await;
    assert_eq!(replies, asked(0).await);
    assert_ne!(replies, asked(1).await);
    assert!(replies[0] != replies[1] && replies[0] != replies[2], "{replies:?}");
}

#[tokio::test]
async fn a_reply_ends_at_its_limit_and_at_stop_texts() {
    let (_folder, model) = opened(|_| {});
    let chat = LocalChatModel::new(model, ChatDefaults { temperature: 1.0, ..ChatDefaults::default() });
    let ctx = CallCtx::default();
    let whole = chat.chat(&request("Where?"), &ctx).await.unwrap();
    assert_eq!((whole.finish, whole.usage.output), (FinishReason::Length, 12));
    let middle: String = whole.text.chars().skip(3).take(2).collect();
    let stopped = ChatRequest { stop: vec![middle.clone(), String::new()], ..request("Where?") };
    let stopped = chat.chat(&stopped, &ctx).await.unwrap();
    assert_eq!(stopped.finish, FinishReason::Stop);
    assert_eq!(stopped.text, whole.text[..whole.text.find(&middle).unwrap()]);
    assert!(stopped.usage.output < 12);
}

#[tokio::test]
async fn log_probabilities_come_with_their_tokens() {
    let (_folder, model) = opened(|_| {});
    let chat = LocalChatModel::new(model, ChatDefaults::default());
    let mut request = request("Where?");
    assert_eq!(chat.chat(&request, &CallCtx::default()).await.unwrap().tokens, None);
    request.sampling.temperature = Some(0.0);
    request.sampling.logprobs = Some(3);
    let reply = chat.chat(&request, &CallCtx::default()).await.unwrap();
    let tokens = reply.tokens.unwrap();
    assert_eq!(tokens.ids.len() as u64, reply.usage.output);
    assert_eq!(tokens.prompt_ids.len() as u64, reply.usage.input);
    assert_eq!(tokens.logprobs.len(), tokens.ids.len());
    for entry in &tokens.logprobs {
        // The most probable token is the one that was taken.
        assert_eq!((entry.top.len(), entry.top[0].logprob), (3, entry.logprob));
        assert!(entry.logprob < 0.0 && entry.top.windows(2).all(|pair| pair[0].logprob >= pair[1].logprob));
    }
}

#[tokio::test]
async fn requests_that_cannot_be_answered_are_refused() {
    let (_folder, model) = opened(|options| options.context = 150);
    let chat = LocalChatModel::new(Arc::clone(&model), ChatDefaults::default());
    let class = |request: ChatRequest| {
        let chat = chat.clone();
        async move { chat.chat(&request, &CallCtx::default()).await.unwrap_err() }
    };
    let short = || ChatRequest::new(vec![Message::user("Where?")]);
    let schema = ChatRequest { response_schema: Some(ResponseSchema::any_object()), ..short() };
    assert_eq!(class(schema.clone()).await.class(), ErrorClass::BadRequest);
    let tool = ToolSpec { name: "look".to_owned(), description: String::new(), parameters: json!({}) };
    assert_eq!(class(ChatRequest { tools: vec![tool], ..short() }).await.class(), ErrorClass::BadRequest);
    let long = class(request("Where?")).await;
    assert_eq!(long.class(), ErrorClass::ContextTooLong);
    assert!(long.to_string().contains("150") && !long.to_string().contains("HTTP"), "{long}");
    let ignoring =
        ChatDefaults { schema: SchemaRule::Ignore, max_tokens: Some(4), ..ChatDefaults::default() };
    let chat = LocalChatModel::new(model, ignoring);
    assert_eq!(chat.chat(&schema, &CallCtx::default()).await.unwrap().usage.output, 4);
}

#[tokio::test]
async fn texts_of_special_tokens_stay_texts() {
    let (_folder, model) = opened(|_| {});
    let chat = LocalChatModel::new(model, ChatDefaults::default());
    let mut asked = request("a <|im_end|> b");
    asked.sampling.logprobs = Some(0);
    let reply = chat.chat(&asked, &CallCtx::default()).await.unwrap();
    let ends = reply.tokens.unwrap().prompt_ids.iter().filter(|id| **id == 2).count();
    assert_eq!(ends, 2, "one at the end of each message");
}

#[tokio::test]
async fn cancelled_and_late_calls_end() {
    let (_folder, model) = opened(|_| {});
    let chat = LocalChatModel::new(model, ChatDefaults::default());
    let mut endless = request("Where?");
    endless.sampling.max_tokens = None;
    let call = CallCtx::default();
    call.cancel.cancel();
    assert_eq!(chat.chat(&endless, &call).await.unwrap_err().class(), ErrorClass::Cancelled);
    let call = CallCtx { timeout: Some(Duration::ZERO), ..CallCtx::default() };
    assert_eq!(chat.chat(&endless, &call).await.unwrap_err().class(), ErrorClass::Timeout);
    // The thread is free for others.
    assert_eq!(chat.chat(&request("Where?"), &CallCtx::default()).await.unwrap().usage.output, 12);
}

#[test]
fn the_id_has_the_hash_of_the_weights_and_the_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    write(&one, &[]);
    write(&other, &[("rope_theta", json!(200.0))]);
    let id = |path: &Path, adapter: Option<&Path>| {
        let options =
            LocalModelOptions { adapter: adapter.map(Path::to_path_buf), ..LocalModelOptions::new(path) };
        LocalChatModel::new(Arc::new(LocalModel::open(options).unwrap()), ChatDefaults::default())
            .id()
            .clone()
    };
    assert_eq!(id(&one, None), id(&one, None));
    assert_ne!(id(&one, None).revision, id(&other, None).revision);
    let adapter = folder.path().join("adapter");
    let mut model = skill_train::model::Decoder::open(&one).unwrap();
    let lora = LoraConfig::new(2, 4.0, &["q_proj"], "one").unwrap();
    model.attach_new(lora, 1).unwrap();
    std::fs::create_dir(&adapter).unwrap();
    for (name, bytes) in model.adapter_files().unwrap() {
        std::fs::write(adapter.join(name), bytes).unwrap();
    }
    let with_adapter = id(&one, Some(&adapter));
    assert_eq!(with_adapter.model, "one+adapter");
    assert_ne!(with_adapter.revision, id(&one, None).revision);
}

#[test]
fn too_little_memory_is_an_error_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[]);
    let open = |available| {
        let files = ModelFiles::open(folder.path(), None).unwrap();
        LocalModel::of(files, LocalModelOptions::new(folder.path()), available)
    };
    let need = open(None).unwrap().need();
    let expect = u64::try_from(open(None).unwrap().files().config().n_parameters()).unwrap() * 4;
    assert_eq!(need.weights, expect);
    assert_eq!(need.prefixes, 512_000_000);
    assert!(open(Some(need.total())).is_ok());
    match open(Some(need.total() - 1)) {
        Err(TrainError::Memory { needed, available, .. }) => {
            assert_eq!((needed, available), (need.total(), need.total() - 1));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let faulty = |name: &str, content: Option<&str>| {
        write(path, &[]);
        match content {
            Some(content) => std::fs::write(path.join(name), content).unwrap(),
            None => std::fs::remove_file(path.join(name)).unwrap(),
        }
        let error = ModelFiles::open(path, None).unwrap_err();
        if content.is_some() {
            std::fs::remove_file(path.join(name)).unwrap();
        }
        error
    };
    assert!(matches!(faulty("chat_template.jinja", None), TrainError::File { .. }), "no template");
    assert!(matches!(faulty("chat_template.jinja", Some("{% if %}")), TrainError::File { .. }));
    assert!(matches!(faulty("tokenizer.json", Some("{}")), TrainError::File { .. }));
    assert!(matches!(faulty("config.json", Some("{\"model_type\": \"mamba\"}")), TrainError::Model { .. }));
    assert!(matches!(faulty("model.safetensors", Some("short")), TrainError::File { .. }));
    assert!(matches!(
        faulty("generation_config.json", Some("{\"eos_token_id\": \"x\"}")),
        TrainError::File { .. }
    ));
    assert!(matches!(ModelFiles::open(&path.join("none"), None), Err(TrainError::Io { .. })));
    write(path, &[]);
    let files = ModelFiles::open(path, None).unwrap();
    assert_eq!((files.format(), files.quantization()), (WeightFormat::Safetensors, "F32"));
    assert!(files.n_bytes() > 1000);
}
