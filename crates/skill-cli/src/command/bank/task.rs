//! `skillrl bank show --goal` and `--item`: what a task would be shown of a bank, and why.

use crate::args::Start;
use crate::args::bank::BankShowArgs;
use crate::banks::{one_line, title_line};
use crate::measuring::find_item;
use crate::start::load_start;
use crate::table::{Column, counted, grouped, harmless, table, terminal_width};
use serde_json::json;
use skillrl::bank::retrieve::{
    LeftOutSkill, Retrieval, RetrievalMode, RetrievalSettings, Section, Selection, ShownSkill, Warning,
    WhyLeftOut,
};
use skillrl::bank::task_type::{Found, TypeTable};
use skillrl::bank::{Bank, SkillRef};
use std::fmt::Write as _;
use std::path::Path;

/// A task that is asked about.
pub(super) struct Task {
    goal: String,
    /// The type that the environment names; empty if it names none.
    task_type: String,
    retrieval: Retrieval,
    /// Whether the configuration ranks by similarity too, which takes a model.
    is_similarity_left_out: bool,
}

impl Task {
    /// The task of the command line; `None` if it names none.
    pub(super) fn of(args: &BankShowArgs) -> crate::Result<Option<Self>> {
        if let Some(goal) = &args.goal {
            return Ok(Some(Self {
                goal: goal.clone(),
                task_type: args.task_type.clone().unwrap_or_default(),
                retrieval: template(RetrievalSettings::default(), TypeTable::default())?,
                is_similarity_left_out: false,
            }));
        }
        match (&args.item, &args.config) {
            (Some(item), Some(config)) => Self::of_item(config, item).map(Some),
            _ => Ok(None),
        }
    }

    fn of_item(config: &Path, item: &str) -> crate::Result<Self> {
        let loaded = load_start(&Start::of_file(config), false)?;
        let env = skillrl::world::environment(&loaded, None)?;
        let (_, item) = find_item(env.as_ref(), Some(item))?;
        let asked = skillrl::skills::retrieval(loaded.config.retrieval.as_ref(), None)?;
        Ok(Self {
            goal: env.goal(item).unwrap_or_default(),
            task_type: item.task_type.clone(),
            retrieval: template(asked.settings().clone(), asked.types().clone())?,
            is_similarity_left_out: asked.settings().mode == RetrievalMode::Embedding,
        })
    }

    /// Prints what the task would be shown, by the type of the task.
    pub(super) fn explain(&self, bank: &Bank, is_json: bool) -> crate::Result<String> {
        let selection = self.retrieval.select(&bank.view(), &self.task_type, &self.goal, None);
        if is_json {
            let value = json!({
                "goal": self.goal,
                "environment_type": self.task_type,
                "settings": self.retrieval.settings(),
                "similarity_left_out": self.is_similarity_left_out,
                "selection": selection,
            });
            return Ok(crate::output::pretty_json(&value) + "\n");
        }
        Ok(self.described(bank, &selection))
    }

    fn described(&self, bank: &Bank, selection: &Selection) -> String {
        let mut text = String::new();
        if !self.goal.is_empty() {
            let _ = writeln!(text, "goal: {}", one_line(&self.goal));
        }
        let _ = writeln!(text, "type: {}", type_line(selection));
        if self.is_similarity_left_out {
            text.push_str(
                "note: the configuration ranks by similarity too, which is left out: nothing is sent\n",
            );
        }
        for warning in &selection.warnings {
            let _ = writeln!(text, "warning: {}", warning_line(warning));
        }
        let _ = writeln!(
            text,
            "\nshown: {}, about {}, {} not measured",
            counted(selection.shown.len() as u64, "skill"),
            counted(selection.tokens, "token"),
            grouped(selection.n_unmeasured as u64)
        );
        text.push_str(&shown_table(bank, &selection.shown));
        if !selection.left_out.is_empty() {
            text.push_str("\nleft out:\n");
            text.push_str(&left_out_table(bank, &selection.left_out));
        }
        if selection.n_other_types > 0 {
            let n_others = counted(selection.n_other_types as u64, "skill");
            let _ = writeln!(text, "\n{n_others} of other types were not considered");
        }
        if !selection.shown.is_empty() {
            let _ = writeln!(text, "\nthe text:\n\n{}", harmless(selection.text.trim_end()));
        }
        text
    }
}

