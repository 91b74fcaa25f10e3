//! The page: one HTML file with its style and script inside, and nothing that is fetched.
//!
//! Every text goes through the template's escaping; the pictures are made by [`crate::chart`], which writes numbers
//! and words of its own alone.

use crate::chart::curve::Picture;
use crate::chart::runs::Used;
use crate::data::conversation::clip;
use crate::data::rl::RL_METRICS;
use crate::view::{Chart, TriggersView};
use crate::words::{
    counted, dollars, e_value, escaped, grouped, harmless, measured, p_words, percent, points, seconds,
    sentence, split_name, utc,
};
use crate::{
    AnyReport, Matrix, Outcome, Report, ReportError, RunComparison, RunsTable, chart, difference, runs,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{AutoEscape, Environment, State, UndefinedBehavior, Value, context};
use skill_bank::SkillRef;
use skill_core::SkillPartId;

const PAGE: &str = include_str!("../assets/report.html");
const BANK: &str = include_str!("../assets/bank.html");
const SFT: &str = include_str!("../assets/sft.html");
const RL: &str = include_str!("../assets/rl.html");
const TRIGGERS: &str = include_str!("../assets/triggers.html");
const PHASES: &str = include_str!("../assets/phases.html");
const COMPARISON: &str = include_str!("../assets/compare.html");
const MATRIX: &str = include_str!("../assets/matrix.html");
const RUNS: &str = include_str!("../assets/runs.html");
/// What all have in common.
const PARTS: &str = include_str!("../assets/parts.html");

/// The most items of the page of a matrix.
const MAX_MATRIX_ITEMS: usize = 200;

/// The style of the page.
pub const STYLE: &str = include_str!("../assets/style.css");

/// The script of the page, which runs again on a [`content`] that is put into the page later when the document hears
/// the event `report`.
pub const SCRIPT: &str = include_str!("../assets/script.js");

/// The report as one HTML page; that of a run of several phases links to the pages of its phases, which lie in their
/// directories.
///
/// # Errors
///
/// A template that does not fit the data, which is a fault of this crate.
pub fn page(report: &AnyReport) -> Result<String, ReportError> {
    render(report, true)
}

/// What [`page`] shows, without the page around it: to be shown in another page that has [`STYLE`] and [`SCRIPT`].
///
/// # Errors
///
/// As for [`page`].
pub fn content(report: &AnyReport) -> Result<String, ReportError> {
    render(report, false)
}

fn render(report: &AnyReport, is_page: bool) -> Result<String, ReportError> {
    let (template, pictures) = match report {
        AnyReport::Document(of) => {
            let budgets = Value::from_safe_string(chart::budgets(&of.course, &of.steps));
            let by_calls = runs::score_line(&of.spending, |point| Some(point.calls as f64));
            let by_money = runs::score_line(&of.spending, |point| point.cost.filter(|cost| *cost > 0.0));
            let pictures = context! {
                scores => scores(report),
                budgets,
                by_calls => Value::from_safe_string(chart::runs::bands(&by_calls, Used::Calls)),
                by_money => Value::from_safe_string(chart::runs::bands(&by_money, Used::Money)),
            };
            ("report.html", pictures)
        }
        AnyReport::Bank(_) => ("bank.html", context! { scores => scores(report) }),
        AnyReport::Sft(of) => ("sft.html", context! { curves => pictures(of.charts()) }),
        AnyReport::Rl(of) => {
            let types = of.task_types.iter().map(|found| of.chart_of_type(found)).collect();
            let numbers = |row| RL_METRICS.iter().map(|metric| metric.text(row)).collect::<Vec<_>>();
            let pictures = context! {
                curves => pictures(of.charts()),
                type_curves => pictures(types),
                metrics => RL_METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>(),
                numbers => of.iterations.iter().map(numbers).collect::<Vec<_>>(),
            };
            ("rl.html", pictures)
        }
        AnyReport::Phases(_) => ("phases.html", context! {}),
    };
    rendered(
        template,
        context! {
            is_page,
            report => Value::from(Serde(report)),
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
            ..pictures
        },
    )
}

/// Which skills an agent loads as one HTML page, as self-contained as a [`page`]; `name` is that of the directory.
///
/// # Errors
///
/// As for [`page`].
pub fn triggers_page(name: &str, view: &TriggersView) -> Result<String, ReportError> {
    rendered(
        "triggers.html",
        context! {
            name,
            view => Value::from(Serde(view)),
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
        },
    )
}

fn pictures(charts: Vec<Chart>) -> Value {
    Value::from(Serde(&charts.into_iter().map(Picture::from).collect::<Vec<_>>()))
}

/// Two runs side by side as one HTML page, as self-contained as a [`page`]; the reports are those of the two runs.
///
/// # Errors
///
/// As for [`page`].
pub fn comparison_page(comparison: &RunComparison, reports: [&AnyReport; 2]) -> Result<String, ReportError> {
    render_comparison(comparison, reports, true)
}

/// What [`comparison_page`] shows, without the page around it; see [`content`].
///
/// # Errors
///
/// As for [`page`].
pub fn comparison_content(
    comparison: &RunComparison,
    reports: [&AnyReport; 2],
) -> Result<String, ReportError> {
    render_comparison(comparison, reports, false)
}

fn render_comparison(
    comparison: &RunComparison,
    reports: [&AnyReport; 2],
    is_page: bool,
) -> Result<String, ReportError> {
    let [first, second] = reports;
    rendered(
        "compare.html",
        context! {
            is_page,
            comparison => Value::from(Serde(comparison)),
            arms => Value::from(Serde(&comparison.arm_rows())),
            overlaid => overlaid(reports),
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
            scores => reports.map(scores).to_vec(),
            skills => Value::from(Serde(&difference(&first.text(), &second.text()))),
        },
    )
}

/// A table of runs as one HTML page, as self-contained as a [`page`]: the groups, their scores over calls and money, the
/// final scores, and a row for each run.
///
/// # Errors
///
/// As for [`page`].
pub fn runs_page(table: &RunsTable) -> Result<String, ReportError> {
    render_runs(table, true)
}

/// What [`runs_page`] shows, without the page around it; see [`content`].
///
/// # Errors
///
/// As for [`page`].
pub fn runs_content(table: &RunsTable) -> Result<String, ReportError> {
    render_runs(table, false)
}

fn render_runs(table: &RunsTable, is_page: bool) -> Result<String, ReportError> {
    let by_calls = runs::bands(table, |point| Some(point.calls as f64));
    let by_money = runs::bands(table, |point| point.cost);
    let scores = runs::final_scores(table);
    rendered(
        "runs.html",
        context! {
            is_page,
            size => table.size(),
            group_by => &table.group_by,
            groups => Value::from(Serde(&table.group_cells())),
            runs => Value::from(Serde(&table.run_cells())),
            sort_keys => table.sort_keys(),
            remarks => table.remarks(),
            legend => chart::runs::legend(&by_calls),
            n_groups_left_out => table.groups.len().saturating_sub(by_calls.len()),
            by_calls => Value::from_safe_string(chart::runs::bands(&by_calls, Used::Calls)),
            by_money => Value::from_safe_string(chart::runs::bands(&by_money, Used::Money)),
            final_scores => Value::from_safe_string(chart::runs::final_scores(&scores)),
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
        },
    )
}

/// A matrix of measurements as one HTML page, as self-contained as a [`page`]: the scores, and the replies to each item.
///
/// # Errors
///
/// As for [`page`].
pub fn matrix_page(matrix: &Matrix) -> Result<String, ReportError> {
    let shown = matrix.items.get(..MAX_MATRIX_ITEMS).unwrap_or(&matrix.items);
    rendered(
        "matrix.html",
        context! {
            title => matrix.size(),
            matrix => Value::from(Serde(matrix)),
            shown => Value::from(Serde(shown)),
            table => Value::from(Serde(&matrix.cells_table())),
            sort_keys => matrix.sort_keys(),
            remarks => matrix.remarks(),
            style => Value::from_safe_string(STYLE.to_owned()),
            script => Value::from_safe_string(SCRIPT.to_owned()),
        },
    )
}

/// The curves of two runs over each other, where both train a document.
fn overlaid(reports: [&AnyReport; 2]) -> Option<Value> {
    let [AnyReport::Document(first), AnyReport::Document(second)] = reports else { return None };
    let curve = |report: &'_ Report| report.headline.as_ref().map(|headline| headline.selection.before);
    let curves = [(curve(first), first.course.as_slice()), (curve(second), second.course.as_slice())];
    Some(Value::from_safe_string(chart::overlaid(curves)))
}

fn scores(report: &AnyReport) -> Value {
    Value::from_safe_string(match report {
        AnyReport::Document(report) => {
            let baseline = report.headline.as_ref().map_or(0.0, |headline| headline.selection.before);
            chart::scores(baseline, &report.course, &report.steps)
        }
        AnyReport::Bank(report) => chart::rounds(report.baseline, &report.rounds),
        AnyReport::Sft(_) | AnyReport::Rl(_) | AnyReport::Phases(_) => String::new(),
    })
}

/// A page of this template, in which control and bidirectional characters of models and data are shown as escapes.
fn rendered(template: &str, context: Value) -> Result<String, ReportError> {
    let page = environment()?.get_template(template)?.render(context)?;
    Ok(harmless(&page.replace("\r\n", "\n")))
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("percent", |score: f64| percent(score));
    environment.add_filter("points", |difference: f64| points(difference));
    environment.add_filter("score", |score: f64| format!("{score:.4}"));
    environment.add_filter("split_name", |split: &str| split_name(split).to_owned());
    environment.add_filter("measured", |n_active: u64, n_unmeasured: u64| measured(n_active, n_unmeasured));
    environment.add_filter("sentence", |text: &str| sentence(text));
    environment.add_filter("money", dollars);
    environment.add_filter("beginning", |text: &str| clip(text, 80));
    environment.add_filter("tone", |outcome: &str| Outcome::parse(outcome).map_or("", Outcome::tone));
    environment.add_filter("utc", |unix_ms: u64| utc(unix_ms));
    environment.add_filter("seconds", |time: f64| seconds(time));
    environment.add_filter("grouped", |number: u64| grouped(number));
    environment.add_filter("counted", |number: u64, noun: &str| counted(number, noun));
    environment.add_filter("p", |p: f64| p_words(p));
    environment.add_filter("signed", |difference: f64| format!("{:+.1}", difference * 100.0));
    environment.add_filter("e_value", |e: f64| e_value(e));
    environment.add_filter("with_code", |text: &str| Value::from_safe_string(with_code(text)));
    environment.add_filter("skill_id", |named: String| skill_id(&named));
    environment.add_function("section", section);
    environment.add_template("parts.html", PARTS)?;
    environment.add_template("bank.html", BANK)?;
    environment.add_template("sft.html", SFT)?;
    environment.add_template("rl.html", RL)?;
    environment.add_template("phases.html", PHASES)?;
    environment.add_template("triggers.html", TRIGGERS)?;
    environment.add_template("report.html", PAGE)?;
    environment.add_template("compare.html", COMPARISON)?;
    environment.add_template("runs.html", RUNS)?;
    environment.add_template("matrix.html", MATRIX)?;
    Ok(environment)
}

/// A part of a page between `{% call section(title) %}` and `{% endcall %}`: where its data lack what it shows, one line
/// takes its place and the rest of the page is there.
fn section(state: &mut State<'_, '_>, title: &str, body: Kwargs) -> Result<Value, minijinja::Error> {
    let body: Value = body.get("caller")?;
    Ok(body.call(state, &[]).unwrap_or_else(|error| {
        let [title, error] = [title.to_owned(), error.to_string()].map(|text| escaped(&text));
        Value::from_safe_string(format!(
            "<p class=\"warm\" data-left-out><b>{title}</b> is left out: {error}; this is a fault of the program</p>\n"
        ))
    }))
}

/// A sentence with what is between backticks as code; a backtick without another one stays.
fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let n_closed = (parts.len() - 1) / 2 * 2;
    let mut html = String::new();
    for (place, part) in parts.iter().enumerate() {
        let (before, after) = match place {
            place if place > n_closed => ("`", ""),
            place if place % 2 == 1 => ("<code>", "</code>"),
            _ => ("", ""),
        };
        html.extend([before, &escaped(part), after]);
    }
    html
}

/// The skill of a version: `gen_003` of `gen_003@2`.
fn skill_id(named: &str) -> String {
    SkillRef::of_part(&SkillPartId::new(named)).skill.to_string()
}

#[cfg(test)]
mod tests;
