//! What became of one skill in one run.

/// The outcomes; only the first three enter rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The model loaded it: its text reached the model.
    Triggered,
    /// The model tried to load it, and its text did not reach the model.
    Attempted,
    /// It was offered with its description, and the model did not ask for it.
    NotTriggered,
    /// Its name was offered without its description.
    OfferedWithoutDescription,
    /// It was not in the listing.
    NotOffered,
    /// A person called it by name.
    CalledByPerson,
    /// The run failed before it could tell.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Triggered,
        Self::Attempted,
        Self::NotTriggered,
        Self::OfferedWithoutDescription,
        Self::NotOffered,
        Self::CalledByPerson,
        Self::Failed,
    ];

    /// The name in outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Triggered => "triggered",
            Self::Attempted => "attempted, not loaded",
            Self::NotTriggered => "not triggered",
            Self::OfferedWithoutDescription => "offered without description",
            Self::NotOffered => "not offered",
            Self::CalledByPerson => "called by the person",
            Self::Failed => "failed",
        }
    }

    /// The outcome of a name; `None` for any other text.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }

    /// True if it enters rates.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Triggered | Self::Attempted | Self::NotTriggered)
    }
}

impl serde::Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Outcome {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::of(&name).ok_or_else(|| serde::de::Error::custom(format!("{name:?} is not an outcome")))
    }
}
