//! How fast banks are read: `cargo bench -p skill-bank --bench format`.
//!
//! A bank of 10,000 skills is read in under 100 ms, from a file of the paper, from one of krill, and from its log; the
//! time grows in proportion to the number of skills.

use divan::{Bencher, black_box};
use skill_bank::format::{BankFormat, read, write};
use skill_bank::{Bank, BankDiff, BankSummary};

/// The sizes over which the time must grow in proportion.
const SIZES: [usize; 3] = [2_500, 5_000, 10_000];

/// So many types of task have skills.
const TYPES: usize = 20;

fn main() {
    divan::main();
}

/// A file of the paper with this many skills, half of which are general.
fn paper(n_skills: usize) -> String {
    let skill = |number: usize, prefix: &str| {
        format!(
            r#"{{"skill_id": "{prefix}_{number:03}", "title": "Check the state of object {number}", "principle": "Before you act on object {number}, look at it and compare what you see with what the task needs.", "when_to_apply": "Whenever the task names object {number}."}}"#
        )
    };
    let general: Vec<String> = (0..n_skills / 2).map(|number| skill(number, "gen")).collect();
    let types: Vec<String> = (0..TYPES)
        .map(|type_idx| {
            let numbers = (n_skills / 2..n_skills).filter(|number| number % TYPES == type_idx);
            let skills: Vec<String> = numbers.map(|number| skill(number, "typ")).collect();
            format!(r#""type {type_idx}": [{}]"#, skills.join(", "))
        })
        .collect();
    format!(
        r#"{{"general_skills": [{}], "task_specific_skills": {{{}}}, "common_mistakes": []}}"#,
        general.join(", "),
        types.join(", ")
    )
}

fn bank(n_skills: usize) -> Bank {
    read(&paper(n_skills)).map(|read| read.bank).unwrap_or_default()
}

#[divan::bench(args = SIZES)]
fn read_paper(bencher: Bencher<'_, '_>, n_skills: usize) {
    let text = paper(n_skills);
    bencher.bench(|| read(black_box(&text)));
}

/// The worst case of a bank of others: no skill has an id.
#[divan::bench(args = SIZES)]
fn read_paper_without_ids(bencher: Bencher<'_, '_>, n_skills: usize) {
    let text = paper(n_skills).replace("\"skill_id\"", "\"former_id\"");
    bencher.bench(|| read(black_box(&text)));
}

#[divan::bench(args = SIZES)]
fn read_krill(bencher: Bencher<'_, '_>, n_skills: usize) {
    let written = write(&bank(n_skills), BankFormat::Krill, None, "1970-01-01T00:00:00Z");
    let text = written.map(|written| written.text).unwrap_or_default();
    bencher.bench(|| read(black_box(&text)));
}

#[divan::bench(args = SIZES)]
fn read_log(bencher: Bencher<'_, '_>, n_skills: usize) {
    let text = bank(n_skills).log_text();
    bencher.bench(|| Bank::from_log(black_box(&text)));
}

#[divan::bench(args = SIZES)]
fn write_paper(bencher: Bencher<'_, '_>, n_skills: usize) {
    let text = paper(n_skills);
    let bank = bank(n_skills);
    bencher.bench(|| write(black_box(&bank), BankFormat::Paper, Some(&text), "1970-01-01T00:00:00Z"));
}

#[divan::bench(args = SIZES)]
fn summarize(bencher: Bencher<'_, '_>, n_skills: usize) {
    let bank = bank(n_skills);
    bencher.bench(|| BankSummary::of(black_box(&bank)));
}

#[divan::bench(args = SIZES)]
fn compare(bencher: Bencher<'_, '_>, n_skills: usize) {
    let (before, after) = (bank(n_skills), bank(n_skills / 2));
    bencher.bench(|| BankDiff::between(black_box(&before), black_box(&after)));
}
