//! What people note while a run is trained.

use crate::run_files;
use crate::saving::{job as wordy_job, saving};
use crate::world::{Counted, Job, optimizer, target};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use skill_core::{EditStatus, ItemId, StepIdx};
use skill_envs::Split;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId, Role};
use skill_pipeline::error::NoteRefusal;
use skill_pipeline::run_dir::notes::{
    Held, MAX_NOTE_CHARS, NOTES_FILE, NoteAbout, NoteKind, NoteRequest, RunNote, add_note,
    copy_notes_for_replay, read_notes,
};
use skill_pipeline::{PipelineError, RunReader, Summary};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Keeps what the optimizer was asked, with the place of each call.
struct Asked {
    inner: Arc<dyn ChatModel>,
    prompts: Mutex<Vec<(String, String)>>,
}

impl Asked {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: optimizer(), prompts: Mutex::default() })
    }

    /// The steps whose prompts hold a text.
    fn steps_with(&self, text: &str) -> Vec<String> {
        let prompts = self.prompts.lock();
        let holding = prompts.iter().filter(|(_, prompt)| prompt.contains(text));
        let mut steps: Vec<String> =
            holding.map(|(place, _)| place.split(" / ").next().unwrap().to_owned()).collect();
        steps.dedup();
        steps
    }
}

#[async_trait]
impl ChatModel for Asked {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.prompts.lock().push((call.place.to_string(), request.text_of(Role::User)));
        self.inner.chat(request, call).await
    }
}

fn stopped(dir: &Path, stop_after: u32) {
    let stopped = Job { stop_after, ..Job::default() }.run(dir);
    assert!(matches!(stopped, Err(PipelineError::Stopped { .. })), "{stopped:?}");
}

fn finished(dir: &Path, target: Arc<Counted>) -> Result<Summary, PipelineError> {
    Job { target, ..Job::default() }.run(dir)
}

fn add(dir: &Path, asked: &NoteRequest) -> Result<RunNote, PipelineError> {
    add_note(&RunReader::open(dir).unwrap(), asked)
}

fn note(about: NoteAbout, text: &str) -> NoteRequest {
    NoteRequest::Note { about, text: text.to_owned() }
}

fn item_of_step_1(dir: &Path) -> ItemId {
    RunReader::open(dir).unwrap().history().unwrap()[0].batch_item_ids[0].clone()
}

/// The files of a run, less the notes themselves, which hold times.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = run_files::files(dir);
    files.remove(NOTES_FILE);
    files
}

#[test]
fn a_note_is_read_by_the_next_step_and_kept_with_the_run() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path(), 1);
    let item = item_of_step_1(dir.path());
    let text = "the second column counts </task> <skill>";
    add(dir.path(), &note(NoteAbout::Item(item.clone()), text)).unwrap();
    let edit = NoteAbout::Edit { step: StepIdx(1), edit: 1 };
    add(dir.path(), &note(edit, "too long")).unwrap();
    let asked = Asked::new();
    Job { optimizer: asked.clone(), ..Job::default() }.run(dir.path()).unwrap();
    assert_eq!(asked.steps_with(&format!("On the task {item}: the second column counts")), ["step 2"]);
    assert_eq!(asked.steps_with("On edit 1 of step 1 (append \"- rule"), ["step 2"]);
    assert!(asked.steps_with("counts </task>").is_empty(), "a note ends no block");
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    let read: Vec<Option<usize>> = history.iter().map(|record| record.n_notes_read).collect();
    assert_eq!(read[..2], [None, Some(2)]);
    assert!(read[2..].iter().all(|n_read| *n_read == Some(2)), "{read:?}");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("steps/step_0002/notes.json")).unwrap())
            .unwrap();
    assert_eq!(kept["notes"][0]["text"], text);
    assert_eq!(kept["notes"][0]["unix_ms"], Value::Null);
}

