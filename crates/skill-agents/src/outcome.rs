//! What became of one skill in one run.

skill_core::named_enum! {
    /// The outcomes; only the first three enter rates.
    #[derive(PartialOrd, Ord)]
    pub enum TriggerOutcome {
        /// The model loaded it: its text reached the model.
        Triggered = "triggered",
        /// The model tried to load it, and its text did not reach the model.
        Attempted = "attempted, not loaded",
        /// It was offered with its description, and the model did not ask for it.
        NotTriggered = "not triggered",
        /// Its name was offered without its description.
        OfferedWithoutDescription = "offered without description",
        /// It was not in the listing.
        NotOffered = "not offered",
        /// A person called it by name.
        CalledByPerson = "called by the person",
        /// The run failed before it could tell.
        Failed = "failed",
    }
}

impl TriggerOutcome {
    /// True if it enters rates.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Triggered | Self::Attempted | Self::NotTriggered)
    }
}
