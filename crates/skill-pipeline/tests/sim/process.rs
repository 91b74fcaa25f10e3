//! One process of a run, and how it ends.

use crate::provider::{MAX_REPLY_TOKENS, Models, Witness};
use crate::story::{Disturbance, Moment, Story};
use crate::world::{INITIAL_SKILL, Words};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use skill_core::SkillDoc;
use skill_envs::EnvError;
use skill_llm::LlmError;
use skill_pipeline::{Event, EventSink, PipelineError, StopSignal, TrainSettings, Trainer};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// No process takes longer, whatever the weather: one that does hangs.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// What a process is made of.
pub(crate) struct Process<'a> {
    pub(crate) story: &'a Story,
    /// How many came before it.
    pub(crate) process_idx: usize,
    /// How often the person has raised the cap.
    pub(crate) n_raised: u32,
    pub(crate) witness: &'a Arc<Witness>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) enum End {
    Finished,
    /// `last_flush` is when the journal was last known to be on the disk.
    Killed {
        last_flush: Option<Instant>,
    },
    Stopped,
    Capped,
    Faulted(PipelineError),
}

/// What unwinds a process that is killed at an event.
struct Kill;

/// Listens to a process, and may kill it.
struct Listener {
    kill_at: Option<u32>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    n_events: u32,
    last_flush: Option<Instant>,
}

impl EventSink for Listener {
    fn emit(&self, event: &Event) {
        let mut heard = self.heard.lock();
        heard.n_events += 1;
        // What these tell of was flushed before they were.
        if let Event::BaselineMeasured { .. } | Event::StepFinished { .. } | Event::EpochEnded { .. } = event
        {
            heard.last_flush = Some(Instant::now());
        }
        let is_killed = self.kill_at.is_some_and(|kill_at| kill_at == heard.n_events);
        drop(heard);
        if is_killed {
            resume_unwind(Box::new(Kill));
        }
    }
}

impl Process<'_> {
    pub(crate) fn disturbance(&self) -> Option<Disturbance> {
        self.story.disturbances.get(self.process_idx).copied()
    }

    /// Runs until it ends by itself or is made to.
    pub(crate) async fn run(&self, dir: &Path) -> End {
        self.witness.begin_process();
        let story = self.story;
        let mut kill_after = None;
        let mut kill_at = None;
        let stop = StopSignal::default();
        let mut ctrl_c = (None, None);
        match self.disturbance() {
            None => {}
            Some(Disturbance::Kill { when: Moment::After(time), .. }) => kill_after = Some(time),
            Some(Disturbance::Kill { when: Moment::AtEvent(event), .. }) => kill_at = Some(event),
            Some(Disturbance::CtrlC { soon, now }) => ctrl_c = (Some(soon), now),
        }
        let listener = Arc::new(Listener { kill_at, heard: Mutex::default() });
        let models =
            Models::new(self.witness, story.pace(self.process_idx), story.policy, story.caps(self.n_raised));
        let settings = TrainSettings {
            workers: story.workers(self.process_idx),
            max_reply_tokens: MAX_REPLY_TOKENS,
            ..story.world.settings()
        };
        let listening: Arc<dyn EventSink> = Arc::clone(&listener) as Arc<dyn EventSink>;
        let trainer = Trainer::new(Arc::new(Words::new(story.world)), models.target, models.optimizer)
            .with_settings(settings)
            .with_initial_skill(SkillDoc::new(INITIAL_SKILL))
            .with_events(listening)
            .with_stop(stop.clone())
            .with_budget(models.budget, models.prices);
        let train = AssertUnwindSafe(trainer.train(dir)).catch_unwind();
        let person = async {
            after(ctrl_c.0).await;
            stop.soon.cancel();
            after(ctrl_c.1.zip(ctrl_c.0).map(|(now, soon)| now - soon)).await;
            stop.now.cancel();
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            biased;
            outcome = train => Some(outcome),
            () = after(kill_after) => None,
            () = person => None,
            () = tokio::time::sleep(LONGEST) => panic!("no end after {LONGEST:?}"),
        };
        // Its tasks end with it: virtual time passes only where none is left to be polled.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let killed = || End::Killed { last_flush: listener.heard.lock().last_flush };
        match outcome {
            None => killed(),
            Some(Err(payload)) if payload.is::<Kill>() => killed(),
            Some(Err(payload)) => resume_unwind(payload),
            Some(Ok(Ok(_))) => End::Finished,
            Some(Ok(Err(error))) => of_error(error, &stop),
        }
    }
}

async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// The ways in which a run may stop before its end; any other is a bug.
fn of_error(error: PipelineError, stop: &StopSignal) -> End {
    match error {
        PipelineError::Stopped { .. } => {
            assert!(stop.soon.is_cancelled(), "nobody stopped it");
            End::Stopped
        }
        PipelineError::Capped { .. } => End::Capped,
        PipelineError::Rollout { source: EnvError::Model(LlmError::GaveUp { .. }), .. }
        | PipelineError::Optimizer { source: LlmError::GaveUp { .. }, .. } => End::Faulted(error),
        error => panic!("the run stopped with {error:?}"),
    }
}
