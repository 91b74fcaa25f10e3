//! From findings to edits: where a rule goes, and what is in its way.

use crate::clause::Words;
use crate::conventions::{Convention, HouseRules, Stance, glossary, statements};
use crate::diagnosis::Finding;
use crate::lessons::{WORDY_STILL, glossary_rules, phrase, phrasings};
use skill_core::random::Dice;
use skill_core::{Edit, EditOp};

/// Edits of the skill that would repair these findings, the best supported first; none for what the skill already says.
pub(super) fn propose(skill: &str, counted: &[(Finding, u32)], dice: Dice) -> Vec<Edit> {
    let rules = HouseRules::read(skill);
    let mut edits: Vec<Edit> = Vec::new();
    let mut add = |mut edit: Edit, count: u32| {
        let known = edits.iter().any(|earlier| same_anchor_or_text(earlier, &edit));
        if !known {
            edit.support_count = Some(count);
            edits.push(edit);
        }
    };
    for (finding, count) in counted {
        let stance = finding.convention().and_then(|convention| rules.stance(convention));
        let conflict = conflicting_line(skill, finding);
        if let Some(line) = conflict {
            add(Edit::new(EditOp::Delete, line, ""), *count);
        }
        let missing = match finding {
            Finding::Word { word, .. } => rules.code(word).is_none(),
            Finding::OverAbstained => conflict.is_none(),
            _ => !says_so(skill, finding, stance),
        };
        if missing && !matches!(finding, Finding::Word { .. }) {
            add(place(skill, &phrase(finding, dice), finding, dice), *count);
        } else if *finding == Finding::Wordy
            && conflict.is_none()
            && let Some(edit) = insist_on_the_bare_answer(skill, finding, dice)
        {
            add(edit, *count);
        }
    }
    for (edit, count) in glossary_edits(skill, &rules, counted, dice) {
        add(edit, count);
    }
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.support_count));
    edits
}

/// Where the skill asks for the bare answer and the agent does not give it: other words for the same, or a rule that
/// the skill does not have yet.
fn insist_on_the_bare_answer(skill: &str, finding: &Finding, dice: Dice) -> Option<Edit> {
    let unheeded = phrasings(finding)
        .into_iter()
        .filter_map(|rule| skill.lines().find(|line| line.contains(&rule) && is_unique(skill, line)))
        .next();
    if let Some(line) = unheeded
        && dice.chance("say it in other words", 0.4)
    {
        let others: Vec<String> =
            phrasings(finding).into_iter().filter(|rule| !skill.contains(rule.as_str())).collect();
        let rule = dice.pick("other words", &others)?;
        return Some(Edit::new(EditOp::Replace, line, format!("- {rule}")));
    }
    let rules: Vec<&str> = WORDY_STILL.iter().copied().filter(|rule| !skill.contains(rule)).collect();
    dice.pick("insist", &rules).map(|rule| place(skill, rule, finding, dice))
}

fn same_anchor_or_text(a: &Edit, b: &Edit) -> bool {
    let same_anchor = !a.target.is_empty() && a.target == b.target;
    match (&a.op, &b.op) {
        (EditOp::Replace | EditOp::Delete, EditOp::Replace | EditOp::Delete) => same_anchor,
        _ => !a.content.is_empty() && a.content == b.content,
    }
}

/// Whether the skill says somewhere what would repair the finding.
pub(super) fn says_so(skill: &str, finding: &Finding, stance: Option<Stance>) -> bool {
    match finding.convention() {
        Some(convention) => {
            stance == Some(Stance::Wanted)
                || skill
                    .lines()
                    .flat_map(statements)
                    .any(|s| s.convention == convention && s.stance == Stance::Wanted)
        }
        None => super::lessons::phrasings(finding).iter().any(|rule| skill.contains(rule.as_str())),
    }
}

