//! The page: one HTML file with its style and script inside, and nothing that is fetched.
//!
//! Every text goes through the template's escaping; the pictures are made by [`crate::chart`], which writes numbers
//! and words of its own alone.

use crate::data::headline::{p_words, percent, points};
use crate::{
    AnyReport, BankReport, PhasesReport, Report, ReportError, RlReport, RunComparison, SftReport, chart,
    difference,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{AutoEscape, Environment, State, UndefinedBehavior, Value, context};
use skill_bank::SkillRef;
use skill_core::SkillPartId;
use skill_core::usage::{dollars, grouped};

const PAGE: &str = include_str!("../assets/report.html");
const BANK: &str = include_str!("../assets/bank.html");
const SFT: &str = include_str!("../assets/sft.html");
const RL: &str = include_str!("../assets/rl.html");
const PHASES: &str = include_str!("../assets/phases.html");
const COMPARISON: &str = include_str!("../assets/compare.html");
/// What both have in common.
const PARTS: &str = include_str!("../assets/parts.html");

/// The style of the page.
pub const STYLE: &str = include_str!("../assets/style.css");

/// The script of the page, which runs again on a [`content`] that is put into the page later when the document hears
/// the event `report`.
pub const SCRIPT: &str = include_str!("../assets/script.js");

/// The report as one HTML page.
///
/// # Errors
///
/// A template that does not fit the data, which is a fault of this crate.
pub fn page(report: &Report) -> Result<String, ReportError> {
    render(report, Part::Page)
}

/// What [`page`] shows, without the page around it: to be shown in another page that has [`STYLE`] and [`SCRIPT`].
///
/// # Errors
///
/// As for [`page`].
pub fn content(report: &Report) -> Result<String, ReportError> {
    render(report, Part::Content)
}

/// The report of a run that trains a bank as one HTML page, as self-contained as a [`page`].
///
/// # Errors
///
/// As for [`page`].
pub fn bank_page(report: &BankReport) -> Result<String, ReportError> {
    render_bank(report, Part::Page)
}

/// What [`bank_page`] shows, without the page around it; see [`content`].
///
/// # Errors
///
/// As for [`page`].
pub fn bank_content(report: &BankReport) -> Result<String, ReportError> {
    render_bank(report, Part::Content)
}

fn render_bank(report: &BankReport, part: Part) -> Result<String, ReportError> {
    let rendered = environment()?.get_template("bank.html")?.render(context! {
        is_page => part == Part::Page,
        report => Value::from(Serde(report)),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        scores => Value::from_safe_string(chart::rounds(report.baseline, &report.rounds)),
    });
    Ok(rendered?)
}

/// The report of a run that fine-tunes as one HTML page, as self-contained as a [`page`].
///
/// # Errors
///
/// As for [`page`].
pub fn sft_page(report: &SftReport) -> Result<String, ReportError> {
    render_sft(report, Part::Page)
}

/// What [`sft_page`] shows, without the page around it; see [`content`].
///
/// # Errors
///
/// As for [`page`].
pub fn sft_content(report: &SftReport) -> Result<String, ReportError> {
    render_sft(report, Part::Content)
}

fn render_sft(report: &SftReport, part: Part) -> Result<String, ReportError> {
    let SftReport { steps, validations, brief, .. } = report;
    let total = brief.total_steps;
    let rendered = environment()?.get_template("sft.html")?.render(context! {
        is_page => part == Part::Page,
        report => Value::from(Serde(report)),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        losses => Value::from_safe_string(chart::curve::losses(steps, validations, total)),
        games_chart => Value::from_safe_string(chart::curve::games(steps, validations, total)),
        rates => Value::from_safe_string(chart::curve::learning_rates(steps, total)),
        norms => Value::from_safe_string(chart::curve::grad_norms(steps, total)),
    });
    Ok(rendered?)
}

/// The report of a run of several phases as one HTML page, as self-contained as a [`page`]; it links to the pages of its
/// phases, which lie in their directories.
///
/// # Errors
///
/// As for [`page`].
pub fn phases_page(report: &PhasesReport) -> Result<String, ReportError> {
    render_phases(report, Part::Page)
}

/// What [`phases_page`] shows, without the page around it; see [`content`].
///
/// # Errors
///
/// As for [`page`].
pub fn phases_content(report: &PhasesReport) -> Result<String, ReportError> {
    render_phases(report, Part::Content)
}

fn render_phases(report: &PhasesReport, part: Part) -> Result<String, ReportError> {
    let rendered = environment()?.get_template("phases.html")?.render(context! {
        is_page => part == Part::Page,
        report => Value::from(Serde(report)),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
    });
    Ok(rendered?)
}

/// The report of a run of reinforcement learning as one HTML page, as self-contained as a [`page`].
///
/// # Errors
///
/// As for [`page`].
pub fn rl_page(report: &RlReport) -> Result<String, ReportError> {
    render_rl(report, Part::Page)
}

/// What [`rl_page`] shows, without the page around it; see [`content`].
///
/// # Errors
///
/// As for [`page`].
pub fn rl_content(report: &RlReport) -> Result<String, ReportError> {
    render_rl(report, Part::Content)
}

fn render_rl(report: &RlReport, part: Part) -> Result<String, ReportError> {
    let by_type = report.task_types.iter().map(|found| chart::curve::of_task_type(report, found));
    let rendered = environment()?.get_template("rl.html")?.render(context! {
        is_page => part == Part::Page,
        report => Value::from(Serde(report)),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        curves => Value::from(Serde(&chart::curve::of_iterations(report))),
        type_curves => by_type.collect::<Vec<_>>(),
    });
    Ok(rendered?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Page,
    Content,
}

fn render(report: &Report, part: Part) -> Result<String, ReportError> {
    let rendered = environment()?.get_template("report.html")?.render(context! {
        is_page => part == Part::Page,
        report => Value::from(Serde(report)),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        scores => scores(report),
        budgets => Value::from_safe_string(chart::budgets(&report.course, &report.steps)),
    });
    Ok(rendered?)
}

/// Two runs side by side as one HTML page, as self-contained as a [`page`]; the reports are those of the two runs.
///
/// # Errors
///
/// As for [`page`].
pub fn comparison_page(comparison: &RunComparison, reports: [&AnyReport; 2]) -> Result<String, ReportError> {
    render_comparison(comparison, reports, Part::Page)
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
    render_comparison(comparison, reports, Part::Content)
}

fn render_comparison(
    comparison: &RunComparison,
    reports: [&AnyReport; 2],
    part: Part,
) -> Result<String, ReportError> {
    let [first, second] = reports;
    let rendered = environment()?.get_template("compare.html")?.render(context! {
        is_page => part == Part::Page,
        comparison => Value::from(Serde(comparison)),
        overlaid => overlaid(reports),
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        scores => reports.map(any_scores).to_vec(),
        skills => Value::from(Serde(&difference(&first.text(), &second.text()))),
    });
    Ok(rendered?)
}

/// The curves of two runs over each other, where both train a document.
fn overlaid(reports: [&AnyReport; 2]) -> Option<Value> {
    let [AnyReport::Document(first), AnyReport::Document(second)] = reports else { return None };
    let curve = |report: &'_ Report| report.headline.as_ref().map(|headline| headline.selection.before);
    let curves = [(curve(first), first.course.as_slice()), (curve(second), second.course.as_slice())];
    Some(Value::from_safe_string(chart::overlaid(curves)))
}

fn any_scores(report: &AnyReport) -> Value {
    match report {
        AnyReport::Document(report) => scores(report),
        AnyReport::Bank(report) => Value::from_safe_string(chart::rounds(report.baseline, &report.rounds)),
    }
}

fn scores(report: &Report) -> Value {
    let baseline = report.headline.as_ref().map_or(0.0, |headline| headline.selection.before);
    Value::from_safe_string(chart::scores(baseline, &report.course, &report.steps))
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("percent", |score: f64| percent(score));
    environment.add_filter("points", |difference: f64| points(difference));
    environment.add_filter("score", |score: f64| format!("{score:.4}"));
    environment.add_filter("money", dollars);
    environment.add_filter("grouped", |number: u64| grouped(number));
    environment.add_filter("counted", |number: u64, noun: &str| {
        format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
    });
    environment.add_filter("p", |p: f64| p_words(p));
    environment.add_filter("signed", |difference: f64| format!("{:+.1}", difference * 100.0));
    environment.add_filter("e_value", |e: f64| e_words(e));
    environment.add_filter("skill_id", |named: String| skill_id(&named));
    environment.add_function("section", section);
    environment.add_template("parts.html", PARTS)?;
    environment.add_template("bank.html", BANK)?;
    environment.add_template("sft.html", SFT)?;
    environment.add_template("rl.html", RL)?;
    environment.add_template("phases.html", PHASES)?;
    environment.add_template("report.html", PAGE)?;
    environment.add_template("compare.html", COMPARISON)?;
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// An e-value, of which the size is of interest and not the digits.
fn e_words(e: f64) -> String {
    match e {
        e if e >= 1e4 => "above 10,000".to_owned(),
        e if e >= 10.0 => format!("= {e:.0}"),
        e => format!("= {e:.2}"),
    }
}

/// The skill of a version: `gen_003` of `gen_003@2`.
fn skill_id(named: &str) -> String {
    SkillRef::of_part(&SkillPartId::new(named)).skill.to_string()
}

#[cfg(test)]
mod tests;
