//! The optimizer's side of a prompt: which call it is, and what it holds.

use crate::rewriting::edit_of;
use serde_json::Value;
use skill_core::Edit;

/// A call of the training loop, as the optimizer reads it from the user message.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// Look at trajectories and propose edits.
    Analyse {
        /// The skill that the agent had.
        skill: String,
        /// The most edits to propose.
        budget: usize,
        /// Whether the trajectories succeeded.
        successes: bool,
        /// What the agent did.
        trajectories: Vec<Trajectory>,
    },
    /// Make fewer notes of these.
    Shorten {
        /// The notes, in order.
        notes: Vec<String>,
    },
    /// Make one patch of these; earlier ones have priority.
    Merge {
        /// The edits of all patches, in order.
        edits: Vec<Edit>,
    },
    /// Make one skill of these; earlier ones have priority.
    MergeSkills {
        /// The skill that they were made of.
        skill: String,
        /// The skills, in order.
        candidates: Vec<String>,
    },
    /// Rewrite the skill by suggestions.
    Rewrite {
        /// The skill.
        skill: String,
        /// What the suggestions ask for, in order.
        edits: Vec<Edit>,
    },
    /// Say how many of the edits are to be applied.
    ChooseBudget {
        /// The edits, in order.
        edits: Vec<Edit>,
    },
    /// Choose the most important edits.
    Rank {
        /// How many to choose.
        budget: usize,
        /// The edits, in order.
        edits: Vec<Edit>,
    },
    /// Look at tasks under two skills and write guidance for the agent.
    Guide {
        /// The current skill.
        skill: String,
        /// What is in its region now.
        guidance: Vec<String>,
        /// What the agent fails with the current skill.
        failures: Vec<Trajectory>,
    },
    /// Look at the same and write notes to oneself.
    Note {
        /// What the agent fails with the current skill.
        failures: Vec<Trajectory>,
    },
}

/// What the agent did on one item.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Trajectory {
    /// What was asked.
    pub(super) question: String,
    /// The right answers; any of them would do.
    pub(super) references: Vec<String>,
    /// What the agent answered.
    pub(super) answer: String,
    /// What both sides said.
    pub(super) conversation: String,
}

const DEFAULT_BUDGET: usize = 4;

impl Request {
    /// Reads a user message; `None` if it is none of the calls that the optimizer understands.
    pub(super) fn read(message: &str) -> Option<Self> {
        let (skill, rest) = skill_and_rest(message);
        let rest = without_memory(rest);
        let rest = rest.as_str();
        let heading = |start: &str| rest.lines().any(|line| line.starts_with(start));
        if heading("# Failed trajectories") || heading("# Successful trajectories") {
            return Some(Self::Analyse {
                budget: budget(rest).unwrap_or(DEFAULT_BUDGET),
                successes: heading("# Successful trajectories"),
                trajectories: trajectories(rest),
                skill,
            });
        }
        if heading("# Present guidance") {
            let guidance = block(rest, "<guidance>", "</guidance>");
            let guidance = guidance.lines().map(str::to_owned).collect();
            return Some(Self::Guide { guidance, failures: failures_now(rest), skill });
        }
        if heading("# Your present notes") {
            return Some(Self::Note { failures: failures_now(rest) });
        }
        if heading("# Patches to merge") || heading("# Patch groups to combine") {
            let patches = fenced_json(rest)?;
            let candidates = in_patches(&patches, "skill_candidates");
            if !candidates.is_empty() {
                let text = |candidate: &&Value| candidate.get("new_skill")?.as_str().map(str::to_owned);
                let candidates = candidates.iter().filter_map(text).collect();
                return Some(Self::MergeSkills { skill, candidates });
            }
            return Some(Self::Merge { edits: edits_of_patches(&patches) });
        }
        if heading("# Suggestions to follow") {
            let suggestions = fenced_json(rest)?;
            let edits = suggestions.as_array()?.iter().filter_map(edit_of).collect();
            return Some(Self::Rewrite { skill, edits });
        }
        if heading("# Notes to shorten") {
            return Some(Self::Shorten { notes: serde_json::from_value(fenced_json(rest)?).ok()? });
        }
        if heading("# Proposed edits") {
            return Some(Self::ChooseBudget { edits: numbered_edits(rest, "# Proposed edits") });
        }
        if heading("# Edits") {
            let edits = numbered_edits(rest, "# Edits");
            return Some(Self::Rank { budget: budget(rest).unwrap_or(edits.len()), edits });
        }
        None
    }
}

