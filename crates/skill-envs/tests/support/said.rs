//! Messages of an area, for one snapshot: a message that is reworded changes its own text and that file alone.

/// The messages of a test, in order.
#[derive(Default)]
pub(crate) struct Said {
    text: String,
}

impl Said {
    /// Adds a message, which has to name all of these: fields, places, numbers.
    #[track_caller]
    pub(crate) fn add(&mut self, message: &str, names: &[&str]) {
        for name in names {
            assert!(message.contains(name), "{name:?} is not named in: {message}");
        }
        self.text.push_str(message);
        self.text.push('\n');
    }

    /// All messages, for the snapshot.
    pub(crate) fn text(&self) -> &str {
        self.text.trim_end()
    }
}
