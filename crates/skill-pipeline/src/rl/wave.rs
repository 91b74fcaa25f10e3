//! Episodes that are sampled together: a wave is one call of `sample` for all episodes that wait for a reply.
//!
//! A wave begins when every episode either waits or has ended, so which prompts it holds depends on the episodes alone
//! and not on what arrives first; the seeds follow from the number of the wave and the order of the episodes.

use skill_core::random::Dice;
use skill_train::TrainError;
use skill_train::seam::{CallId, GenerationSettings, Sample, SampleRequest, TrainBackend};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

type Reply = Result<Sample, Arc<TrainError>>;

/// The episodes of an iteration.
pub(super) struct Wave {
    backend: Arc<dyn TrainBackend>,
    settings: GenerationSettings,
    seed: u64,
    iteration: u64,
    state: Mutex<State>,
}

struct State {
    /// Episodes that have not ended.
    n_playing: usize,
    waiting: BTreeMap<usize, (Vec<u32>, oneshot::Sender<Reply>)>,
    n_waves: u64,
}

impl Wave {
    pub(super) fn new(
        backend: Arc<dyn TrainBackend>,
        settings: GenerationSettings,
        seed: u64,
        iteration: u64,
        n_episodes: usize,
    ) -> Self {
        let state = State { n_playing: n_episodes, waiting: BTreeMap::new(), n_waves: 0 };
        Self { backend, settings, seed, iteration, state: Mutex::new(state) }
    }

    /// The settings of sampling, without a seed.
    pub(super) fn settings(&self) -> &GenerationSettings {
        &self.settings
    }

    /// Samples a reply to this prompt together with those of all other episodes.
    pub(super) async fn sample(&self, seat: usize, prompt: Vec<u32>) -> Reply {
        let (sender, receiver) = oneshot::channel();
        self.lock().waiting.insert(seat, (prompt, sender));
        self.run_if_complete().await;
        let gone = || TrainError::Compute { what: "a reply", source: "the wave has ended".into() };
        receiver.await.unwrap_or_else(|_| Err(Arc::new(gone())))
    }

    /// An episode has ended.
    pub(super) async fn leave(&self) {
        {
            let mut state = self.lock();
            state.n_playing = state.n_playing.saturating_sub(1);
        }
        self.run_if_complete().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_if_complete(&self) {
        let (waiting, number) = {
            let mut state = self.lock();
            if state.waiting.is_empty() || state.waiting.len() < state.n_playing {
                return;
            }
            state.n_waves += 1;
            (std::mem::take(&mut state.waiting), state.n_waves)
        };
        let (prompts, senders): (Vec<_>, Vec<_>) = waiting.into_values().unzip();
        let dice = Dice::new(self.seed, &["wave"]);
        let seed = dice.unit(&format!("{} {number}", self.iteration)).to_bits();
        let request = SampleRequest {
            call: CallId::new("rl waves", self.iteration, number),
            prompts,
            settings: GenerationSettings { seed, ..self.settings.clone() },
        };
        match self.backend.sample(request).await {
            Ok(samples) => {
                for (sender, sample) in senders.into_iter().zip(samples) {
                    // An episode that was cancelled does not listen.
                    let _ = sender.send(Ok(sample));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for sender in senders {
                    let _ = sender.send(Err(Arc::clone(&error)));
                }
            }
        }
    }
}