/// The last line of the skill that makes the agent do wrong.
fn conflicting_line<'a>(skill: &'a str, finding: &Finding) -> Option<&'a str> {
    let convention = finding.convention()?;
    let harmful = match finding {
        Finding::OverAbstained => Stance::Overdone,
        _ => Stance::Unwanted,
    };
    let mut lines = skill.lines().rev().filter(|line| is_unique(skill, line));
    let found = lines.find(|line| {
        statements(line)
            .iter()
            .any(|statement| statement.convention == convention && statement.stance == harmful)
    });
    found.or_else(|| {
        let timid = |line: &&str| Words::of(line).has(&["do not know", "don't know", "not sure", "in doubt"]);
        skill
            .lines()
            .rev()
            .find(|line| *finding == Finding::OverAbstained && is_unique(skill, line) && timid(line))
    })
}

fn is_unique(skill: &str, line: &str) -> bool {
    !line.trim().is_empty() && skill.matches(line).count() == 1
}

/// Words of a field whose codes were seen, and how often.
struct Seen<'a> {
    field: &'a str,
    pairs: Vec<(String, String)>,
    count: u32,
}

/// One rule per field for all words whose codes were seen and the skill does not have.
fn glossary_edits(
    skill: &str,
    rules: &HouseRules,
    counted: &[(Finding, u32)],
    dice: Dice,
) -> Vec<(Edit, u32)> {
    let mut fields: Vec<Seen<'_>> = Vec::new();
    for (finding, count) in counted {
        let Finding::Word { word, code, field } = finding else { continue };
        if rules.code(word).is_some() {
            continue;
        }
        let pair = (word.clone(), code.clone());
        match fields.iter_mut().find(|seen| seen.field == field) {
            Some(seen) => {
                seen.pairs.push(pair);
                seen.count += count;
            }
            None => fields.push(Seen { field, pairs: vec![pair], count: *count }),
        }
    }
    let edits = fields.into_iter().filter_map(|Seen { field, pairs, count }| {
        let rule = dice.pick("glossary", &glossary_rules(field, &pairs)).cloned()?;
        let listed = skill.lines().rev().find(|line| {
            Words::of(line).has(&[field]) && !glossary(line).is_empty() && is_unique(skill, line)
        });
        let content = format!("- {rule}");
        Some((listed.map_or_else(|| at_the_rules(skill, &content), |line| after(line, &content)), count))
    });
    edits.collect()
}

fn after(line: &str, content: &str) -> Edit {
    Edit::new(EditOp::InsertAfter, line, content)
}

/// An edit that brings a rule into the skill: in the place of a line that says nothing, below the other rules, or at
/// the end.
fn place(skill: &str, rule: &str, finding: &Finding, dice: Dice) -> Edit {
    let content = format!("- {rule}");
    if *finding == Finding::Wordy
        && finding.convention().is_some_and(|convention| convention == Convention::BareValue)
        && !WORDY_STILL.contains(&rule)
        && let Some(line) = weak_line(skill)
        && dice.chance("replace the weak line", 0.5)
    {
        return Edit::new(EditOp::Replace, line, rule);
    }
    at_the_rules(skill, &content)
}

/// A line that asks for manners and for nothing that can be checked.
fn weak_line(skill: &str) -> Option<&str> {
    skill.lines().find(|line| {
        Words::of(line).has_stem(&["friendly", "helpful", "polite", "concise"])
            && !line.starts_with('#')
            && statements(line).is_empty()
            && is_unique(skill, line)
    })
}

/// Below the last rule of the section about answers, or at the end of the skill.
fn at_the_rules(skill: &str, content: &str) -> Edit {
    let about_answers = |line: &str| {
        line.starts_with('#')
            && Words::of(line).has(&["answer", "answers", "rules", "format", "form", "style"])
    };
    let Some(heading) = skill.lines().rev().find(|line| about_answers(line) && is_unique(skill, line)) else {
        return Edit::append(content);
    };
    let section =
        skill.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let last_rule = section.filter(|line| line.starts_with("- ") && is_unique(skill, line)).last();
    after(last_rule.unwrap_or(heading), content)
}
