//! What a reader should know before trusting numbers, by weight.

use serde::Serialize;

skill_core::named_enum! {
    /// A reason to trust numbers less, or to look closer; the weightiest first.
    #[non_exhaustive]
    pub enum CautionKind {
        /// The skill on the disk is not the one that was measured.
        ChangedSkill = "changed_skill",
        /// A file of the run cannot be read, so numbers are missing.
        DamagedFile = "damaged_file",
        /// Models were simulated.
        Simulated = "simulated",
        /// The run has not come to its end.
        Unfinished = "unfinished",
        /// A run that trains weights shows a sign of going wrong.
        Sign = "sign",
        /// The test split was not read.
        Untested = "untested",
        /// No optimizer reply of some steps could be read.
        Unreadable = "unreadable",
        /// Skills are active that no trial has measured.
        Unmeasured = "unmeasured",
        /// No skill at all does about as well.
        NoSkillAsGood = "no_skill_as_good",
        /// The flip rate is above zero: items change between passes with the same skill.
        Noise = "noise",
        /// What a check of the data found before the run.
        Data = "data",
        /// Items of a class are answered with the same other class, so that a rule is missing.
        MissingRules = "missing_rules",
        /// Labels of the data may be wrong.
        DoubtfulLabels = "doubtful_labels",
        /// Classes are answered worse than before.
        WorseClasses = "worse_classes",
        /// The test split has few items.
        FewItems = "few_items",
        /// A task takes more or fewer tokens than before.
        Price = "price",
        /// Changes were accepted that chance may have made look good.
        AcceptedByChance = "accepted_by_chance",
        /// Candidates or trials that decided nothing.
        Undecided = "undecided",
        /// The score of what was chosen is optimistic, since it was chosen by it.
        BestOf = "best_of",
        /// At least half of the calls of the search came after its last gain.
        SpentInVain = "spent_in_vain",
        /// Something that the run left out.
        LeftOut = "left_out",
    }
}

impl CautionKind {
    /// Its place among all kinds: what weighs more has the smaller number.
    pub fn weight(self) -> usize {
        Self::ALL.iter().position(|kind| *kind == self).unwrap_or(usize::MAX)
    }
}

/// A reason to trust numbers less, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caution {
    /// The reason.
    pub kind: CautionKind,
    /// The sentence.
    pub words: String,
}

impl Caution {
    /// A caution in these words.
    pub fn new(kind: CautionKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }
}
