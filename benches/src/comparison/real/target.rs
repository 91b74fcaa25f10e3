//! The target: a server with Chat Completions, whose replies are recorded.

use crate::comparison::{Failure, results};
use parking_lot::Mutex;
use reqwest::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest reply; a longer one is cut.
const MAX_TOKENS: u32 = 200;
/// The longest time for a reply.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Requests by which the time of a call is estimated.
const N_TIMED: usize = 4;

/// A request with its reply, a line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    system: String,
    user: String,
    reply: String,
}

/// A real model; clones share the recorded replies.
#[derive(Debug, Clone)]
pub struct Target {
    client: Client,
    url: String,
    /// The name of the model.
    pub model: String,
    file: PathBuf,
    known: Arc<Mutex<HashMap<(String, String), String>>>,
}

impl Target {
    /// The model `model` at `url`, such as `http://127.0.0.1:8080/v1`, whose replies are recorded in `file`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn new(url: &str, model: &str, file: &Path) -> Result<Self, Failure> {
        drop(rustls::crypto::ring::default_provider().install_default());
        let recorded: Vec<Recorded> = results::read(file)?;
        let known = recorded.into_iter().map(|line| ((line.system, line.user), line.reply)).collect();
        Ok(Self {
            // An idle connection belongs to the runtime that opened it, and there are two.
            client: Client::builder().timeout(TIMEOUT).pool_max_idle_per_host(0).build()?,
            url: url.trim_end_matches('/').to_owned(),
            model: model.to_owned(),
            file: file.to_owned(),
            known: Arc::new(Mutex::new(known)),
        })
    }

    /// The reply to a request, with temperature 0.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached or does not answer as Chat Completions do.
    pub async fn reply(&self, system: &str, user: &str) -> Result<String, Failure> {
        let key = (system.to_owned(), user.to_owned());
        if let Some(reply) = self.known.lock().get(&key) {
            return Ok(reply.clone());
        }
        let reply = self.ask(system, user).await?;
        let line = Recorded { system: key.0.clone(), user: key.1.clone(), reply: reply.clone() };
        results::append(&self.file, &line)?;
        self.known.lock().insert(key, reply.clone());
        Ok(reply)
    }

    async fn ask(&self, system: &str, user: &str) -> Result<String, Failure> {
        let body = json!({
            "model": self.model, "temperature": 0, "max_tokens": MAX_TOKENS,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        });
        let url = format!("{}/chat/completions", self.url);
        let response = self.client.post(&url).json(&body).send().await?.error_for_status()?;
        let reply: Value = response.json().await?;
        let text = reply.pointer("/choices/0/message/content").and_then(Value::as_str);
        Ok(text.ok_or_else(|| format!("{url}: the reply has no message"))?.to_owned())
    }

    /// Seconds that a call takes, by a few requests that are not recorded.
    ///
    /// # Errors
    ///
    /// As [`Self::reply`].
    pub async fn seconds_a_call(&self, skill: &str, questions: &[&str]) -> Result<f64, Failure> {
        let (began, questions) = (Instant::now(), questions.iter().take(N_TIMED));
        let n = questions.len().max(1);
        for question in questions {
            self.ask(skill, question).await?;
        }
        Ok(began.elapsed().as_secs_f64() / n as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// A model that answers so many requests, each with its number.
    fn served(n: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for number in 0..n {
                let (mut stream, _) = listener.accept().unwrap();
                let mut buffer = [0; 4096];
                let mut request = String::new();
                while !request.ends_with("}]}") {
                    let n_read = stream.read(&mut buffer).unwrap();
                    request.push_str(std::str::from_utf8(&buffer[..n_read]).unwrap());
                }
                let body = json!({"choices": [{"message": {"content": number.to_string()}}]}).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close", body.len());
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
            }
        });
        url
    }

    #[test]
    fn a_request_that_was_made_before_is_answered_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, url) = (dir.path().join("replies.jsonl"), served(2));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let target = || Target::new(&url, "m", &file).unwrap();
        let first = target();
        let asked = |target: &Target, user: &str| runtime.block_on(target.reply("skill", user));
        assert_eq!(asked(&first, "a").unwrap(), "0");
        assert_eq!(asked(&first, "a").unwrap(), "0");
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"system\":\"sk").unwrap();
        let again = target();
        assert_eq!(asked(&again, "a").unwrap(), "0");
        assert_eq!(asked(&again, "b").unwrap(), "1");
        assert!(asked(&again, "c").is_err(), "the server is gone");
        assert_eq!(asked(&target(), "b").unwrap(), "1");
    }
}
