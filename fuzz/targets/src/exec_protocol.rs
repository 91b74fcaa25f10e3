//! Anything as the output of an environment's program.

use serde::de::DeserializeOwned;
use serde_json::Value;
use skill_envs::exec::protocol::{
    HelloAnswer, Line, LineReader, LineTooLong, MAX_EXCERPT_CHARACTERS, ObservationAnswer, Reported,
    RolloutAnswer, body, excerpt, header, hello_protocol,
};

/// Cuts an output into lines and reads each as every answer: the pieces in which it comes make no difference, no byte
/// is lost or made up, and what is shown of a line is short and on one line.
///
/// The first byte says how long a line may be, the second how long the pieces are.
pub fn exec_protocol(data: &[u8]) {
    let [limit, piece, output @ ..] = data else { return };
    let max_line_bytes = usize::from(*limit) * 4 + 1;
    let (lines, end) = read(output, max_line_bytes, output.len().max(1));
    let in_pieces = read(output, max_line_bytes, usize::from(*piece) + 1);
    assert_eq!((&lines, &end.0), (&in_pieces.0, &in_pieces.1.0), "the pieces make a difference");
    let mut left = output;
    for (line, number) in lines.iter().zip(1..) {
        assert_eq!(line.number, number);
        assert!(line.bytes.len() <= max_line_bytes && !line.bytes.contains(&b'\n'));
        left = left.strip_prefix(line.bytes.as_slice()).unwrap().strip_prefix(b"\n").unwrap();
        check_line(&line.bytes);
    }
    match end {
        (None, rest) => assert_eq!(rest, left),
        (Some(too_long), _) => {
            assert_eq!(too_long.number, u64::try_from(lines.len()).unwrap() + 1);
            let n_bytes = left.iter().position(|byte| *byte == b'\n').unwrap_or(left.len());
            assert!(n_bytes > max_line_bytes, "{n_bytes} bytes are not too long");
        }
    }
}

/// The lines, and what came after them: a line that is too long, or bytes without an end.
type Read = (Vec<Line>, (Option<TooLong>, Vec<u8>));

/// A line that is too long; how it begins depends on how much of it had come.
#[derive(Debug)]
struct TooLong {
    number: u64,
}

impl PartialEq for TooLong {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

fn read(output: &[u8], max_line_bytes: usize, piece: usize) -> Read {
    let mut reader = LineReader::new(max_line_bytes);
    let mut lines = Vec::new();
    for piece in output.chunks(piece) {
        reader.space().extend_from_slice(piece);
        loop {
            match reader.next_line() {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => break,
                Err(LineTooLong { number, excerpt }) => {
                    check_excerpt(&excerpt);
                    return (lines, (Some(TooLong { number }), Vec::new()));
                }
            }
        }
        assert_eq!(reader.n_lines(), u64::try_from(lines.len()).unwrap());
    }
    (lines, (None, reader.rest().to_vec()))
}

fn check_line(line: &[u8]) {
    check_excerpt(&excerpt(line));
    let value: Option<Value> = serde_json::from_slice(line).ok();
    let number = |name: &str| value.as_ref().map(|value| value.get(name).and_then(Value::as_u64));
    if let Ok(header) = header(line) {
        // What the header skips may be no JSON; then the answer itself is refused.
        assert!(number("id").is_none_or(|id| header.id == id), "another's answer");
        if let Some(Ok(reported)) = header.error.as_ref().map(Reported::of) {
            assert!(reported.message.len() <= line.len());
        }
    }
    if let Some(version) = hello_protocol(line) {
        assert!(number("protocol").is_none_or(|number| number == Some(version)), "another version");
    }
    // Whatever reads as an answer has a header too.
    for is_answer in [is::<HelloAnswer>(line), is::<ObservationAnswer>(line), is::<RolloutAnswer>(line)] {
        assert!(!is_answer || header(line).is_ok_and(|header| header.id.is_some()));
    }
}

fn is<T: DeserializeOwned>(line: &[u8]) -> bool {
    header(line).is_ok() && body::<T>(line).is_ok()
}

fn check_excerpt(excerpt: &str) {
    // A control character is written with up to ten characters.
    assert!(excerpt.chars().count() <= 10 * MAX_EXCERPT_CHARACTERS + 3);
    assert!(!excerpt.chars().any(char::is_control), "{excerpt:?}");
}
