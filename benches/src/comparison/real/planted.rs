//! Lines that the scripted optimizer of a real task proposes: helpful, harmful and neutral ones.
//!
//! They were written by hand before the first run. The optimizer does not know the intended effects.

use skill_core::named_enum;

named_enum! {
    /// A public benchmark.
    pub enum RealTask {
        /// Sums of two or three numbers, made by reasoning-gym (Apache-2.0).
        ChainSum = "chain-sum",
        /// Calls of one function, from BFCL v4 (Apache-2.0).
        BfclSimple = "bfcl-simple",
        /// A task of BIG-Bench Hard (MIT), from a file.
        Bbh = "bbh",
    }
}

/// Intended effect of a line on the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// It raises the score.
    Helpful,
    /// It lowers the score.
    Harmful,
    /// It does not change the score.
    Neutral,
}

/// A planted line with its intended effect.
pub type Planted = (Intent, &'static str);

impl RealTask {
    /// The skill that every search begins with.
    pub fn initial_skill(self) -> &'static str {
        match self {
            Self::ChainSum => "# Arithmetic\n\n- Solve the problem.\n",
            Self::BfclSimple => "# Function calls\n\n- Call the function that does what is requested.\n",
            Self::Bbh => "# Questions\n\n- Answer the question.\n",
        }
    }

    /// True if answers are JSON objects, of which all fields count.
    pub fn is_json(self) -> bool {
        match self {
            Self::BfclSimple => true,
            Self::ChainSum | Self::Bbh => false,
        }
    }

    /// The lines that the optimizer proposes.
    pub fn planted(self) -> &'static [Planted] {
        match self {
            Self::ChainSum => &CHAIN_SUM,
            Self::BfclSimple => &BFCL_SIMPLE,
            Self::Bbh => &BBH,
        }
    }
}

const CHAIN_SUM: [Planted; 13] = [
    (Intent::Helpful, "Reply with the final number alone: no words, no units, no steps."),
    (Intent::Helpful, "Write digits, and a minus sign directly before them where the result is negative."),
    (Intent::Helpful, "Do not repeat the problem."),
    (Intent::Helpful, "Work from left to right, one sign at a time."),
    (Intent::Harmful, "Show every step of the calculation before the result."),
    (Intent::Harmful, "Write the result as a whole sentence that begins with \"The result is\"."),
    (Intent::Harmful, "Write the result in English words instead of digits."),
    (Intent::Harmful, "Leave out the minus sign of a negative result."),
    (Intent::Harmful, "Add 1 to the result before you write it."),
    (Intent::Neutral, "Read the whole problem first."),
    (Intent::Neutral, "All numbers are whole numbers."),
    (Intent::Neutral, "Take care with long problems."),
    (Intent::Neutral, "The problems come from a worksheet."),
];

const BFCL_SIMPLE: [Planted; 13] = [
    (
        Intent::Helpful,
        "Reply with one JSON object alone, with the keys \"name\" and \"arguments\": no text around it.",
    ),
    (Intent::Helpful, "\"arguments\" is an object whose keys are names of parameters."),
    (Intent::Helpful, "Copy the name of the function exactly, with its dots and underscores."),
    (Intent::Helpful, "Leave out optional parameters that the request does not mention."),
    (Intent::Helpful, "Write integers and floats as numbers, without quotation marks."),
    (Intent::Harmful, "Write the call as Python code, such as f(x=1)."),
    (Intent::Harmful, "Explain in a sentence what the function does, and do not write JSON."),
    (Intent::Harmful, "Put the value of every argument into a list."),
    (
        Intent::Harmful,
        "Fill in every optional parameter, and guess values that the request does not mention.",
    ),
    (Intent::Harmful, "Translate the names of the parameters to German."),
    (Intent::Neutral, "Read the whole request first."),
    (Intent::Neutral, "There is always exactly one function."),
    (Intent::Neutral, "Requests are written by people."),
];

const BBH: [Planted; 12] = [
    (Intent::Helpful, "Reply with the answer alone: no explanation, no punctuation after it."),
    (Intent::Helpful, "Where there are options, reply with the letter in parentheses, such as (B)."),
    (Intent::Helpful, "Write counts as digits."),
    (Intent::Helpful, "Answer Yes or No, True or False exactly as the question writes them."),
    (Intent::Harmful, "Explain every step before the answer."),
    (Intent::Harmful, "Write the answer as a whole sentence."),
    (Intent::Harmful, "Reply with the text of an option instead of its letter."),
    (Intent::Harmful, "Write counts as words."),
    (Intent::Harmful, "Where you are not sure, reply with \"unsure\"."),
    (Intent::Neutral, "Read the whole question first."),
    (Intent::Neutral, "Take care with long questions."),
    (Intent::Neutral, "The questions are in English."),
];
