//! Multiple choice: which of the choices an answer names.

mod phrases;

use super::Score;
use super::text::{collapsed, in_answer_tag};
pub(crate) use phrases::up_to_brace;
use phrases::{answer_member, before_reason, behind_lead_in, called_answer, states, typed};
use serde::{Deserialize, Serialize};
use skill_core::decoration::{of_cell, undecorated};
use skill_core::random::PyRandom;
use skill_core::text::composed;

/// The labels that choices without labels get, in order.
const LABELS: [&str; 26] = [
    "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S", "T", "U",
    "V", "W", "X", "Y", "Z",
];

/// What follows a label, as in `B) Paris`.
const AFTER_LABEL: [char; 5] = ['.', ')', ':', ']', '}'];

/// What may also be between a label and its text, as in `B - Paris`.
const BETWEEN: [char; 5] = ['-', '–', '—', ',', '='];

/// One choice of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What it is called, such as `B`.
    pub label: String,
    /// What it says.
    pub text: String,
}

impl Choice {
    /// The label of the choice at this index, from 0; past `Z` it is a number from 1.
    pub fn label_at(index: usize) -> String {
        LABELS.get(index).map_or_else(|| (index + 1).to_string(), |label| (*label).to_owned())
    }
}

skill_core::named_enum! {
    /// By what an answer may name a choice.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum ChoiceBy {
        /// By its label or by its text.
        #[default]
        Either = "either",
        /// By its label alone: in any case, without `.`, `)` or `:` behind it.
        Label = "label",
        /// By its text alone.
        Text = "text",
        /// As SkillOpt reads LiveMathematicianBench: by its label as [`Self::Label`] has it, else by its text in any case,
        /// else by a label that is the first word.
        SkillOpt = "skillopt",
    }
}

/// Whether an answer names the right choice; `hard` and `soft` are 1 or 0.
///
/// ```
/// use skill_envs::score::{Choice, ChoiceBy, choice};
///
/// let choices = ["Lyon", "Paris"].map(str::to_owned);
/// let choices: Vec<Choice> = choices
///     .into_iter()
///     .enumerate()
///     .map(|(index, text)| Choice { label: Choice::label_at(index), text })
///     .collect();
/// assert_eq!(choice("(b) Paris", &choices, 1, ChoiceBy::Either).hard, 1.0);
/// assert_eq!(choice("A", &choices, 1, ChoiceBy::Either).hard, 0.0);
/// ```
pub fn choice(prediction: &str, choices: &[Choice], correct: usize, by: ChoiceBy) -> Score {
    if chosen(prediction, choices, by) == Some(correct) { Score::RIGHT } else { Score::default() }
}

/// The index of the choice that an answer names; `None` if it names none.
///
/// Labels are looked for first, then texts, as [`named_choice`] does it with those of the data. A label may be in
/// brackets, quotes, emphasis or LaTeX, in any case, with the choice's text behind it or `Answer:` before it; where
/// label and text are of two choices, the answer names none. Texts are the same in every form of Unicode.
pub fn chosen(prediction: &str, choices: &[Choice], by: ChoiceBy) -> Option<usize> {
    match by {
        ChoiceBy::Label => by_bare_label(prediction, choices),
        ChoiceBy::SkillOpt => by_skillopt(prediction, choices),
        ChoiceBy::Text => by_text(prediction, choices),
        ChoiceBy::Either => {
            let named = |text: &str| {
                by_label(text, choices)
                    .or_else(|| by_text(text, choices))
                    .or_else(|| by_label_and_text(text, choices))
            };
            let typed = typed(prediction);
            let prediction = &*typed;
            let plain = without_marks(prediction);
            named(prediction)
                .or_else(|| named(&plain))
                .or_else(|| named(in_answer_tag(&plain)))
                .or_else(|| named(&undecorated(in_answer_tag(&plain))?))
                .or_else(|| led(&plain, &named))
                .or_else(|| named(&answer_member(prediction)?))
                .or_else(|| said_once(&plain, &named))
                .or_else(|| reasoned(&plain, &named))
        }
    }
}

