//! What an agent is told of its program.

use super::lab::{OUTPUT, Ran};
use super::preview::preview;
use super::xlsx::Workbook;
use skill_sandbox::Termination;
use std::sync::Arc;

/// How much of what a program printed is told: the end of its errors, and of the rest.
const ERROR_CHARS: usize = 3_000;
const PRINTED_CHARS: usize = 1_000;

pub(super) const NO_PROGRAM: &str = "The reply has no block of Python code. Reply with the whole program in one block: a \
    line ```python, the program, a line ```.";

/// Why a program has not done what it should; `None` where it wrote a workbook.
pub(super) fn failure(ran: &Ran) -> Option<String> {
    let limit = match ran.verdict {
        Termination::Exited { code: 0 } => match ran.output() {
            None => return Some(format!("the program ended without a workbook at OUTPUT_PATH ({OUTPUT})")),
            Some(bytes) => {
                return Workbook::open(Arc::clone(bytes))
                    .err()
                    .map(|error| format!("what the program saved at OUTPUT_PATH {error}"));
            }
        },
        Termination::Exited { .. } => return Some(format!("the program {}", last_line(ran))),
        Termination::TimedOut => "the program did not end in time",
        Termination::OutOfMemory => "the program ran out of memory",
        Termination::TooManyProcesses => "the program started too many processes or threads",
        Termination::DiskFull => "the program filled its disk",
        Termination::Killed { .. } => "the program was killed",
    };
    Some(limit.to_owned())
}

/// The error that a program ended with, in one line.
fn last_line(ran: &Ran) -> String {
    let last = ran.stderr.trim().lines().next_back().unwrap_or_default().trim();
    if last.is_empty() { ran.verdict.to_string() } else { format!("failed: {last}") }
}

/// What the agent is told of a program that failed.
pub(super) fn of_failure(failure: &str, ran: &Ran) -> String {
    let mut text = format!("It did not work: {failure}.");
    text.push_str(&printed("Its errors end with", &ran.stderr, ERROR_CHARS));
    text.push_str(&printed("It printed", &ran.stdout, PRINTED_CHARS));
    text.push_str("\n\nCorrect the program and reply with all of it.");
    text
}

/// What the agent is told of a workbook that came out.
pub(super) fn of_result(output: &Arc<[u8]>, ran: &Ran, position: &str) -> String {
    format!(
        "The program ran and saved this workbook:\n\n{}{}\n\nThe result is checked in {position}. If it is correct, \
         reply only with DONE. If not, reply with the whole corrected program.",
        preview(Arc::clone(output)),
        printed("It printed", &ran.stdout, PRINTED_CHARS),
    )
}

/// What the agent is told in training of cells that are wrong.
pub(super) fn of_cells(feedback: &str) -> String {
    format!(
        "The program ran, but some cells of the result are wrong:\n\n{feedback}\n\nCorrect the program and reply with \
         all of it."
    )
}

/// True for the word by which an agent leaves its program as it is.
pub(super) fn is_done(reply: &str) -> bool {
    reply.trim().trim_matches(['.', '*', '`', '"']).eq_ignore_ascii_case("done")
}

/// The end of a stream, in a block; nothing where nothing was printed.
pub(super) fn printed(title: &str, text: &str, max_chars: usize) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return String::new();
    }
    let n_chars = text.chars().count();
    let kept: String = text.chars().skip(n_chars.saturating_sub(max_chars)).collect();
    let mark = if n_chars > max_chars { "[the beginning is left out]\n" } else { "" };
    format!("\n\n{title}:\n```\n{mark}{kept}\n```")
}
