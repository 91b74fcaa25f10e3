//! A skill whose lines remember what put them there, through edits and other changes.

use super::{BlamedLine, LineOrigin};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use skill_core::{Edit, EditRules, EditStatus, RegionKind, SkillDoc, protected_regions};

/// A skill with an origin for each line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrackedSkill {
    skill: SkillDoc,
    origins: Vec<LineOrigin>,
}

impl TrackedSkill {
    /// A skill whose lines all have this origin.
    pub fn new(skill: SkillDoc, origin: LineOrigin) -> Self {
        let origins = skill.source_text().lines().map(|_| origin).collect();
        Self { skill, origins }
    }

    /// The skill.
    pub fn skill(&self) -> &SkillDoc {
        &self.skill
    }

    /// The origin of each line, in order.
    pub fn origins(&self) -> &[LineOrigin] {
        &self.origins
    }

    /// Every line with its number and its origin.
    pub fn lines(&self) -> Vec<BlamedLine> {
        let numbered = self.skill.source_text().lines().zip(&self.origins).zip(1..);
        numbered
            .map(|((text, origin), number)| BlamedLine { number, text: text.to_owned(), origin: *origin })
            .collect()
    }

    /// The skill after an edit of which the run's report says this: lines that it wrote have this origin, all others
    /// keep theirs.
    #[must_use]
    pub fn edited(&self, edit: &Edit, status: Option<EditStatus>, origin: LineOrigin) -> Self {
        let is_fallback = matches!(
            status,
            Some(
                EditStatus::AppliedInsertAfterFallbackAppend
                    | EditStatus::AppliedInsertAfterFallbackBeforeProtectedRegion
            )
        );
        // What was skipped for a reason of the run's settings is not applied here, and an anchor that was missed there
        // is missed here.
        let rules = EditRules { fold_anchors: !is_fallback, ..EditRules::reference() };
        if status.is_some_and(|status| !status.is_applied()) {
            return self.clone();
        }
        let (after, _) = rules.apply(&self.skill, std::slice::from_ref(edit));
        self.changed(after, |_| origin)
    }

    /// Another text: lines that both have keep their origin, the others get one by the protected region that they
    /// are in.
    #[must_use]
    pub fn changed(&self, after: SkillDoc, origin: impl Fn(Option<RegionKind>) -> LineOrigin) -> Self {
        if after == self.skill {
            return self.clone();
        }
        let (old, new) = (lines_of(&self.skill), lines_of(&after));
        let mut origins: Vec<Option<LineOrigin>> = vec![None; new.len()];
        for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                let kept = self.origins.iter().skip(old_index).take(len);
                for (place, kept) in origins.iter_mut().skip(new_index).zip(kept) {
                    *place = Some(*kept);
                }
            }
        }
        let regions = regions_of_lines(&after);
        let origins = origins.into_iter().zip(regions);
        let origins = origins.map(|(kept, region)| kept.unwrap_or_else(|| origin(region))).collect();
        Self { skill: after, origins }
    }

    /// How many lines a text has in common with this one.
    pub(crate) fn n_lines_in_common(&self, text: &SkillDoc) -> usize {
        let ops = capture_diff_slices(Algorithm::Myers, &lines_of(&self.skill), &lines_of(text));
        let equal = ops.iter().map(|op| if let DiffOp::Equal { len, .. } = op { *len } else { 0 });
        equal.sum()
    }

    /// Whether a text is nearer to this skill than to another one.
    pub(crate) fn resembles(&self, text: &SkillDoc, other: &Self) -> bool {
        let distance = |skill: &Self| {
            let common = skill.n_lines_in_common(text);
            skill.origins.len() + text.source_text().lines().count() - 2 * common
        };
        distance(self) < distance(other)
    }
}

fn lines_of(skill: &SkillDoc) -> Vec<&str> {
    skill.source_text().lines().collect()
}

/// The protected region that each line begins in.
fn regions_of_lines(skill: &SkillDoc) -> Vec<Option<RegionKind>> {
    let (text, regions) = (skill.source_text(), protected_regions(skill.source_text()));
    let starts = text.lines().map(|line| line.as_ptr() as usize - text.as_ptr() as usize);
    starts
        .map(|start| regions.iter().find(|region| region.range.contains(&start)).map(|region| region.kind))
        .collect()
}
