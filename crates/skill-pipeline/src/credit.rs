//! Credit: what is known of single edits, so that a rejected bundle does not condemn each of them.
//!
//! A [`StepCredit`](crate::records::memory::StepCredit) records which edits a step tried, the training items behind each,
//! and the results of the items of its batch. Later steps work on the same items again, which shows for an edit that was
//! kept which of its items are solved since, and which were solved before and fail now. Nothing here knows an item of the
//! selection split: of those the optimizer is told numbers alone.

use crate::records::memory::{EditCredit, MemoryEntry};
use crate::text::one_line;
use skill_core::ItemId;
use std::collections::BTreeMap;

/// The most edits that are told of.
const MOST_EDITS: usize = 12;
/// The most items that are named for an edit.
const MOST_ITEMS: usize = 6;

/// What is known of the edits that were kept, a line each: those first that broke something.
pub(crate) fn kept_edits<'a>(entries: impl Iterator<Item = &'a MemoryEntry> + Clone) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, entry) in entries.clone().enumerate() {
        let Some(credit) = entry.credit.as_ref().filter(|_| entry.action.is_accept()) else { continue };
        let before = outcomes(entries.clone().take(at + 1));
        let after = outcomes(entries.clone().skip(at + 1));
        let changed = |was: bool, is: bool| -> Vec<&ItemId> {
            let is_changed = |(id, now): (&&'a ItemId, &bool)| *now == is && before.get(*id) == Some(&was);
            after.iter().filter(|(id, now)| is_changed((id, now))).map(|(id, _)| *id).collect()
        };
        let (solved, failing, broken) = (changed(false, true), changed(false, false), changed(true, false));
        for EditCredit { edit, items } in &credit.edits {
            let own = |ids: &[&ItemId]| -> Vec<ItemId> {
                ids.iter().filter(|id| items.contains(id)).map(|id| (*id).clone()).collect()
            };
            let parts = [
                ("fixed", own(&solved)),
                ("still failing", own(&failing)),
                ("failing since", broken.iter().map(|id| (*id).clone()).collect()),
            ];
            let told: Vec<String> = parts
                .iter()
                .filter(|(_, ids)| !ids.is_empty())
                .map(|(name, ids)| format!("{name} {}", named(ids)))
                .collect();
            if !told.is_empty() {
                let json = serde_json::to_string(edit).unwrap_or_default();
                lines.push((
                    broken.len(),
                    format!("- Kept since step {}, {}: {json}", entry.step, told.join("; ")),
                ));
            }
        }
    }
    // The newest of equals first.
    lines.reverse();
    lines.sort_by_key(|(n_broken, _)| std::cmp::Reverse(*n_broken));
    lines.into_iter().take(MOST_EDITS).map(|(_, line)| line).collect()
}

/// The last outcome of each item.
fn outcomes<'a>(entries: impl Iterator<Item = &'a MemoryEntry>) -> BTreeMap<&'a ItemId, bool> {
    let mut outcomes = BTreeMap::new();
    for credit in entries.filter_map(|entry| entry.credit.as_ref()) {
        outcomes.extend(credit.solved.iter().map(|id| (id, true)));
        outcomes.extend(credit.failed.iter().map(|id| (id, false)));
    }
    outcomes
}

fn named(ids: &[ItemId]) -> String {
    let shown: Vec<String> = ids.iter().take(MOST_ITEMS).map(|id| one_line(id.as_str())).collect();
    let rest = ids.len().saturating_sub(MOST_ITEMS);
    let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("{}{rest}", shown.join(", "))
}
