//! Tables of the results: scores, leads over one system, classes of environments, and the environments that are lost.

use super::results::Row;
use super::statistics::{Mean, quantile};
use crate::generator::Parameters;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A lead below this is an environment that is lost.
const BEHIND: f64 = -0.02;
/// How many lost environments are listed.
const N_WORST: usize = 8;

/// An environment: a variant and a seed. Its repetitions are averaged.
type Key = (String, u64);

/// The results of one version of a system.
struct Column {
    name: String,
    of: BTreeMap<Key, Vec<Row>>,
}

impl Column {
    fn mean(&self, key: &Key, number: fn(&Row) -> f64) -> f64 {
        let rows = self.of.get(key).map(Vec::as_slice).unwrap_or_default();
        rows.iter().map(number).sum::<f64>() / rows.len().max(1) as f64
    }

    fn all(&self, number: fn(&Row) -> f64) -> Vec<f64> {
        self.of.keys().map(|key| self.mean(key, number)).collect()
    }
}

/// All results, by system.
pub struct Report {
    columns: Vec<Column>,
}

impl Report {
    /// The results of these rows; systems in the order of their first row.
    pub fn new(rows: &[Row]) -> Self {
        let mut columns: Vec<Column> = Vec::new();
        for row in rows {
            let name = format!("{} {}", row.search.system, row.search.version);
            let at = columns.iter().position(|column| column.name == name).unwrap_or_else(|| {
                columns.push(Column { name, of: BTreeMap::new() });
                columns.len() - 1
            });
            if let Some(column) = columns.get_mut(at) {
                let key = (row.place.variant.clone(), row.place.seed);
                let of = column.of.entry(key).or_default();
                if of.iter().all(|known| known.place != row.place) {
                    of.push(row.clone());
                }
            }
        }
        Self { columns }
    }

    /// All tables, with leads over the systems whose name begins so.
    pub fn tables(&self, reference: &str) -> String {
        let mut text = self.scores();
        let Some(other) = self.columns.iter().find(|column| column.name.split(' ').next() == Some(reference))
        else {
            return text;
        };
        for column in self.columns.iter().filter(|column| column.name != other.name) {
            let leads = Leads::new(column, other);
            if !leads.of.is_empty() {
                let _ = write!(text, "\n{}", leads.tables());
            }
        }
        text
    }

    fn scores(&self) -> String {
        let mut text = String::from(
            "| search | environments | score | initial | calls | share of the cap | over the cap | refused | lines | seconds |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for column in &self.columns {
            let mean = |number: fn(&Row) -> f64| Mean::of(&column.all(number));
            let share = |is_so: fn(&Row) -> f64| 100.0 * Mean::of(&column.all(is_so)).mean;
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} | {:.0} | {:.0} % | {:.0} % | {:.0} % | {:.1} | {:.1} |",
                column.name,
                column.of.len(),
                mean(|row| row.score).score(),
                100.0 * mean(|row| row.initial).mean,
                mean(|row| row.search.calls() as f64).mean,
                100.0 * mean(|row| row.search.calls() as f64 / row.search.cap as f64).mean,
                share(|row| f64::from(u8::from(row.search.calls() > row.search.cap))),
                share(|row| f64::from(u8::from(row.search.calls() == 0))),
                mean(|row| row.lines as f64).mean,
                mean(|row| row.search.seconds).mean,
            );
        }
        text
    }

    /// The mean lead of a system over another one in the environments of both, in points, and how many it has lost.
    pub fn lead(&self, system: &str, reference: &str) -> Option<(f64, usize)> {
        let of = |name: &str| self.columns.iter().find(|column| column.name.split(' ').next() == Some(name));
        let leads = Leads::new(of(system)?, of(reference)?);
        (!leads.of.is_empty()).then(|| (100.0 * Mean::of(&leads.values()).mean, leads.n_behind()))
    }
}

/// The leads of one system over another, by environment.
struct Leads<'a> {
    own: &'a Column,
    other: &'a Column,
    of: Vec<(Key, f64)>,
}

impl<'a> Leads<'a> {
    fn new(own: &'a Column, other: &'a Column) -> Self {
        let both = own.of.keys().filter(|key| other.of.contains_key(*key));
        let lead = |key: &Key| own.mean(key, |row| row.score) - other.mean(key, |row| row.score);
        let of = both.map(|key| (key.clone(), lead(key))).collect();
        Self { own, other, of }
    }

    fn values(&self) -> Vec<f64> {
        self.of.iter().map(|(_, lead)| *lead).collect()
    }

    fn n_behind(&self) -> usize {
        self.of.iter().filter(|(_, lead)| *lead < BEHIND).count()
    }

    fn tables(&self) -> String {
        let mut sorted = self.values();
        sorted.sort_by(f64::total_cmp);
        let points = |share: f64| format!("{:+.0}", 100.0 * quantile(&sorted, share));
        let n = self.of.len();
        let mut text = format!(
            "**{} over {}**, {n} environments: {} points; behind by more than 2 points in {} ({:.0} %); \
             least {}, tenth {}, quarter {}, median {}, three quarters {}, nine tenths {}, most {}\n\n",
            self.own.name,
            self.other.name,
            Mean::of(&sorted).points(),
            self.n_behind(),
            100.0 * self.n_behind() as f64 / n as f64,
            points(0.0),
            points(0.1),
            points(0.25),
            points(0.5),
            points(0.75),
            points(0.9),
            points(1.0),
        );
        text += &self.classes();
        text += &self.worst();
        text
    }

