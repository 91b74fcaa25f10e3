//! Embeddings from the journal: each text is sent once, whatever requests ask for it.

use super::{Journaled, NotInRecording, Opened, UnansweredCall, attempts_of, follow};
use crate::call::CallCtx;
use crate::chat::ModelId;
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::{LengthSource, LlmError};
use crate::journal::Journal;
use crate::journal::embedding::{EmbeddingRecord, StoredVector, VectorsOutcome, token_shares};
use crate::journal::flight::{Flight, Joined};
use crate::journal::key::{ModelPart, TextKey};
use crate::layer::{Answer, all_batches};
use async_trait::async_trait;
use serde_json::Value;
use skill_core::Usage;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The vectors that a request has got so far.
type Found = HashMap<TextKey, Arc<StoredVector>>;

/// A text that nobody else asks for now.
struct Lead {
    key: TextKey,
    text: Arc<str>,
    flight: Flight<TextKey>,
}

impl Journaled<dyn EmbeddingModel> {
    /// Keeps the vectors of `inner` in a journal, one entry for each text.
    ///
    /// A text is looked up by the model and its parameters alone: neither the place of the call nor the other texts of
    /// its request matter. The texts that are not found are sent in batches of at most
    /// [`EmbeddingModel::max_texts`] of `inner`. The usage of a reply is that of its distinct texts, each with its share
    /// of the request that it was sent with.
    pub fn embedding(inner: Arc<dyn EmbeddingModel>, journal: Journal) -> Self {
        let model = Arc::new(ModelPart::of(inner.id(), &inner.parameters()));
        Self { inner, journal, model, model_row: Mutex::new(None), recording: None }
    }

    /// Gets the vectors of texts that nobody else asks for now, from the recording or by requests.
    async fn lead(
        &self,
        leads: Vec<Lead>,
        call: &CallCtx,
    ) -> Result<Vec<(TextKey, Arc<StoredVector>)>, LlmError> {
        let (mut found, leads) = self.copy_recorded(leads, call)?;
        let (mut batches, mut leads) = (Vec::new(), leads.into_iter().peekable());
        while leads.peek().is_some() {
            let batch: Vec<Lead> = leads.by_ref().take(self.inner.max_texts().max(1)).collect();
            let sent: Answer<'_, _> = Box::pin(self.send(batch, call));
            batches.push(sent);
        }
        for vectors in all_batches(batches).await? {
            found.extend(vectors);
        }
        Ok(found)
    }

    /// Copies what the recording has of these texts; what it does not have is left, or may not be sent.
    #[expect(clippy::type_complexity, reason = "two lists, named where they are used")]
    fn copy_recorded(
        &self,
        leads: Vec<Lead>,
        call: &CallCtx,
    ) -> Result<(Vec<(TextKey, Arc<StoredVector>)>, Vec<Lead>), LlmError> {
        let Some(recording) = &self.recording else { return Ok((Vec::new(), leads)) };
        let (mut copied, mut left) = (Vec::new(), Vec::new());
        for lead in leads {
            match recording.journal.vector(lead.key)? {
                Some(vector) => copied.push((lead, Arc::new(vector))),
                None => left.push(lead),
            }
        }
        for (_, stored) in &copied {
            self.check_length(stored.vector.len())?;
        }
        if !copied.is_empty() {
            self.journal.record_embedding(EmbeddingRecord {
                outcome: Ok(copied.iter().map(|(_, stored)| Arc::clone(stored)).collect()),
                ..self.record(copied.iter().map(|(lead, _)| lead), call)
            });
        }
        let mut found = Vec::with_capacity(copied.len());
        for (Lead { key, flight, .. }, stored) in copied {
            flight.land(Ok(Arc::clone(&stored)));
            found.push((key, stored));
        }
        if recording.otherwise == NotInRecording::Fail && !left.is_empty() {
            return Err(LlmError::NotRecorded { place: call.place.to_string() });
        }
        Ok((found, left))
    }