/// The skill, and the prompt without it: what a skill says is never taken for a part of the prompt.
fn skill_and_rest(message: &str) -> (String, &str) {
    const OPEN: &str = "<skill>\n";
    const CLOSE: &str = "\n</skill>";
    let Some((_, after)) = message.split_once(OPEN) else { return (String::new(), message) };
    let Some((skill, rest)) = after.split_once(CLOSE) else { return (String::new(), after) };
    let is_empty = skill.trim_start().starts_with("(empty:");
    (if is_empty { String::new() } else { skill.to_owned() }, rest)
}

/// The prompt without its block about earlier steps, which quotes edits.
pub(super) fn without_memory(text: &str) -> String {
    let block = text.split_once("# Earlier steps\n").and_then(|(before, block)| {
        let (_, after) = block.split_once("\n</memory>\n")?;
        Some(format!("{before}{}", after.trim_start_matches('\n')))
    });
    block.unwrap_or_else(|| text.to_owned())
}

/// The message without what it says of the skill's size.
pub(super) fn without_size(message: &str) -> String {
    const HEADING: &str = "\n# Size of the skill\n";
    let Some((before, section)) = message.rsplit_once(HEADING) else { return message.to_owned() };
    let rest = section.find("\n#").and_then(|at| section.get(at..)).unwrap_or_default();
    [before, rest].concat()
}

/// The first number below the heading `# Edit budget`.
fn budget(text: &str) -> Option<usize> {
    let (_, section) = text.split_once("# Edit budget")?;
    let line = section.lines().find(|line| !line.trim().is_empty())?;
    line.split_whitespace().find_map(|word| word.trim_end_matches('.').parse().ok())
}

/// What is between two tags.
fn block<'t>(text: &'t str, open: &str, close: &str) -> &'t str {
    let inner = text.split_once(open).and_then(|(_, after)| after.split_once(close));
    inner.map_or("", |(inner, _)| inner.trim())
}

/// Of tasks under two skills, the failed trajectories with the second.
fn failures_now(text: &str) -> Vec<Trajectory> {
    let second = |pair: &&str| {
        pair.contains("category=\"regressed\"") || pair.contains("category=\"persistent_fail\"")
    };
    text.split("<pair ")
        .skip(1)
        .filter(second)
        .filter_map(|pair| trajectories(pair).into_iter().nth(1))
        .collect()
}

fn trajectories(text: &str) -> Vec<Trajectory> {
    let parts = text.split("<trajectory ").skip(1);
    parts.map(|part| trajectory(part.split("</trajectory>").next().unwrap_or(part))).collect()
}

fn trajectory(text: &str) -> Trajectory {
    const LABELS: [&str; 6] =
        ["Task type:", "Task:", "Question:", "Reference answer:", "Agent's answer:", "Why it failed:"];
    let mut found = Trajectory::default();
    let mut label = "";
    let mut values: Vec<(&str, String)> = Vec::new();
    for line in text.lines().skip(1) {
        if label == "Conversation:" {
            found.conversation.push_str(line);
            found.conversation.push('\n');
        } else if line.trim_end() == "Conversation:" {
            label = "Conversation:";
        } else if let Some(next) = LABELS.iter().find(|label| line.starts_with(**label)) {
            label = next;
            values.push((label, line.strip_prefix(label).unwrap_or_default().trim().to_owned()));
        } else if let Some((_, value)) = values.last_mut() {
            value.push('\n');
            value.push_str(line);
        }
    }
    for (label, value) in values {
        let value = value.trim();
        match label {
            "Question:" => found.question = value.to_owned(),
            "Agent's answer:" => found.answer = value.to_owned(),
            "Reference answer:" => {
                found.references = value.split(" | ").map(|v| v.trim().to_owned()).collect();
            }
            _ => {}
        }
    }
    found
}

