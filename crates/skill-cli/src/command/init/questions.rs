//! Questions to a person, a line each; Enter takes what is proposed.

use crate::command::CommandError;
use crate::error::{CliError, OfFile as _};
use std::io::{BufRead, Write};

/// How often a question is asked whose answers cannot be understood.
const MAX_TRIES: usize = 20;

/// Asks on one stream and listens on another.
pub(super) struct Questions<R, W> {
    pub(super) input: R,
    pub(super) output: W,
}

impl<R: BufRead, W: Write> Questions<R, W> {
    /// Says something.
    pub(super) fn say(&mut self, text: &str) -> crate::Result {
        writeln!(self.output, "{text}").map_err(CliError::Output)
    }

    /// A line of text; an empty one is what is proposed, and nothing where nothing is.
    pub(super) fn text(&mut self, question: &str, proposed: &str) -> crate::Result<String> {
        let asked = match proposed {
            "" => write!(self.output, "{question}: "),
            proposed => write!(self.output, "{question} [{proposed}]: "),
        };
        asked.and_then(|()| self.output.flush()).map_err(CliError::Output)?;
        let mut line = String::new();
        if self.input.read_line(&mut line).reading("the answers")? == 0 {
            let error = CommandError::new("the answers ended before the questions did; nothing was written");
            return Err(error.with_hint("--kind says what the tasks are, and nothing is asked").into());
        }
        let line = line.trim();
        Ok(if line.is_empty() { proposed.to_owned() } else { line.to_owned() })
    }

    /// An answer that is understood, or the question again with what is wrong.
    pub(super) fn understood<T>(
        &mut self,
        question: &str,
        proposed: &str,
        understand: impl Fn(&str) -> Result<T, String>,
    ) -> crate::Result<T> {
        for _ in 0..MAX_TRIES {
            let answer = self.text(question, proposed)?;
            match understand(&answer) {
                Ok(understood) => return Ok(understood),
                Err(problem) => self.say(&format!("  {problem}"))?,
            }
        }
        Err(CommandError::new("no answer could be understood; nothing was written").into())
    }

    /// One of several, by its number or its name.
    pub(super) fn choice(
        &mut self,
        question: &str,
        options: &[(&'static str, &str)],
        proposed: &str,
    ) -> crate::Result<&'static str> {
        self.say(question)?;
        for ((name, meaning), number) in options.iter().zip(1..) {
            self.say(format!("  {number:>2}  {name:<12} {meaning}").trim_end())?;
        }
        let names: Vec<&'static str> = options.iter().map(|(name, _)| *name).collect();
        self.understood("Number or name", proposed, |answer| {
            let numbered = answer.parse().ok().and_then(|number: usize| names.get(number.checked_sub(1)?));
            let named = || names.iter().find(|name| **name == answer);
            numbered
                .or_else(named)
                .copied()
                .ok_or_else(|| format!("type a number from 1 to {} or a name", names.len()))
        })
    }

    /// Yes, which Enter says too, or no.
    pub(super) fn agrees(&mut self, question: &str) -> crate::Result<bool> {
        self.understood(question, "yes", |answer| match answer.to_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("yes or no?".to_owned()),
        })
    }
}