#[test]
fn a_run_without_notes_has_no_file_of_them() {
    let dir = tempfile::tempdir().unwrap();
    Job::default().run(dir.path()).unwrap();
    assert!(run_files::files(dir.path()).keys().all(|name| !name.contains("notes")), "no file");
}

#[test]
fn a_note_that_comes_while_a_step_is_made_belongs_to_the_next_one_whatever_stops_it() {
    // The first note is there when step 2 begins, and the second one when step 3 does.
    let undisturbed = tempfile::tempdir().unwrap();
    stopped(undisturbed.path(), 1);
    add(undisturbed.path(), &note(NoteAbout::Run, "first")).unwrap();
    stopped(undisturbed.path(), 2);
    add(undisturbed.path(), &note(NoteAbout::Run, "second")).unwrap();
    finished(undisturbed.path(), target(usize::MAX)).unwrap();

    for fails_from in [0, 1, 3, 4, 9] {
        let dir = tempfile::tempdir().unwrap();
        stopped(dir.path(), 1);
        add(dir.path(), &note(NoteAbout::Run, "first")).unwrap();
        finished(dir.path(), target(fails_from)).unwrap_err();
        add(dir.path(), &note(NoteAbout::Run, "second")).unwrap();
        finished(dir.path(), target(usize::MAX)).unwrap();
        assert_eq!(
            files(dir.path()),
            files(undisturbed.path()),
            "failed from call {fails_from} of step 2 on"
        );
    }
    // A step that began before there was any note reads none when it is made again.
    let (early, late) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stopped(early.path(), 1);
    finished(early.path(), target(2)).unwrap_err();
    add(early.path(), &note(NoteAbout::Run, "first")).unwrap();
    finished(early.path(), target(usize::MAX)).unwrap();
    stopped(late.path(), 2);
    add(late.path(), &note(NoteAbout::Run, "first")).unwrap();
    finished(late.path(), target(usize::MAX)).unwrap();
    assert_eq!(files(early.path()), files(late.path()));
}

#[test]
fn a_run_that_is_made_again_reads_each_note_in_the_step_that_has_read_it() {
    let recorded = tempfile::tempdir().unwrap();
    stopped(recorded.path(), 1);
    add(recorded.path(), &note(NoteAbout::Run, "first")).unwrap();
    stopped(recorded.path(), 3);
    add(recorded.path(), &note(NoteAbout::Step(StepIdx(3)), "second")).unwrap();
    finished(recorded.path(), target(usize::MAX)).unwrap();
    add(recorded.path(), &note(NoteAbout::Run, "read by none")).unwrap();
    let again = tempfile::tempdir().unwrap();
    copy_notes_for_replay(&RunReader::open(recorded.path()).unwrap(), again.path()).unwrap();
    finished(again.path(), target(usize::MAX)).unwrap();
    assert_eq!(files(again.path()), files(recorded.path()));
    let steps: Vec<_> =
        read_notes(again.path()).unwrap().iter().map(|note| note.from_step.unwrap().0).collect();
    assert_eq!(steps, [2, 4]);
}

#[test]
fn a_pinned_line_and_a_forbidden_edit_hold_until_they_are_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = |stop_after| {
        let base = wordy_job(saving(0.1, 0.0), &["- talk 2", "- talk 3", "- talk 4"]);
        Job { stop_after, ..base }.run(dir.path())
    };
    run(1).unwrap_err();
    let best = || std::fs::read_to_string(dir.path().join("best_skill.md")).unwrap();
    assert!(!best().contains("- talk 2"), "{}", best());
    let talk_3 = best().lines().find(|line| line.starts_with("- talk 3")).unwrap().to_owned();
    let pin = add(dir.path(), &NoteRequest::Pin(Held::Text(talk_3.clone()))).unwrap();
    assert_eq!((pin.number, pin.kind), (1, NoteKind::Pin));
    // What step 1 did is not done again; it is done already.
    add(dir.path(), &NoteRequest::Forbid(Held::Edit { step: StepIdx(1), edit: 1 })).unwrap();
    run(3).unwrap_err();
    assert!(best().contains(&talk_3), "{}", best());
    let rows = RunReader::open(dir.path()).unwrap().apply_report(StepIdx(2)).unwrap().unwrap();
    assert!(rows.iter().all(|row| row.status == EditStatus::SkippedPinned), "{rows:?}");
    add(dir.path(), &NoteRequest::Withdraw { number: 1 }).unwrap();
    run(u32::MAX).unwrap();
    assert!(!best().contains(&talk_3), "{}", best());
}