/// The JSON between the first fence and the last.
fn fenced_json(text: &str) -> Option<Value> {
    let (_, after) = text.split_once("```json")?;
    let (json, _) = after.rsplit_once("```")?;
    serde_json::from_str(json).ok()
}

/// What all patches list under a key, in order.
fn in_patches<'a>(patches: &'a Value, key: &str) -> Vec<&'a Value> {
    let patches = patches.as_array().map(Vec::as_slice).unwrap_or_default();
    patches.iter().filter_map(|patch| patch.get(key)?.as_array()).flatten().collect()
}

fn edits_of_patches(patches: &Value) -> Vec<Edit> {
    let proposals = [in_patches(patches, "edits"), in_patches(patches, "revise_suggestions")].concat();
    proposals.into_iter().filter_map(edit_of).collect()
}

/// The edits below a heading, in blocks that begin with `[0] `.
fn numbered_edits(text: &str, heading: &str) -> Vec<Edit> {
    let Some((_, section)) = text.split_once(heading) else { return Vec::new() };
    let mut blocks: Vec<String> = Vec::new();
    for line in section.lines() {
        let start = format!("[{}]", blocks.len());
        if let Some(rest) = line.strip_prefix(&start) {
            blocks.push(rest.to_owned());
        } else if let Some(block) = blocks.last_mut() {
            block.push('\n');
            block.push_str(line);
        }
    }
    let unreadable = || Edit::append("");
    blocks
        .iter()
        .map(|block| {
            let mut values = serde_json::Deserializer::from_str(block).into_iter::<Value>();
            values.next().and_then(Result::ok).as_ref().and_then(edit_of).unwrap_or_else(unreadable)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANALYSE: &str = "# Current skill\n\n<skill>\n# Desk\n\n# Failed trajectories (9)\n</skill>\n\n# Edit budget\n\n\
        At most 3 edits.\n\n# Failed trajectories (1)\n\n<trajectory index=\"1\" id=\"q-1\" hard=\"0\" soft=\"0.25\">\n\
        Task type: dates\nQuestion: When?\nReference answer: 2025-03-04 | 4 March 2025\n\
        Agent's answer: On March 4.\nCertainly.\nConversation:\n[user] Question: When?\n[assistant] On March 4.\n</trajectory>\n";

    #[test]
    fn an_analyst_call_is_read() {
        let Some(Request::Analyse { skill, budget, successes, trajectories }) = Request::read(ANALYSE) else {
            panic!("an analyst call");
        };
        assert_eq!((skill.as_str(), budget, successes), ("# Desk\n\n# Failed trajectories (9)", 3, false));
        let expect = Trajectory {
            question: "When?".to_owned(),
            references: vec!["2025-03-04".to_owned(), "4 March 2025".to_owned()],
            answer: "On March 4.\nCertainly.".to_owned(),
            conversation: "[user] Question: When?\n[assistant] On March 4.\n".to_owned(),
        };
        assert_eq!(trajectories, vec![expect]);
    }

    #[test]
    fn merges_and_rankings_are_read() {
        let merge = "# Current skill\n\n<skill>\n(empty: there is no skill yet)\n</skill>\n\n\
            # Patches to merge (1, merge level 1)\n\n```json\n[{\"reasoning\": \"\", \"edits\": [{\"op\": \"append\", \
            \"content\": \"a ``` b\"}]}]\n```\n";
        assert_eq!(Request::read(merge), Some(Request::Merge { edits: vec![Edit::append("a ``` b")] }));
        let rank = "# Edit budget\n\nChoose the 2 most important of these 3 edits.\n\n# Edits\n\n\
            [0] {\"op\": \"append\", \"content\": \"a\"}\n[1] {\"op\":\n \"append\", \"content\": \"b\"}\n\n[2] {oops\n";
        let edits = vec![Edit::append("a"), Edit::append("b"), Edit::append("")];
        assert_eq!(Request::read(rank), Some(Request::Rank { budget: 2, edits }));
    }

    #[test]
    fn other_messages_are_none_of_them() {
        for message in ["What is the capital of Belgium?", "", "# Patches to merge (2)\n\nno fence"] {
            assert_eq!(Request::read(message), None, "{message}");
        }
    }
}
