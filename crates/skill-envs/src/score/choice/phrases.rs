//! What a reply says around the choice: lead-ins, statements, reasons, tags and JSON.

/// What an answer may begin with before it names a choice: in each language the longest first.
const LEAD_INS: [&str; 43] = [
    "die richtige antwort lautet",
    "die richtige antwort ist",
    "die antwort lautet",
    "die antwort ist",
    "richtige antwort",
    "antwort",
    "la respuesta correcta es",
    "la respuesta es",
    "respuesta correcta",
    "respuesta",
    "la bonne réponse est",
    "la réponse correcte est",
    "la réponse est",
    "bonne réponse",
    "réponse",
    "a resposta correta é",
    "a resposta é",
    "resposta",
    "risposta corretta",
    "risposta",
    "正确答案是",
    "答案是",
    "答案为",
    "答案",
    "正解は",
    "答えは",
    "정답은",
    "정답",
    "the correct answer is",
    "the correct option is",
    "the correct choice is",
    "the right answer is",
    "the final answer is",
    "my final answer is",
    "the answer is",
    "correct answer:",
    "final answer:",
    "my answer is",
    "answer is",
    "answer:",
    "answer",
    "option",
    "choice",
];

/// With what a sentence says which choice is its answer.
const STATEMENTS: [&str; 4] = ["answer is", "answer:", "choice is", "option is"];

/// True for a text that says which choice is its answer.
pub(super) fn states(text: &str) -> bool {
    let lower = text.to_lowercase();
    STATEMENTS.iter().any(|words| lower.contains(words))
}

/// The text before the brace that closes the one before it; `None` if no brace does.
pub(crate) fn up_to_brace(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let end = text.char_indices().find(|(_, sign)| {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => return true,
            '}' => depth -= 1,
            _ => {}
        }
        false
    });
    text.get(..end?.0)
}

/// What a line calls its answer: `The best answer is C.`, `.., so the answer is (C)`, up to the end of the sentence.
pub(super) fn called_answer(line: &str) -> Option<&str> {
    let lower = line.to_lowercase();
    // Only where lower case has as many bytes is a place in it one in the line.
    let at = STATEMENTS.iter().filter_map(|end| Some(lower.rfind(end)? + end.len())).max()?;
    let rest = line.get(at..).filter(|_| lower.len() == line.len())?;
    let rest = rest.trim_start_matches(|sign: char| sign.is_whitespace() || sign == ':');
    let end = rest.match_indices(['.', ',', ';']).find(|(at, sign)| {
        rest.get(at + sign.len()..)
            .is_none_or(|behind| behind.is_empty() || behind.starts_with(char::is_whitespace))
    });
    // A comma would cut a list of several choices.
    let head = end.and_then(|(at, sign)| rest.get(..at).filter(|_| sign != ",")).unwrap_or(rest);
    Some(head.trim())
}

/// What is before the words that give a reason: `B because A is tea`.
pub(super) fn before_reason(text: &str) -> Option<&str> {
    [" because ", " since ", " as ", " – ", " — "]
        .iter()
        .filter_map(|words| Some(text.split_once(words)?.0))
        .min_by_key(|head| head.len())
        .map(|head| head.trim_end_matches([',', ';', ' ']))
}

/// The member of a JSON answer such as `{"answer": "C"}` that says it.
pub(super) fn answer_member(text: &str) -> Option<String> {
    if !text.contains('{') {
        return None;
    }
    let found = crate::score::parse_json_answer(text)?;
    ["answer", "choice", "label", "final_answer", "option"].iter().find_map(|name| {
        match found.value.get(*name)? {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_) => None,
        }
    })
}

/// A text with full-width letters and signs as they are typed.
pub(super) fn typed(text: &str) -> std::borrow::Cow<'_, str> {
    let is_wide = |character: char| ('\u{ff01}'..='\u{ff5e}').contains(&character) || character == '。';
    if !text.contains(is_wide) {
        return text.into();
    }
    let plain = |character: char| match is_wide(character) {
        true if character == '。' => '.',
        true => char::from_u32(u32::from(character) - 0xfee0).unwrap_or(character),
        false => character,
    };
    text.chars().map(plain).collect::<String>().into()
}

/// What follows the words that an answer may begin with; `None` if it begins otherwise.
pub(super) fn behind_lead_in(prediction: &str) -> Option<&str> {
    let trimmed = prediction.trim();
    let (words, behind) = LEAD_INS.iter().find_map(|words| {
        let head = trimmed.get(..words.len()).filter(|head| head.eq_ignore_ascii_case(words))?;
        Some((words, trimmed.get(head.len()..)?))
    })?;
    // The words end where they do: `Options` is no `Option`. Some scripts have no blanks.
    let is_end = behind.starts_with(|next: char| !next.is_alphanumeric());
    let has_blanks = words.chars().next_back().is_some_and(|last| last.is_lowercase() || last == ':');
    (is_end || !has_blanks && !behind.is_empty())
        .then(|| behind.trim_start_matches(|next: char| next.is_whitespace() || next == ':'))
}
