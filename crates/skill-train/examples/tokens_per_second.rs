//! How fast a local model answers: prompt and generated tokens per second, and what a common beginning saves.
//!
//! ```sh
//! cargo run --release -p skill-train --features candle --example tokens_per_second -- MODEL.gguf
//! ```
//!
//! With `generation` behind the file, only the generation of one request is measured, to take turns with
//! `tokens_per_second.py`, which measures llama.cpp; with `questions`, only what a common beginning saves. `RAYON_NUM_THREADS` sets the threads. Replies are greedy.

#![expect(clippy::print_stdout, reason = "the example prints what it measures")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use skill_llm::{CallCtx, ChatModel as _, ChatRequest, Message, Sampling};
use skill_train::chat_model::{ChatDefaults, LocalChatModel, LocalModel, LocalModelOptions, ModelFiles};

/// Requests that are decoded together at most.
const ROWS: usize = 8;
/// Tokens of a reply.
const REPLY: u32 = 64;
/// Questions about a common skill, and the tokens of their replies.
const QUESTIONS: usize = 8;
const SHORT_REPLY: u32 = 20;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn model(path: &str, prefix_cache_bytes: u64) -> Outcome<LocalChatModel> {
    let options = LocalModelOptions {
        context: 2048,
        max_rows: ROWS,
        prefix_cache_bytes,
        ..LocalModelOptions::new(path)
    };
    let model = LocalModel::of(ModelFiles::open(path.as_ref(), None)?, options, None)?;
    Ok(LocalChatModel::new(Arc::new(model), ChatDefaults::default()))
}

fn request(system: &str, question: &str, max_tokens: u32) -> ChatRequest {
    ChatRequest {
        sampling: Sampling { max_tokens: Some(max_tokens), temperature: Some(0.0), ..Sampling::default() },
        ..ChatRequest::new(vec![Message::system(system), Message::user(question)])
    }
}

/// Seconds, tokens of prompts and tokens of replies of some requests at once.
async fn timed(model: &LocalChatModel, requests: Vec<ChatRequest>) -> Outcome<(f64, u64, u64)> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for request in requests {
        let model = model.clone();
        tasks.push(tokio::spawn(async move { model.chat(&request, &CallCtx::default()).await }));
    }
    let (mut prompts, mut replies) = (0, 0);
    for task in tasks {
        let usage = task.await??.usage;
        prompts += usage.input;
        replies += usage.output;
    }
    Ok((start.elapsed().as_secs_f64(), prompts, replies))
}

/// So many words that none of them begins a sentence twice.
fn text(n_words: usize, salt: usize) -> String {
    let words =
        ["river", "stone", "window", "paper", "garden", "engine", "silver", "table", "winter", "letter"];
    let word = |at: usize| words.get((at * at + at / 7 + salt) % words.len());
    (0..n_words).filter_map(word).copied().collect::<Vec<_>>().join(" ")
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name a GGUF file")?;
    let part = arguments.next();
    if part.as_deref() == Some("questions") {
        return common_beginning(&path).await;
    }
    let chat = model(&path, 0)?;
    println!("weights need {} MB", chat.model().need().weights / 1_000_000);
    // Loads the weights, and leaves the first pass out of the measurement.
    timed(&chat, vec![request("Hello.", "Count.", 4)]).await?;

    let is_whole = part.is_none();
    if is_whole {
        let (seconds, prompt, _) = timed(&chat, vec![request(&text(500, 1), "Why?", 1)]).await?;
        println!("prompt: {prompt} tokens in {seconds:.2} s, {:.1} tokens/s", prompt as f64 / seconds);
    }
    for n_rows in if is_whole { vec![1, ROWS] } else { vec![1] } {
        let requests = |n_tokens: u32| -> Vec<ChatRequest> {
            (0..n_rows)
                .map(|row| request("Write a long story.", &format!("Story {row}."), n_tokens))
                .collect()
        };
        let (first, _, one) = timed(&chat, requests(1)).await?;
        let (all, _, n_tokens) = timed(&chat, requests(REPLY)).await?;
        let (n_tokens, seconds) = (n_tokens - one, all - first);
        println!(
            "generation, {n_rows} in flight: {n_tokens} tokens in {seconds:.2} s, {:.1} tokens/s",
            n_tokens as f64 / seconds
        );
    }
    if is_whole { common_beginning(&path).await } else { Ok(()) }
}

/// Questions about a common skill, with its keys and values kept and without.
async fn common_beginning(path: &str) -> Outcome<()> {
    let skill = text(850, 3);
    let questions = || -> Vec<ChatRequest> {
        (0..QUESTIONS)
            .map(|number| request(&skill, &format!("{number}: {}", text(14, number)), SHORT_REPLY))
            .collect()
    };
    let mut took = Vec::new();
    for (name, bytes) in [("without", 0), ("with", 512_000_000)] {
        let chat = model(path, bytes)?;
        timed(&chat, vec![request("Hello.", "Count.", 4)]).await?;
        let (seconds, prompts, replies) = timed(&chat, questions()).await?;
        let computed = chat.model().work_done().computed_tokens;
        println!(
            "{QUESTIONS} questions {name} a kept beginning: {prompts} and {replies} tokens, {computed} computed, in {seconds:.2} s"
        );
        took.push(seconds);
    }
    if let [without, with] = took.as_slice() {
        println!("with / without: {:.3}", with / without);
    }
    Ok(())
}