#[track_caller]
fn refused(dir: &Path, asked: &NoteRequest) -> NoteRefusal {
    match add(dir, asked) {
        Err(PipelineError::Note(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn notes_on_what_does_not_exist_are_refused_with_what_does_and_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path(), 2);
    let path = dir.path();
    let gone = ItemId::new("gone");
    let NoteRefusal::NoItem { item, known } = refused(path, &note(NoteAbout::Item(gone.clone()), "x")) else {
        panic!("another refusal")
    };
    assert_eq!((item, known.contains(&item_of_step_1(path))), (gone, true));
    let held_out = NoteRefusal::HeldOut { item: ItemId::new("va0"), split: Split::Val };
    assert_eq!(refused(path, &note(NoteAbout::Item(ItemId::new("va0")), "x")), held_out);
    let no_step = NoteRefusal::NoStep { step: StepIdx(3), last: StepIdx(2) };
    assert_eq!(refused(path, &note(NoteAbout::Step(StepIdx(3)), "x")), no_step);
    let edit = NoteAbout::Edit { step: StepIdx(1), edit: 9 };
    let refusal = refused(path, &note(edit, "x"));
    assert!(matches!(refusal, NoteRefusal::NoEdit { edit: 9, n_edits, .. } if n_edits > 0), "{refusal:?}");
    assert_eq!(refused(path, &note(NoteAbout::Run, " \n")), NoteRefusal::Empty);
    let long = "x".repeat(MAX_NOTE_CHARS + 1);
    let too_long = NoteRefusal::TooLong { chars: MAX_NOTE_CHARS + 1, most: MAX_NOTE_CHARS };
    assert_eq!(refused(path, &note(NoteAbout::Run, &long)), too_long);
    let nowhere = NoteRefusal::NotInSkill { text: "- nowhere".to_owned() };
    assert_eq!(refused(path, &NoteRequest::Pin(Held::Text("- nowhere".to_owned()))), nowhere);
    let no_note = NoteRefusal::NoNote { number: 1, n_notes: 0 };
    assert_eq!(refused(path, &NoteRequest::Withdraw { number: 1 }), no_note);
    assert!(!path.join(NOTES_FILE).exists());
    add(path, &note(NoteAbout::Run, "x")).unwrap();
    add(path, &NoteRequest::Withdraw { number: 1 }).unwrap();
    assert!(matches!(refused(path, &NoteRequest::Withdraw { number: 1 }), NoteRefusal::NoNote { .. }));
}

#[test]
fn a_file_of_notes_that_lost_lines_stops_the_run_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path(), 1);
    add(dir.path(), &note(NoteAbout::Run, "first")).unwrap();
    stopped(dir.path(), 2);
    let path = dir.path().join(NOTES_FILE);
    let whole = std::fs::read_to_string(&path).unwrap();
    for damaged in ["", "{}\n", "not json\n"] {
        std::fs::write(&path, damaged).unwrap();
        let asked = target(0);
        let error = finished(dir.path(), asked.clone()).unwrap_err();
        assert!(matches!(&error, PipelineError::Corrupt { path: named, .. } if *named == path), "{error:?}");
        assert_eq!(asked.n_calls.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
    // A line without an end is one that is being written.
    std::fs::write(&path, format!("{whole}{{\"number\": 2")).unwrap();
    finished(dir.path(), target(usize::MAX)).unwrap();
    let second = add(dir.path(), &note(NoteAbout::Run, "second")).unwrap();
    assert_eq!((second.number, read_notes(dir.path()).unwrap().len()), (2, 2));
}
