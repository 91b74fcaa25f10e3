//! Content from the driver by its hash, each fetched once.

use super::link::RunLink;
use crate::protocol::{Answer, Question};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use parking_lot::Mutex;
use skill_core::canonical::hex_sha256;
use skill_envs::Shown;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// So many skills are kept: an evaluation has one, and a bank shows a few per task.
const MAX_KEPT: usize = 256;

/// Fetches content and holds it against its hash.
pub(super) async fn fetch(link: &Arc<RunLink>, hash: &str) -> Result<Bytes, String> {
    match link.answer(Question::Fetch { hash: hash.to_owned() }).await {
        Answer::Content(Some(content)) => {
            let content = BASE64_STANDARD
                .decode(content)
                .map_err(|error| format!("the content {hash} is not base64: {error}"))?;
            if hex_sha256(&content) != hash {
                return Err(format!("the content {hash} has another hash"));
            }
            Ok(content.into())
        }
        Answer::Content(None) => Err(format!("the driver has no content {hash}")),
        _ => Err(format!("the driver did not send the content {hash}")),
    }
}

/// The skills that were shown last.
#[derive(Default)]
pub(super) struct ShownCache {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_hash: HashMap<String, Arc<OnceCell<Shown>>>,
    order: VecDeque<String>,
}

impl ShownCache {
    /// The skill of this hash; it is fetched once, however many jobs show it.
    pub(super) async fn get(&self, link: &Arc<RunLink>, hash: &str) -> Result<Shown, String> {
        let cell = {
            let mut kept = self.kept.lock();
            if !kept.by_hash.contains_key(hash) {
                kept.order.push_back(hash.to_owned());
                if kept.order.len() > MAX_KEPT
                    && let Some(oldest) = kept.order.pop_front()
                {
                    kept.by_hash.remove(&oldest);
                }
            }
            Arc::clone(kept.by_hash.entry(hash.to_owned()).or_default())
        };
        let fetched = cell
            .get_or_try_init(|| async {
                let content = fetch(link, hash).await?;
                serde_json::from_slice(&content)
                    .map_err(|error| format!("the skill {hash} cannot be read: {error}"))
            })
            .await;
        fetched.cloned()
    }
}