/// The choice that a text with an explanation names: the last one that it gives in a box; else that of the last line which
/// begins with the statement that this is the answer, as behind options that are repeated; else the only one that lines
/// name which say nothing else; else the last one that a sentence calls its answer.
fn said_once(text: &str, named: &dyn Fn(&str) -> Option<usize>) -> Option<usize> {
    if let Some((_, boxed)) = text.rsplit_once("\\boxed{") {
        let inside = up_to_brace(boxed).unwrap_or(boxed);
        return named(inside).or_else(|| named(inside.split(':').next()?));
    }
    let only = |found: Vec<usize>| {
        let first = *found.first()?;
        found.iter().all(|index| *index == first).then_some(first)
    };
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if lines().count() < 2 && !states(text) {
        return None;
    }
    let stated = lines().filter(|line| states(line)).filter_map(|line| led(line, named)).next_back();
    let alone = || only(lines().filter_map(|line| named(line).or_else(|| led(line, named))).collect());
    let of_call = |line: &str| {
        let called = called_answer(line)?;
        named(called).or_else(|| led(called, named)).or_else(|| named(before_reason(called)?))
    };
    let called = || lines().filter_map(of_call).next_back();
    stated.or_else(alone).or_else(called)
}

/// The choice in front of its reason, in a text of one line: `C because A and B are wrong`.
fn reasoned(text: &str, named: &dyn Fn(&str) -> Option<usize>) -> Option<usize> {
    let head = before_reason(text.trim()).filter(|_| text.trim().lines().count() == 1)?;
    named(head).or_else(|| led(head, named))
}

/// The choice that is named behind words such as `The correct answer is option`.
fn led(text: &str, named: &dyn Fn(&str) -> Option<usize>) -> Option<usize> {
    let behind = behind_lead_in(text)?;
    named(behind).or_else(|| named(behind_lead_in(behind)?))
}

/// The index of the choice that data name: as an answer does, by its label first, then by its text.
pub fn named_choice(name: &str, choices: &[Choice]) -> Option<usize> {
    chosen(name, choices, ChoiceBy::Either)
}

/// The choices whose text is the label of another one: an answer with these words names the other.
pub fn texts_that_are_labels(choices: &[Choice]) -> impl Iterator<Item = &Choice> {
    choices.iter().filter(|choice| {
        let text = plain_text(&choice.text);
        plain_text(&choice.label) != text && choices.iter().any(|other| plain_text(&other.label) == text)
    })
}

/// The choices in the order that belongs to this seed and id, relabelled, and where the right one is then.
///
/// The order is that of SkillOpt: CPython's `random.Random(s).shuffle` with `s` made of the first 16 hexadecimal
/// digits of the SHA-256 of `SEED:ID`.
pub fn shuffled_choices(choices: &[Choice], correct: usize, seed: u64, id: &str) -> (Vec<Choice>, usize) {
    let digest = skill_core::canonical::hex_sha256(format!("{seed}:{id}").as_bytes());
    let head: String = digest.chars().take(16).collect();
    let mut order: Vec<usize> = (0..choices.len()).collect();
    PyRandom::new(u64::from_str_radix(&head, 16).expect("16 hexadecimal digits")).shuffle(&mut order);
    let shuffled = order
        .iter()
        .filter_map(|from| choices.get(*from))
        .enumerate()
        .map(|(index, choice)| Choice { label: Choice::label_at(index), text: choice.text.clone() })
        .collect();
    (shuffled, order.iter().position(|from| *from == correct).unwrap_or(correct))
}

fn bare_label(text: &str) -> String {
    text.trim().to_uppercase().trim_end_matches(['.', ')', ':']).to_owned()
}

fn by_bare_label(prediction: &str, choices: &[Choice]) -> Option<usize> {
    let label = bare_label(prediction);
    choices.iter().position(|choice| bare_label(&choice.label) == label)
}

/// As `parse_choice_label` in SkillOpt's `envs/livemathematicianbench/evaluator.py` reads an answer.
fn by_skillopt(prediction: &str, choices: &[Choice]) -> Option<usize> {
    let answer = prediction.trim().to_lowercase();
    let says = |choice: &Choice| {
        let text = choice.text.trim().to_lowercase();
        !text.is_empty() && text == answer
    };
    by_bare_label(prediction, choices)
        .or_else(|| choices.iter().position(says))
        .or_else(|| by_bare_label(prediction.split_whitespace().next()?, choices))
}

fn by_text(prediction: &str, choices: &[Choice]) -> Option<usize> {
    let prediction = plain_text(prediction);
    let mut found = choices
        .iter()
        .enumerate()
        .filter(|(_, choice)| plain_text(&choice.text) == prediction)
        .map(|(index, _)| index);
    // Two choices that say the same are told apart by their labels alone.
    found.next().filter(|_| found.next().is_none())
}