    /// Sends one request, and records it.
    async fn send(
        &self,
        leads: Vec<Lead>,
        call: &CallCtx,
    ) -> Result<Vec<(TextKey, Arc<StoredVector>)>, LlmError> {
        let record = self.record(leads.iter(), call);
        let request = EmbeddingRequest { texts: leads.iter().map(|lead| Arc::clone(&lead.text)).collect() };
        let Opened { room, sends, call } = self.open(call).await?;
        let (started, began) = (SystemTime::now(), Instant::now());
        let mut unanswered = UnansweredCall {
            journal: &self.journal,
            attempts: &call.attempts,
            record: Some(EmbeddingRecord { room: Some(room), sends: Some(sends), ..record }),
        };
        let reply = self.inner.embed(&request, &call).await;
        let record = unanswered.record.take();
        let attempts = attempts_of(&call, &reply, &request, started, began.elapsed());
        let outcome = reply.and_then(|reply| self.stored(reply, &request));
        // From the reply to here nothing waits, so that a reply cannot be lost by being dropped.
        if let Some(record) = record.filter(|_| outcome.is_ok() || !attempts.is_empty()) {
            self.journal.record_embedding(EmbeddingRecord { outcome: outcome.clone(), attempts, ..record });
        }
        match outcome {
            Ok(vectors) => {
                let mut found = Vec::with_capacity(leads.len());
                for (Lead { key, flight, .. }, stored) in leads.into_iter().zip(vectors) {
                    flight.land(Ok(Arc::clone(&stored)));
                    found.push((key, stored));
                }
                Ok(found)
            }
            Err(error) => {
                leads.into_iter().for_each(|lead| lead.flight.land(Err(error.clone())));
                Err(error)
            }
        }
    }

    /// The record of a call that was cancelled before anything was sent.
    fn record<'call, 'lead>(
        &'call self,
        leads: impl Iterator<Item = &'lead Lead>,
        call: &'call CallCtx,
    ) -> EmbeddingRecord<'call> {
        EmbeddingRecord {
            place: &call.place,
            model: &self.model,
            texts: leads.map(|lead| (lead.key, Arc::clone(&lead.text))).collect(),
            outcome: Err(LlmError::Cancelled),
            attempts: Vec::new(),
            sends: None,
            room: None,
        }
    }

    /// The vectors of a reply as the journal keeps them.
    fn stored(&self, reply: EmbeddingReply, request: &EmbeddingRequest) -> VectorsOutcome {
        let length = reply.check(request.texts.len()).map_err(|message| LlmError::InvalidReply {
            provider: self.inner.id().provider.clone(),
            message,
        })?;
        self.check_length(length)?;
        let shares = token_shares(reply.usage.input, &request.texts);
        let vectors = reply.vectors.into_iter().zip(shares);
        Ok(vectors.map(|(vector, tokens)| Arc::new(StoredVector { vector, tokens })).collect())
    }

    fn check_length(&self, found: usize) -> Result<(), LlmError> {
        self.journal.check_length(&self.model, found).map_err(|expected| {
            let ModelId { provider, model, .. } = self.inner.id().clone();
            LlmError::VectorLength { provider, model, found, expected, expected_by: LengthSource::Journal }
        })
    }
}

#[async_trait]
impl EmbeddingModel for Journaled<dyn EmbeddingModel> {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn embed(&self, request: &EmbeddingRequest, call: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        request.check()?;
        let keys: Vec<TextKey> = request.texts.iter().map(|text| TextKey::of(&self.model, text)).collect();
        let mut found = Found::with_capacity(keys.len());
        let texts = request.texts.iter().cloned();
        let mut open: Vec<(TextKey, Arc<str>)> = keys.iter().copied().zip(texts).collect();
        while !open.is_empty() {
            let (mut leads, mut follows) = (Vec::new(), Vec::new());
            for (key, text) in open.drain(..) {
                match self.journal.join(key)? {
                    Joined::Reply(stored) => drop(found.insert(key, stored)),
                    Joined::Leader(flight) => leads.push(Lead { key, text, flight }),
                    Joined::Follower(waiting) => follows.push((key, text, waiting)),
                }
            }
            // First what others may wait for, so that no two calls wait for each other; this call itself may too, where
            // its request has a text twice.
            found.extend(self.lead(leads, call).await?);
            for (key, text, waiting) in follows {
                match follow::<TextKey>(waiting, call).await? {
                    Some(Ok(stored)) => drop(found.insert(key, stored)),
                    // The other call gave up; this one sends the text itself.
                    Some(Err(LlmError::Cancelled)) | None => open.push((key, text)),
                    Some(Err(error)) => return Err(error),
                }
            }
        }
        let input = found.values().map(|stored| stored.tokens).fold(0, u64::saturating_add);
        // Every key is found by now.
        let vectors =
            keys.iter().filter_map(|key| found.get(key)).map(|stored| stored.vector.clone()).collect();
        Ok(EmbeddingReply::new(vectors, Usage { input, ..Usage::default() }))
    }
}
