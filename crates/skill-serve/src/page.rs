//! The pages, from the templates in `assets/`: every text goes through their escaping.
//!
//! # Invariants
//!
//! - What models, data and directories say is text in every page, and no page contains a script or a style;
//!   `tests/browser/check.py` checks it in a browser. Held by
//!   `what_models_data_and_directories_say_is_text_everywhere`,
//!   `every_answer_says_that_nothing_else_may_be_loaded`.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use skill_report::watch::{Listing, Row};
use skill_report::{Outcome, words};
use std::sync::Arc;

const LAYOUT: &str = include_str!("../assets/layout.html");
const LIST: &str = include_str!("../assets/list.html");
const ROWS: &str = include_str!("../assets/rows.html");
const RUN: &str = include_str!("../assets/run.html");
const COMPARE: &str = include_str!("../assets/compare.html");
const MESSAGE: &str = include_str!("../assets/message.html");

const PROBLEM: &str = include_str!("../assets/problem.html");

/// What is in the page of a run where its report begins; the answer is cut there, and sent in two parts.
const REPORT_MARK: &str = "<!-- report -->";

/// The templates.
pub(crate) struct Pages {
    environment: Environment<'static>,
    /// The list as it was shown last: it is the same as long as its runs are.
    rows: Mutex<Option<(Arc<Listing>, Arc<str>)>>,
}

impl Pages {
    pub(crate) fn new() -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.add_filter("percent", |score: f64| words::percent(score));
        environment.add_filter("points", |difference: f64| words::points(difference));
        environment.add_filter("tone", |outcome: &str| Outcome::parse(outcome).map_or("", Outcome::tone));
        environment.add_filter("signed_interval", |bounds: Vec<f64>| {
            let bounds: Vec<String> = bounds.iter().map(|bound| format!("{:+.1}", 100.0 * bound)).collect();
            bounds.join(" to ")
        });
        environment.add_filter("interval", |bounds: Vec<f64>| {
            let bounds: Vec<String> = bounds.iter().map(|bound| format!("{:.1}", bound * 100.0)).collect();
            format!("{} %", bounds.join(" to "))
        });
        environment.add_filter("loss", |loss: f64| format!("{loss:.4}"));
        environment.add_filter("money", words::dollars);
        environment.add_filter("grouped", |number: u64| words::grouped(number));
        environment.add_filter("utc", |unix_ms: u64| words::utc(unix_ms));
        environment.add_filter("path", |name: String| percent_encode(&name));
        let templates = [
            ("layout.html", LAYOUT),
            ("list.html", LIST),
            ("rows.html", ROWS),
            ("run.html", RUN),
            ("compare.html", COMPARE),
            ("message.html", MESSAGE),
            ("problem.html", PROBLEM),
        ];
        for (name, source) in templates {
            environment.add_template(name, source)?;
        }
        Ok(Self { environment, rows: Mutex::default() })
    }

    fn render(&self, name: &str, context: Value) -> String {
        let rendered = self.environment.get_template(name).and_then(|template| template.render(context));
        rendered.map(|page| words::harmless(&page)).unwrap_or_else(|error| {
            tracing::error!(%error, name, "a page could not be made");
            "The page could not be made; this is a fault of the program.".to_owned()
        })
    }

    /// The list of runs.
    pub(crate) fn list(&self, directory: &str, listing: &Arc<Listing>) -> String {
        let rows = Value::from_safe_string(self.rows(listing).to_string());
        self.render("list.html", context! { directory, rows })
    }

    /// The list of runs, without the page around it.
    pub(crate) fn rows(&self, listing: &Arc<Listing>) -> Arc<str> {
        if let Some((shown, rows)) = &*self.rows.lock()
            && Arc::ptr_eq(shown, listing)
        {
            return Arc::clone(rows);
        }
        let rows: Arc<str> = self
            .render(
                "rows.html",
                context! {
                    rows => Value::from(Serde(&listing.rows)),
                    is_read => listing.is_read,
                    is_cut => listing.is_cut,
                    problem => &listing.problem,
                },
            )
            .into();
        *self.rows.lock() = Some((Arc::clone(listing), Arc::clone(&rows)));
        rows
    }

    /// The page of a run in two parts: what comes before its report, and what comes after.
    pub(crate) fn run(&self, row: &Row) -> (String, String) {
        let page = self.render("run.html", context! { row => Value::from(Serde(row)) });
        match page.split_once(REPORT_MARK) {
            Some((before, after)) => (before.to_owned(), after.to_owned()),
            None => (page, String::new()),
        }
    }

    /// The page that compares runs.
    pub(crate) fn comparison(&self, names: &[String], content: String) -> String {
        self.render(
            "compare.html",
            context! { names => names.to_vec(), content => Value::from_safe_string(content) },
        )
    }

    /// What is shown in the place of a report that cannot be made.
    pub(crate) fn problem(&self, problem: &str) -> String {
        self.render("problem.html", context! { problem })
    }

    /// A page that says one thing.
    pub(crate) fn message(&self, title: &str, text: &str) -> String {
        self.render("message.html", context! { title, text })
    }
}

/// All but what stays as it is in a path of names: slashes and the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A name in a path: slashes stay, everything that could mean something else is written as its bytes.
pub(crate) fn percent_encode(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::percent_encode;

    #[test]
    fn names_are_escaped_in_paths_and_slashes_stay() {
        assert_eq!(percent_encode("runs/a-b_c.d~e"), "runs/a-b_c.d~e");
        assert_eq!(percent_encode("50 %?#ä\"<"), "50%20%25%3F%23%C3%A4%22%3C");
    }
}
