//! The models that clients train, and which of them give way to a new one.

use std::time::{Duration, Instant};

use super::Trained;

/// Models that are kept.
pub(super) const MAX_MODELS: usize = 8;
/// A gradient that no call has followed for this long is abandoned.
const ABANDONED: Duration = Duration::from_secs(15 * 60);

/// Models by id, the one that was used last at the end.
///
/// A new model takes the place of the one that was not used for the longest time; but one whose gradient waits for its
/// optimizer step is kept, unless it was abandoned.
#[derive(Debug, Default)]
pub(super) struct Models(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    id: String,
    trained: Trained,
    used: Instant,
    has_gradient: bool,
}

impl Models {
    /// A model by its id, which is then the one that was used last.
    pub(super) fn find(&mut self, id: &str) -> Option<Trained> {
        let place = self.0.iter().position(|kept| kept.id == id)?;
        let mut found = self.0.remove(place);
        found.used = Instant::now();
        let trained = found.trained.clone();
        self.0.push(found);
        Some(trained)
    }

    /// Keeps a new model; returns the reason if all others are in use.
    pub(super) fn keep(&mut self, id: String, trained: Trained) -> Result<(), String> {
        if !self.make_room(Instant::now()) {
            return Err(format!(
                "{MAX_MODELS} models have a gradient that waits for its optimizer step; unload one, or try again"
            ));
        }
        self.0.push(Kept { id, trained, used: Instant::now(), has_gradient: false });
        Ok(())
    }

    fn make_room(&mut self, now: Instant) -> bool {
        while self.0.len() >= MAX_MODELS {
            let gives_way =
                |kept: &Kept| !kept.has_gradient || now.saturating_duration_since(kept.used) >= ABANDONED;
            let Some(place) = self.0.iter().position(gives_way) else { return false };
            self.0.remove(place);
        }
        true
    }

    pub(super) fn has_gradient(&mut self, id: &str) {
        self.mark(id, true);
    }

    pub(super) fn has_no_gradient(&mut self, id: &str) {
        self.mark(id, false);
    }

    fn mark(&mut self, id: &str, has_gradient: bool) {
        if let Some(kept) = self.0.iter_mut().find(|kept| kept.id == id) {
            kept.has_gradient = has_gradient;
        }
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.0.retain(|kept| kept.id != id);
    }

    pub(super) fn holds(&self, id: &str) -> bool {
        self.0.iter().any(|kept| kept.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::{ABANDONED, MAX_MODELS, Models, Trained};
    use skill_train::chat_model::ModelFiles;
    use skill_train::checkpoint::StateStore;
    use skill_train::local::LocalBackend;
    use skill_train::model::Keep;
    use std::path::Path;
    use std::time::Instant;

    #[test]
    fn a_model_with_a_gradient_under_way_is_not_taken_away() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../skill-train/tests/data/own/chat-tiny");
        let model = ModelFiles::open(&folder, None).unwrap().load_to_adapt().unwrap();
        let backend = LocalBackend::new(model, None, Keep::Activations, StateStore::new("unused"));
        let trained = Trained { base_model: "tiny".to_owned(), rank: 1, targets: Vec::new(), backend };
        let mut models = Models::default();
        for n in 0..MAX_MODELS {
            models.keep(n.to_string(), trained.clone()).unwrap();
        }
        models.has_gradient("0");
        models.keep("new".to_owned(), trained.clone()).unwrap();
        assert!(models.holds("0") && !models.holds("1"));
        for n in 2..MAX_MODELS {
            models.has_gradient(&n.to_string());
        }
        models.has_gradient("new");
        assert!(models.keep("one more".to_owned(), trained.clone()).is_err());
        models.has_no_gradient("3");
        models.keep("one more".to_owned(), trained).unwrap();
        assert!(!models.holds("3") && models.holds("0"));
        models.has_gradient("one more");
        assert!(!models.make_room(Instant::now()));
        assert!(models.make_room(Instant::now() + ABANDONED), "nobody comes back for these");
    }
}