/// Retrieval by type and utility, for which no model is asked.
fn template(settings: RetrievalSettings, types: TypeTable) -> crate::Result<Retrieval> {
    let settings = RetrievalSettings { mode: RetrievalMode::Template, threshold: None, ..settings };
    Ok(Retrieval::new(settings)?.with_types(types))
}

fn type_line(selection: &Selection) -> String {
    let detected = &selection.task_type;
    let name = detected.task_type.as_deref().map_or_else(|| "unknown".to_owned(), one_line);
    match &detected.found {
        Found::Environment => format!("{name}, as the environment says"),
        Found::Words { word } => format!("{name}, by `{}` in the goal", one_line(word)),
        Found::Guess { word } => {
            format!(
                "{name}, a guess by `{}` in the goal, which goals of other types have too",
                one_line(word)
            )
        }
        Found::Fallback => format!("{name}, which is taken where no word of the goal is known"),
        Found::Unknown => name,
        // Other ways explain themselves in the JSON.
        _ => name,
    }
}

fn warning_line(warning: &Warning) -> String {
    match warning {
        Warning::EmptyTaskTier { task_type } => {
            format!("the bank has no active skills for the type `{}`", one_line(task_type))
        }
        Warning::UnknownType => "no skills of a type are shown, since the type is unknown".to_owned(),
        Warning::NoGoal => "the task has no goal, so similarities cannot be computed".to_owned(),
        // Later warnings are in the JSON.
        _ => "see the JSON".to_owned(),
    }
}

fn section_name(section: Section) -> &'static str {
    match section {
        Section::General => "general",
        Section::TaskType => "type",
        Section::Mistakes => "mistakes",
    }
}

fn lower_bound(value: Option<f64>) -> String {
    value.map_or_else(|| "not measured".to_owned(), |bound| format!("{bound:+.3}"))
}

fn title(bank: &Bank, id: &SkillRef) -> String {
    bank.version(id).map(|version| title_line(version.content.title())).unwrap_or_default()
}

fn shown_table(bank: &Bank, shown: &[ShownSkill]) -> String {
    let columns = [
        Column::name("id"),
        Column::name("tier"),
        Column::number("rank"),
        Column::name("utility at least"),
        Column::text("title"),
    ];
    let row = |skill: &ShownSkill| {
        let cut = if skill.is_cut { " (only its beginning)" } else { "" };
        vec![
            harmless(&skill.id.to_string()),
            section_name(skill.section).to_owned(),
            skill.rank.to_string(),
            lower_bound(skill.lower_bound),
            format!("{}{cut}", title(bank, &skill.id)),
        ]
    };
    table(&columns, &shown.iter().map(row).collect::<Vec<_>>(), terminal_width())
}

fn left_out_table(bank: &Bank, left_out: &[LeftOutSkill]) -> String {
    let columns = [
        Column::name("id"),
        Column::name("tier"),
        Column::number("rank"),
        Column::text("why"),
        Column::text("title"),
    ];
    let row = |skill: &LeftOutSkill| {
        let why = match skill.why {
            WhyLeftOut::OverTopK => "enough skills rank higher",
            WhyLeftOut::OverTotal => "enough skills of all tasks and of the type together rank higher",
            WhyLeftOut::OverBudget => "the token budget is used up",
            WhyLeftOut::BelowThreshold => "not similar enough to the goal",
            WhyLeftOut::Empty => "it has no text",
            WhyLeftOut::SameTask => "it is an episode of this task",
        };
        vec![
            harmless(&skill.id.to_string()),
            section_name(skill.section).to_owned(),
            skill.rank.to_string(),
            why.to_owned(),
            title(bank, &skill.id),
        ]
    };
    table(&columns, &left_out.iter().map(row).collect::<Vec<_>>(), terminal_width())
}
