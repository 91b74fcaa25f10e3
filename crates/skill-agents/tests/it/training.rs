//! Descriptions that are trained with the simulated agent.

use super::simulated::{CAPS, Simulated, by_subject, queries, quiet, setup, skill, store};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use skill_agents::measure::{Launcher, Setup, Stop, Store, StoreError};
use skill_agents::query::{Half, Query, halves, read_queries};
use skill_agents::train::{Fate, Training, Writer};

/// An optimizer that proposes these descriptions in order and keeps what it was asked.
struct Proposing {
    descriptions: Mutex<Vec<&'static str>>,
    prompts: Mutex<Vec<String>>,
}

impl Proposing {
    fn of(descriptions: Vec<&'static str>) -> Self {
        Self { descriptions: Mutex::new(descriptions), prompts: Mutex::default() }
    }
}

/// A training of the first skill without limits.
fn training<'run>(
    setup: &'run Setup,
    queries: &'run [Query],
    store: &'run Store,
    launcher: &'run dyn Launcher,
    writer: &'run dyn Writer,
) -> Training<'run> {
    Training {
        setup,
        skill_idx: 0,
        queries,
        repetitions: 1,
        seed: 1,
        max_steps: 1,
        store,
        launcher,
        writer,
        caps: CAPS,
        notify: &quiet,
        on_step: &|_| {},
    }
}

#[async_trait]
impl Writer for Proposing {
    async fn write(&self, prompt: &str) -> Result<Result<String, Stop>, StoreError> {
        self.prompts.lock().push(prompt.to_owned());
        let mut descriptions = self.descriptions.lock();
        let next = if descriptions.is_empty() { "Does nothing." } else { descriptions.remove(0) };
        Ok(Ok(format!("<description>{next}</description>")))
    }
}

#[tokio::test]
async fn a_better_description_is_trained_and_the_body_stays() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(5, by_subject);
    let setup = setup(vec![skill("invoice", "Does nothing.")]);
    let queries = queries(20, 10);
    let long = "x".repeat(1025).leak();
    let descriptions =
        || vec![long, "Does <b>.", "Does nothing much.", "Does invoice and weather.", "Does invoice."];
    let proposing = || Proposing::of(descriptions());
    let writer = proposing();
    let store = store(dir.path());
    let training =
        Training { repetitions: 2, max_steps: 9, ..training(&setup, &queries, &store, &agent, &writer) };
    let trained = training.run().await.unwrap().unwrap();
    let fates: Vec<Fate> = trained.steps.iter().map(|step| step.fate).collect();
    assert_eq!(&fates[..3], [Fate::Invalid, Fate::Invalid, Fate::NotBetter]);
    assert!(fates.contains(&Fate::Accepted), "{fates:?}");
    assert!(trained.skill.description.contains("invoice"));
    assert_eq!(trained.skill.package.body(), setup.skills[0].package.body());
    let gate = trained.steps.iter().find_map(|step| step.gate.filter(|gate| gate.is_accepted)).unwrap();
    assert!(gate.candidate > gate.current);
    // The optimizer has seen no held-out query.
    let halves = halves(&queries, 1);
    let prompts = writer.prompts.lock().join("\n");
    let heldout = queries.iter().filter(|query| halves[&query.id] == Half::Heldout);
    for query in heldout {
        assert!(!prompts.contains(&format!("\"{}\"", query.query)), "{}", query.query);
    }
    assert!(prompts.contains("invoice number"));
    // The same again makes no run.
    let n_starts = agent.n_starts();
    let writer = proposing();
    let again = Training { writer: &writer, ..training }.run().await.unwrap().unwrap();
    assert_eq!((again, agent.n_starts()), (trained, n_starts));
}

/// A skill is loaded if its description names the subject of the query; several may be.
#[tokio::test]
async fn one_of_several_skills_is_trained_and_the_queries_of_others_are_held() {
    let lines: Vec<String> = (0..15)
        .map(|idx| json!({"query": format!("invoice number {idx}"), "should": "invoice"}).to_string())
        .chain(
            (0..15)
                .map(|idx| json!({"query": format!("weather number {idx}"), "should": "other"}).to_string()),
        )
        .collect();
    let queries = read_queries(&lines.join("\n"), "queries.jsonl", "invoice").unwrap();
    for (proposal, fate) in
        [("Does invoice and weather.", Fate::NotBetter), ("Does invoice.", Fate::Accepted)]
    {
        let dir = tempfile::tempdir().unwrap();
        let agent = Simulated::new(5, by_subject);
        // The second of the two is trained.
        let setup = setup(vec![skill("other", "Does weather."), skill("invoice", "Does nothing.")]);
        let writer = Proposing::of(vec![proposal]);
        let store = store(dir.path());
        let training = Training {
            skill_idx: 1,
            repetitions: 1,
            max_steps: 1,
            ..training(&setup, &queries, &store, &agent, &writer)
        };
        let trained = training.run().await.unwrap().unwrap();
        assert_eq!(trained.skill.folder, "invoice");
        assert_eq!(trained.steps[0].fate, fate, "{:?}", trained.steps);
        let prompts = writer.prompts.lock().join("\n");
        assert!(prompts.contains("Does weather."), "the optimizer is shown what lies beside it");
    }
}

#[tokio::test]
async fn queries_that_are_answered_without_any_skill_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(5, by_subject);
    let setup = setup(vec![skill("invoice", "Does nothing.")]);
    let queries = queries(15, 2);
    // One that a description makes the agent load is not among them.
    for (idx, (description, expect)) in
        [("Does nothing much.", 15), ("Does invoice.", 0)].into_iter().enumerate()
    {
        let writer = Proposing::of(vec![description]);
        let store = store(&dir.path().join(idx.to_string()));
        let training =
            Training { repetitions: 2, max_steps: 1, ..training(&setup, &queries, &store, &agent, &writer) };
        let trained = training.run().await.unwrap().unwrap();
        assert_eq!(trained.answered_without.len(), expect, "{description}");
    }
}

#[test]
fn halves_are_rounded_up_for_the_held_out_queries() {
    for (n_should, n_heldout) in [(1, 0), (2, 1), (5, 2), (10, 4), (12, 5), (13, 6), (20, 8)] {
        let halves = halves(&queries(n_should, 0), 1);
        let found = halves.values().filter(|half| **half == Half::Heldout).count();
        assert_eq!((halves.len(), found), (n_should, n_heldout));
    }
}

#[tokio::test]
async fn a_gate_that_cannot_pass_stops_before_a_proposal_is_paid() {
    // Twelve queries leave five held out, which all fail: the least with which a description can be accepted.
    for (n_should, fate) in [(12, Some(Fate::Accepted)), (10, None)] {
        let dir = tempfile::tempdir().unwrap();
        let agent = Simulated::new(5, by_subject);
        let setup = setup(vec![skill("invoice", "Does nothing.")]);
        let queries = queries(n_should, 12);
        let writer = Proposing::of(vec!["Does invoice."]);
        let store = store(dir.path());
        let trained = training(&setup, &queries, &store, &agent, &writer).run().await.unwrap().unwrap();
        assert_eq!(trained.steps.first().map(|step| step.fate), fate, "{n_should}");
        let Some(Stop::NoRoom { n_wrong, n_to_add, .. }) = trained.stop else {
            assert!(fate.is_some());
            continue;
        };
        assert_eq!((n_wrong, writer.prompts.lock().len()), (4, 0));
        // One more has to fail; four of nine held-out queries do, and four of ten are held out.
        assert_eq!(n_to_add, 6);
    }
}
