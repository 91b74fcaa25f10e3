//! Episodes that are sampled together: a wave is one call of `sample` for all episodes that wait for a reply.
//!
//! A wave begins when every episode either waits or has ended, so which prompts it holds depends on the episodes alone
//! and not on what arrives first; the seeds follow from the number of the wave and the order of the episodes.

use parking_lot::Mutex;
use skill_core::random::Dice;
use skill_train::TrainError;
use skill_train::seam::{CallId, GenerationSettings, Sample, SampleRequest, TrainBackend};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

type Reply = Result<Sample, Arc<TrainError>>;

/// Episodes that are played side by side.
pub(crate) struct Wave {
    backend: Arc<dyn TrainBackend>,
    settings: GenerationSettings,
    calls: WaveCalls,
    state: Mutex<State>,
}

/// What the calls of a wave are called, and the seed of their samples.
#[derive(Debug, Clone)]
pub(crate) struct WaveCalls {
    /// The name of the run in the calls.
    pub(crate) run: String,
    /// The step that the calls belong to.
    pub(crate) step: u64,
    pub(crate) seed: u64,
}

struct State {
    /// Episodes that have not ended.
    n_playing: usize,
    waiting: BTreeMap<usize, (Vec<u32>, oneshot::Sender<Reply>)>,
    n_waves: u64,
}

impl Wave {
    pub(crate) fn new(
        backend: Arc<dyn TrainBackend>,
        settings: GenerationSettings,
        calls: WaveCalls,
        n_episodes: usize,
    ) -> Self {
        let state = State { n_playing: n_episodes, waiting: BTreeMap::new(), n_waves: 0 };
        Self { backend, settings, calls, state: Mutex::new(state) }
    }

    /// The settings of sampling, without a seed.
    pub(crate) fn settings(&self) -> &GenerationSettings {
        &self.settings
    }

    /// Samples a reply to this prompt together with those of all other episodes.
    pub(crate) async fn sample(&self, seat: usize, prompt: Vec<u32>) -> Reply {
        let (sender, receiver) = oneshot::channel();
        self.state.lock().waiting.insert(seat, (prompt, sender));
        self.run_if_complete().await;
        let gone = || TrainError::Compute { what: "a reply", source: "the wave has ended".into() };
        receiver.await.unwrap_or_else(|_| Err(Arc::new(gone())))
    }

    /// An episode has ended.
    pub(crate) async fn leave(&self) {
        {
            let mut state = self.state.lock();
            state.n_playing = state.n_playing.saturating_sub(1);
        }
        self.run_if_complete().await;
    }

    async fn run_if_complete(&self) {
        let (waiting, number) = {
            let mut state = self.state.lock();
            if state.waiting.is_empty() || state.waiting.len() < state.n_playing {
                return;
            }
            state.n_waves += 1;
            (std::mem::take(&mut state.waiting), state.n_waves)
        };
        let (prompts, senders): (Vec<_>, Vec<_>) = waiting.into_values().unzip();
        let WaveCalls { run, step, seed } = self.calls.clone();
        let seed = Dice::new(seed, &["wave"]).unit(&format!("{step} {number}")).to_bits();
        let request = SampleRequest {
            call: CallId::new(run, step, number),
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
