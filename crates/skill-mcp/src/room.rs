//! The room that an answer has for texts, which are cut where they are longer.

/// The most characters of texts in one answer.
const MAX_CHARACTERS: usize = 40_000;
/// The most characters of an error message, which may quote a file.
const MAX_PROBLEM: usize = 1_000;
const CUT: &str = " […]";

/// An error message, or another short text that may quote a file.
pub(crate) fn start_of(text: &str) -> String {
    Room::default().take(text, MAX_PROBLEM)
}

/// The room that one answer has for texts.
pub(crate) struct Room {
    left: usize,
    /// Characters that did not find any.
    pub(crate) n_left_out: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: MAX_CHARACTERS, n_left_out: 0 }
    }
}

impl Room {
    /// The beginning of a text, with a mark where it was cut.
    pub(crate) fn take(&mut self, text: &str, max_characters: usize) -> String {
        let n_allowed = max_characters.min(self.left);
        let n_all = text.chars().count();
        if n_all <= n_allowed {
            self.left -= n_all;
            return text.to_owned();
        }
        self.left -= n_allowed;
        self.n_left_out += n_all - n_allowed;
        let kept: String = text.chars().take(n_allowed).collect();
        format!("{kept}{CUT}")
    }

    /// As [`take`](Self::take), and nothing of nothing.
    pub(crate) fn take_some(&mut self, text: &str, max_characters: usize) -> Option<String> {
        (!text.trim().is_empty()).then(|| self.take(text, max_characters))
    }

    /// Whether there is next to none any more.
    pub(crate) fn is_used_up(&self) -> bool {
        self.left < 200
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_limit_and_counts_what_it_leaves_out() {
        let mut room = Room::default();
        assert_eq!((room.take("häuser", 3), room.n_left_out), ("häu […]".to_owned(), 3));
        assert_eq!(room.take_some(" \n", 3), None);
        let long = "x".repeat(MAX_CHARACTERS);
        room.take(&long, usize::MAX);
        assert!(room.is_used_up());
        assert_eq!((room.take("more", 10), room.n_left_out), (" […]".to_owned(), 3 + 3 + 4));
    }
}