fn by_label(prediction: &str, choices: &[Choice]) -> Option<usize> {
    let prediction = composed(prediction);
    let bare = unwrapped(&prediction).trim_start_matches(['(', '[', '{']).trim_end_matches(AFTER_LABEL);
    let label = unwrapped(bare).to_lowercase();
    choices
        .iter()
        .position(|choice| !label.is_empty() && composed(choice.label.trim()).to_lowercase() == label)
}

/// A text without the marks of emphasis and code in it, as in `**Answer:** B`.
fn without_marks(text: &str) -> String {
    skill_core::decoration::without_emphasis(&text.replace("**", "").replace("__", "").replace('`', ""))
}

/// `B) Paris`: the label, then exactly the text that belongs to it.
fn by_label_and_text(prediction: &str, choices: &[Choice]) -> Option<usize> {
    let prediction = composed(prediction);
    let lower = unwrapped(&prediction).trim_start_matches(['(', '[', '{', '$']).to_lowercase();
    choices.iter().position(|choice| {
        let label = composed(choice.label.trim()).to_lowercase();
        let rest = lower.strip_prefix(&label).filter(|_| !label.is_empty());
        rest.is_some_and(|rest| {
            let behind = rest.trim_start_matches('$').trim_start();
            let is_apart =
                behind.len() < rest.len() || behind.starts_with(AFTER_LABEL) || behind.starts_with(BETWEEN);
            let text = behind.trim_start_matches(AFTER_LABEL).trim_start_matches('$').trim_start();
            // What is between may also be the sign of a number.
            let is_text =
                |text: &str| !text.trim().is_empty() && plain_text(text) == plain_text(&choice.text);
            is_apart && (is_text(text) || text.strip_prefix(BETWEEN).is_some_and(is_text))
        })
    })
}

/// A text as choices are compared: white space collapsed, no case, no period at the end, no decoration around it, in one
/// form of Unicode.
fn plain_text(text: &str) -> String {
    let text = of_cell(text);
    let text = composed(&text);
    collapsed(&unwrapped(&text).trim_end_matches('.').to_lowercase())
}

/// A text without the quotes, brackets, emphasis and commands of LaTeX around it.
fn unwrapped(text: &str) -> &str {
    const PAIRS: [(&str, &str); 24] = [
        ("**", "**"),
        ("*", "*"),
        ("__", "__"),
        ("_", "_"),
        ("`", "`"),
        ("\"", "\""),
        ("'", "'"),
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("“", "”"),
        ("‘", "’"),
        ("«", "»"),
        ("「", "」"),
        ("$$", "$$"),
        ("$", "$"),
        ("\\(", "\\)"),
        ("\\[", "\\]"),
        ("\\boxed{", "}"),
        ("\\text{", "}"),
        ("\\textbf{", "}"),
        ("\\mathrm{", "}"),
        ("\\mathbf{", "}"),
        ("\\fbox{", "}"),
    ];
    let mut text = text.trim().trim_end_matches('.').trim_end();
    loop {
        let inner = PAIRS.iter().find_map(|(open, close)| {
            let inner = text.strip_prefix(open)?.strip_suffix(close)?;
            is_one(inner, open, close).then_some(inner.trim())
        });
        match inner {
            Some(inner) if !inner.is_empty() => text = inner,
            Some(_) | None => return text,
        }
    }
}

