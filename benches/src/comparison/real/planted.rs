//! What the scripted optimizer of a real task proposes: lines that help, that harm and that do nothing.
//!
//! They are written by hand before anything was run. The optimizer does not know which is which.

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

/// What a line is meant to do to the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// It helps.
    Help,
    /// It harms.
    Harm,
    /// It does nothing.
    Nothing,
}

/// A planted line and what it is meant to do.
pub type Planted = (Meant, &'static str);

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
    (Meant::Help, "Reply with the final number alone: no words, no units, no steps."),
    (Meant::Help, "Write digits, and a minus sign directly before them where the result is negative."),
    (Meant::Help, "Do not repeat the problem."),
    (Meant::Help, "Work from left to right, one sign at a time."),
    (Meant::Harm, "Show every step of the calculation before the result."),
    (Meant::Harm, "Write the result as a whole sentence that begins with \"The result is\"."),
    (Meant::Harm, "Write the result in English words instead of digits."),
    (Meant::Harm, "Leave out the minus sign of a negative result."),
    (Meant::Harm, "Add 1 to the result before you write it."),
    (Meant::Nothing, "Read the whole problem first."),
    (Meant::Nothing, "All numbers are whole numbers."),
    (Meant::Nothing, "Take care with long problems."),
    (Meant::Nothing, "The problems come from a worksheet."),
];

const BFCL_SIMPLE: [Planted; 13] = [
    (
        Meant::Help,
        "Reply with one JSON object alone, with the keys \"name\" and \"arguments\": no text around it.",
    ),
    (Meant::Help, "\"arguments\" is an object whose keys are names of parameters."),
    (Meant::Help, "Copy the name of the function exactly, with its dots and underscores."),
    (Meant::Help, "Leave out optional parameters that the request does not mention."),
    (Meant::Help, "Write integers and floats as numbers, without quotation marks."),
    (Meant::Harm, "Write the call as Python code, such as f(x=1)."),
    (Meant::Harm, "Explain in a sentence what the function does, and do not write JSON."),
    (Meant::Harm, "Put the value of every argument into a list."),
    (Meant::Harm, "Fill in every optional parameter, with a guess where the request says nothing."),
    (Meant::Harm, "Translate the names of the parameters to German."),
    (Meant::Nothing, "Read the whole request first."),
    (Meant::Nothing, "There is always exactly one function."),
    (Meant::Nothing, "Requests are written by people."),
];

const BBH: [Planted; 12] = [
    (Meant::Help, "Reply with the answer alone: no explanation, no punctuation after it."),
    (Meant::Help, "Where there are options, reply with the letter in parentheses, such as (B)."),
    (Meant::Help, "Write counts as digits."),
    (Meant::Help, "Answer Yes or No, True or False exactly as the question writes them."),
    (Meant::Harm, "Explain every step before the answer."),
    (Meant::Harm, "Write the answer as a whole sentence."),
    (Meant::Harm, "Reply with the text of an option instead of its letter."),
    (Meant::Harm, "Write counts as words."),
    (Meant::Harm, "Where you are not sure, reply with \"unsure\"."),
    (Meant::Nothing, "Read the whole question first."),
    (Meant::Nothing, "Take care with long questions."),
    (Meant::Nothing, "The questions are in English."),
];