    fn classes(&self) -> String {
        let mut text = String::from("| class | lead | behind | environments |\n|---|---:|---:|---:|\n");
        for (name, class) in CLASSES {
            let mut of: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            for ((variant, seed), lead) in &self.of {
                if let Some(class) = parameters(variant, *seed).map(|parameters| class(&parameters, variant))
                {
                    of.entry(class).or_default().push(*lead);
                }
            }
            for (class, leads) in of.iter().filter(|_| name != "variant" || self.has_variants()) {
                let n_behind = leads.iter().filter(|lead| **lead < BEHIND).count();
                let lead = Mean::of(leads).points();
                let _ =
                    writeln!(text, "| {name}: {} | {lead} | {n_behind} | {} |", class.trim(), leads.len());
            }
        }
        text
    }

    fn has_variants(&self) -> bool {
        self.of.iter().any(|((variant, _), _)| Some(variant) != self.of.first().map(|((first, _), _)| first))
    }

    fn worst(&self) -> String {
        let mut of: Vec<&(Key, f64)> = self.of.iter().collect();
        of.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let mut text = String::from(
            "\n| the worst | lead | initial | own | other | every rule | training | validation | calls | own calls | noise | |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n",
        );
        for (key, lead) in of.into_iter().take(N_WORST) {
            let Some(parameters) = parameters(&key.0, key.1) else { continue };
            let percent = |column: &Column, number| format!("{:.0}", 100.0 * column.mean(key, number));
            let _ = writeln!(
                text,
                "| {} {} | {:+.1} | {} | {} | {} | {} | {} | {} | {} | {:.0} | {} | {} |",
                key.0,
                key.1,
                100.0 * lead,
                percent(self.own, |row| row.initial),
                percent(self.own, |row| row.score),
                percent(self.other, |row| row.score),
                percent(self.own, |row| row.knowable),
                parameters.n_train,
                parameters.n_val,
                parameters.calls,
                self.own.mean(key, |row| row.search.calls() as f64),
                parameters.noise,
                remarks(&parameters),
            );
        }
        text
    }
}

fn parameters(variant: &str, seed: u64) -> Option<Parameters> {
    super::results::Place { variant: variant.to_owned(), seed, repetition: 0 }.parameters()
}

/// What else is special about an environment.
fn remarks(parameters: &Parameters) -> String {
    let all = [
        (parameters.is_target_fixed, "fixed target"),
        (parameters.is_optimizer_fixed, "fixed optimizer"),
        (parameters.is_graded, "graded"),
        (parameters.line_cost > 0.0, "length costs"),
        (parameters.pairs > 0.0, "pairs"),
        (parameters.prerequisites > 0.0, "prerequisites"),
        (parameters.answers > 0.0, "single answers"),
        (parameters.companion > 0.0, "harmful companions"),
        (parameters.initial_harms > 0, "harmful initial skill"),
        (parameters.diffuse > 0.0, "diffuse"),
    ];
    let named: Vec<&str> = all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, name)| name).collect();
    named.join(", ")
}

/// The class of an environment.
type Class = fn(&Parameters, &str) -> String;

/// Blanks in front keep classes in order.
const CLASSES: [(&str, Class); 8] = [
    ("variant", |_, variant| variant.to_owned()),
    ("calls per validation task", |parameters, _| {
        range(parameters.calls_per_validation_task(), &[5.0, 10.0, 20.0, 40.0])
    }),
    ("validation tasks", |parameters, _| range(parameters.n_val as f64, &[15.0, 30.0, 80.0, 200.0])),
    ("training tasks", |parameters, _| range(parameters.n_train as f64, &[15.0, 30.0, 80.0, 200.0])),
    ("calls", |parameters, _| range(parameters.calls as f64, &[150.0, 400.0, 1_000.0, 3_000.0])),
    ("noise", |parameters, _| {
        let kind = if parameters.is_target_fixed { ", fixed by task and skill" } else { "" };
        format!("{}{kind}", range(parameters.noise, &[0.0, 0.021, 0.11, 0.3]))
    }),
    ("scores", |parameters, _| if parameters.is_graded { "graded" } else { "right or wrong" }.to_owned()),
    ("length", |parameters, _| if parameters.line_cost > 0.0 { "costs" } else { "costs nothing" }.to_owned()),
];

/// The range of a number between two of these bounds.
fn range(number: f64, bounds: &[f64]) -> String {
    let pairs = bounds.iter().zip(bounds.iter().skip(1)).enumerate();
    let mut last = String::new();
    for (order, (low, high)) in pairs {
        last = format!("{}{low} to {high}", " ".repeat(bounds.len() - order));
        if number < *high {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::results::row;

    #[test]
    fn repetitions_are_averaged_and_environments_paired() {
        let mut again = row(1, "auto", 0.5);
        again.place.repetition = 1;
        let mut rows = vec![row(1, "gepa", 0.5), row(2, "gepa", 0.5), row(3, "gepa", 0.1)];
        rows.extend([row(1, "auto", 0.7), again, row(2, "auto", 0.4)]);
        rows.push(row(2, "auto", 0.9));
        let report = Report::new(&rows);
        let (lead, n_behind) = report.lead("auto", "gepa").unwrap();
        assert!(
            (lead - 0.0).abs() < 1e-9 && n_behind == 1,
            "a repeated row does not count: {lead} {n_behind}"
        );
        assert!(report.lead("auto", "paper").is_none());
        let row = "| base 2 | -10.0 |";
        assert!(report.tables("gepa").contains(row));
    }

    #[test]
    fn classes_are_in_order_and_cover_their_ends() {
        let bounds = [5.0, 10.0, 20.0, 40.0];
        let classes: Vec<String> = [5.0, 10.0, 40.0].map(|number| range(number, &bounds)).to_vec();
        assert_eq!(
            classes.iter().map(|class| class.trim()).collect::<Vec<_>>(),
            ["5 to 10", "10 to 20", "20 to 40"]
        );
        assert!(classes.is_sorted());
    }
}