/// True if the marks around this text belong together: those of `(a) or (b)` do not.
fn is_one(inner: &str, open: &str, close: &str) -> bool {
    let (Some(open), Some(close)) = (open.chars().next_back(), close.chars().next_back()) else {
        return false;
    };
    if open == close {
        return !inner.contains(close);
    }
    let mut depth = 0_usize;
    inner.chars().all(|character| {
        if character == open {
            depth += 1;
        } else if character == close {
            let Some(less) = depth.checked_sub(1) else { return false };
            depth = less;
        }
        true
    }) && depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(texts: &[&str]) -> Vec<Choice> {
        let numbered = texts.iter().enumerate();
        numbered
            .map(|(index, text)| Choice { label: Choice::label_at(index), text: (*text).to_owned() })
            .collect()
    }

    #[track_caller]
    fn check(prediction: &str, by: ChoiceBy, expect: Option<usize>) {
        let choices = choices(&["Lyon", "Paris", "The Hague", "A", "x (y)"]);
        assert_eq!(chosen(prediction, &choices, by), expect, "{prediction:?} {by:?}");
    }

    #[test]
    fn an_answer_names_a_choice_in_every_decoration() {
        for prediction in [
            "<b>B</b>",
            "<strong>B</strong>.",
            "<answer>B</answer>",
            "<answer>**B**</answer>",
            "=\"B\"",
            "The correct answer is option **B**.",
            "The answer is option B.",
            "The answer is B because A is in the south.",
            "B because A and C are wrong",
            "B, since A is in the south",
            "The correct answer is (B) Paris, since A is in the south.",
            "B。",
            "答案是B。",
            "答案：B",
            "答案为 B",
            "Antwort: **B**",
            "Die richtige Antwort ist B.",
            "Réponse : B",
            "La respuesta correcta es B.",
            "正解はB",
            "**Antwort: B) Paris**",
        ] {
            check(prediction, ChoiceBy::Either, Some(1));
        }
        for prediction in
            ["Antworten B", "答案", "The answer is A or B because both are.", "<answer></answer>"]
        {
            check(prediction, ChoiceBy::Either, None);
        }
        let escaped = choices(&["AT&amp;T", "O&#39;Neill"]);
        for (prediction, expect) in [("AT&T", 0), ("AT&amp;T", 0), ("A. AT&T", 0), ("**O'Neill**", 1)] {
            assert_eq!(chosen(prediction, &escaped, ChoiceBy::Either), Some(expect), "{prediction}");
        }
    }

    #[test]
    fn an_answer_names_a_choice() {
        use ChoiceBy::{Either, Label, Text};
        for prediction in
            ["B", "b", " B. ", "(B)", "[b]", "**B**", "B)", "b:", "Paris", "paris.", "\"Paris\""]
        {
            check(prediction, Either, Some(1));
        }
        for prediction in ["B) Paris", "B. paris", "(B) Paris", "B: Paris.", "**B. Paris**", "[B] Paris"] {
            check(prediction, Either, Some(1));
        }
        check("the  hague", Either, Some(2));
        check("x (y)", Either, Some(4));
        // A text that is also a label counts as the label.
        check("A", Either, Some(0));
        for prediction in [
            "$B$",
            "$\\text{B}$",
            "\\boxed{B}",
            "\\(B\\)",
            "\\[\\boxed{\\text{B}}\\]",
            "$$B$$",
            "$(B)$",
            "\\textbf{(B)}.",
            "{B}",
            "__B__",
            "B - Paris",
            "B – Paris",
            "B — Paris",
            "B, Paris",
            "B Paris",
            "$B$: Paris",
            "**B** - Paris",
            "(B) - Paris",
            "Option B",
            "option (b)",
            "Option B: Paris",
            "Choice B.",
            "Answer: B",
            "answer b",
            "**Answer:** B",
            "**Answer: B**",
            "The answer is B",
            "The answer is: (B) Paris.",
            "The correct answer is **B**.",
            "Final answer: $\\boxed{B}$",
            "Answer: Paris",
            "\u{feff}B",
            "\u{200b}Paris",
        ] {
            check(prediction, Either, Some(1));
        }
        for prediction in ["", "F", "B) Lyon", "Par", "Paris and Lyon", "B or C", "Berlin", "()"] {
            check(prediction, Either, None);
        }
        for prediction in [
            "None of the above",
            "Don't know",
            "A or B",
            "Not B",
            "Answer: A or B",
            "Option",
            "Answer:",
            "Options B",
            "B - Lyon",
            "BParis",
            "$A$ or $B$",
            "The answer is not B",
            "Neither A nor B",
            "\\boxed{A, B}",
        ] {
            check(prediction, Either, None);
        }
        for prediction in [
            "B\n\nBecause it is the capital.",
            "Answer: B\n\nExplanation: it is the capital, not C.",
            "**B) Paris**\n\nIt lies on the Seine.",
            "It lies on the Seine.\n\nThe best answer is B.",
            "I think (C) is tempting, but the answer is (B).",
            "{\"answer\": \"B\"}",
            "\u{ff22}",
            "The final answer is: $\\boxed{B}$",
            "It is \\boxed{A}, no: \\boxed{B}",
            "\\boxed{B: Paris}",
            "B\n\nNot C, as some say.",
            "So the correct option is B.",
            "So it is \\boxed{\\text{B}} in the end.",
            "A) Lyon\nB) Paris\nC) The Hague\n\nThe correct answer is B.",
            "The answer is A.\nThe answer is B.",
        ] {
            check(prediction, Either, Some(1));
        }
        for prediction in ["A, C and D are wrong.", "B or C", "A\n\nB", "The answer is B or C."] {
            check(prediction, Either, None);
        }
        for prediction in ["B", "b", " B. ", "B)", "b:"] {
            check(prediction, Label, Some(1));
        }
        for prediction in ["(B)", "Paris", "B) Paris", ""] {
            check(prediction, Label, None);
        }
        check("A", Label, Some(0));
        check("Paris", Text, Some(1));
        check("B", Text, None);
    }

    /// Replies with the choice that SkillOpt 0.2.0 reads in them, recorded by running it.
    #[cfg(feature = "tasks")]
    const RECORDED: &str = include_str!("../../tests/data/skillopt/livemath.json");

    #[cfg(feature = "tasks")]
    #[test]
    fn replies_are_read_as_skillopt_reads_them() {
        let recorded: serde_json::Value = serde_json::from_str(RECORDED).unwrap();
        let choices: Vec<Choice> = serde_json::from_value(recorded["choices"].clone()).unwrap();
        let extraction = crate::tasks::Extraction::LastTag { tag: "answer".to_owned() };
        let extractor = crate::tasks::Extractor::new(extraction).unwrap();
        let cases = recorded["cases"].as_array().unwrap();
        assert!(cases.len() > 40);
        for case in cases {
            let reply = case["reply"].as_str().unwrap();
            let answer = extractor.extract(reply).answer;
            let named = chosen(&answer, &choices, ChoiceBy::SkillOpt).and_then(|index| choices.get(index));
            assert_eq!(named.map(|choice| choice.label.as_str()), case["right"].as_str(), "{reply:?}");
        }
    }

    #[test]
    fn choices_that_say_the_same_are_told_apart_by_label() {
        let choices = choices(&["same", "same"]);
        assert_eq!(chosen("same", &choices, ChoiceBy::Either), None);
        assert_eq!(chosen("B", &choices, ChoiceBy::Either), Some(1));
        assert_eq!(named_choice("b", &choices), Some(1));
    }

    #[test]
    fn signs_of_a_text_are_its_own() {
        let choices = choices(&["5", "-5", "a**b", "__init__", "Yahoo!", "Yahoo"]);
        for (words, expect) in [
            ("B: -5", 1),
            ("B - 5", 1),
            ("-5", 1),
            ("A - 5", 0),
            ("C) a**b", 2),
            ("a**b", 2),
            ("D) `__init__`", 3),
            ("**D)** __init__", 3),
            ("Yahoo!", 4),
            ("E. Yahoo!", 4),
            ("yahoo", 5),
        ] {
            let found = chosen(words, &choices, ChoiceBy::Either);
            assert_eq!(found, (words != "B - 5").then_some(expect), "{words:?}");
        }
    }

    #[test]
    fn data_and_answers_name_the_same_choice() {
        let texts = ["one", "2", "4", "3"];
        let numbered =
            |(text, number): (&str, usize)| Choice { label: number.to_string(), text: text.to_owned() };
        let choices: Vec<Choice> = texts.into_iter().zip(1..).map(numbered).collect();
        for words in ["1", "2", "3", "4", "one", "3) 4", "(4)", "$3$"] {
            let named = named_choice(words, &choices);
            assert!(named.is_some(), "{words:?}");
            assert_eq!(named, chosen(words, &choices, ChoiceBy::Either), "{words:?}");
        }
        assert_eq!(named_choice("4", &choices), Some(3));
        let doubtful: Vec<&str> =
            texts_that_are_labels(&choices).map(|choice| choice.text.as_str()).collect();
        assert_eq!(doubtful, ["4", "3"]);
        let composed = [("A", "e\u{301}quipe"), ("B", "x")];
        let composed =
            composed.map(|(label, text)| Choice { label: label.to_owned(), text: text.to_owned() });
        assert_eq!(chosen("\u{e9}quipe", &composed, ChoiceBy::Text), Some(0));
    }

    #[test]
    fn labels_go_on_behind_the_alphabet() {
        assert_eq!([0, 25, 26].map(Choice::label_at), ["A", "Z", "27"].map(str::to_owned));
    }

    #[test]
    fn a_shuffle_keeps_the_right_choice() {
        let before = choices(&["tA", "tB", "tC", "tD", "tE"]);
        let (after, correct) = shuffled_choices(&before, 2, 42, "202511:3");
        let texts: Vec<&str> = after.iter().map(|choice| choice.text.as_str()).collect();
        assert_eq!(texts, ["tA", "tE", "tB", "tC", "tD"]);
        assert_eq!(correct, 3);
        assert_eq!(shuffled_choices(&[], 0, 1, "x"), (Vec::new(), 0));
    }
}
