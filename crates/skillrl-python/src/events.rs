//! Events of a run, kept until the thread that called `train` takes them.

use parking_lot::Mutex;
use skillrl::pipeline::{Event, EventSink};
use std::sync::Arc;

/// What has happened and was not taken yet, each event as JSON.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    /// The events since the last call, in order.
    pub(crate) fn take(&self) -> Vec<String> {
        let taken = std::mem::take(&mut *self.0.lock());
        let json = |event| serde_json::to_string(event).expect("the keys of its maps are texts");
        taken.iter().map(json).collect()
    }
}

impl EventSink for Events {
    fn emit(&self, event: &Event) {
        let mut events = self.0.lock();
        // Of two counts in a row the second one says all.
        if let (Event::StageProgress { .. }, Some(last @ Event::StageProgress { .. })) =
            (event, events.last_mut())
        {
            last.clone_from(event);
        } else {
            events.push(event.clone());
        }
    }
}
