//! Banks on the disk.

use skill_bank::format::{BankFormat, Note};
use skill_bank::{
    Author, Bank, BankError, BankEvent, Basis, Content, Evidence, Reason, SkillProvenance, SkillRef, Tier,
};
use skill_core::SkillPartId;
use skill_pipeline::PipelineError;
use skill_pipeline::bank_dir::{BANK_FILE, BankDir, MEASUREMENTS_FILE, SOURCE_FILE, read_bank, read_source};
use skill_pipeline::records::bank::LOG_FILE;
use std::fs;

const PAPER: &str =
    r#"{"general_skills": [{"skill_id": "gen_001", "title": "Look", "principle": "Look first."}]}"#;

fn proposed(bank: &Bank, title: &str) -> BankEvent {
    let content = Content::principle(title, "Do it.", "");
    let skill = bank.next_skill(&Tier::General);
    BankEvent::proposed(skill, Tier::General, content, SkillProvenance::Person, Evidence::default())
}

#[test]
fn a_bank_comes_back_with_its_source_and_its_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let file = dir.path().join("paper.json");
    fs::write(&file, PAPER).unwrap();
    let read = read_bank(&file).unwrap();
    let mut bank_dir = BankDir::create(&path, read.bank, Some((read.format, PAPER))).unwrap();
    assert_eq!(fs::read_to_string(path.join(BANK_FILE)).unwrap(), PAPER, "byte for byte");
    let event = proposed(bank_dir.bank(), "Ask");
    bank_dir.record(0, Author::Person, [event]).unwrap();
    let admitted =
        BankEvent::Admitted { skill: SkillRef::new(SkillPartId::new("gen_002"), 1), basis: Basis::Person };
    bank_dir.record(0, Author::Person, [admitted]).unwrap();
    let again = read_bank(&path).unwrap();
    assert_eq!((again.format, &again.bank), (BankFormat::Log, bank_dir.bank()));
    assert_eq!(read_bank(&path.join(BANK_FILE)).unwrap().bank.view().skills().len(), 2);
    let measured: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path.join(MEASUREMENTS_FILE)).unwrap()).unwrap();
    assert_eq!(measured["skills"][1]["measured"], false);
    // What is refused changes nothing.
    let twice =
        BankEvent::Admitted { skill: SkillRef::new(SkillPartId::new("gen_002"), 1), basis: Basis::Person };
    let log = fs::read(path.join(LOG_FILE)).unwrap();
    let refused = bank_dir.record(0, Author::Person, [proposed(bank_dir.bank(), "x"), twice]).unwrap_err();
    assert!(matches!(refused, PipelineError::Bank { .. }));
    assert_eq!(fs::read(path.join(LOG_FILE)).unwrap(), log);
}

#[test]
fn a_line_that_was_cut_by_a_kill_is_left_out_and_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let mut bank_dir = BankDir::create(&path, Bank::new(), None).unwrap();
    let event = proposed(bank_dir.bank(), "Ask");
    bank_dir.record(0, Author::Process, [event]).unwrap();
    let whole = fs::read_to_string(path.join(LOG_FILE)).unwrap();
    drop(bank_dir);
    fs::write(path.join(LOG_FILE), format!("{whole}{{\"n\":2,\"by\":\"proc")).unwrap();
    let read = read_bank(&path).unwrap();
    assert_eq!(read.bank.log().len(), 1);
    assert!(matches!(read.notes[..], [Note::CutLog { bytes: 17 }]), "{:?}", read.notes);
    let mut bank_dir = BankDir::open(&path).unwrap();
    let retired =
        BankEvent::Retired { skill: SkillRef::new(SkillPartId::new("gen_001"), 1), reason: Reason::Person };
    bank_dir.record(0, Author::Person, [retired]).unwrap();
    assert_eq!(read_bank(&path).unwrap().bank.log().len(), 2);
}

#[test]
fn a_log_that_was_changed_or_lost_its_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let mut bank_dir = BankDir::create(&path, Bank::new(), None).unwrap();
    for title in ["Ask", "Look"] {
        let event = proposed(bank_dir.bank(), title);
        bank_dir.record(0, Author::Person, [event]).unwrap();
    }
    drop(bank_dir);
    let log = path.join(LOG_FILE);
    let text = fs::read_to_string(&log).unwrap();
    let without_last: String = text.split_inclusive('\n').take(2).collect();
    for (damaged, at) in [
        (text.replacen("Ask", "Asks", 1), 2),
        (text.replacen("Look", "Looks", 1), 3),
        (without_last, 3),
        (text.trim_end().to_owned(), 3),
    ] {
        fs::write(&log, &damaged).unwrap();
        for refused in [read_bank(&path).map(drop), BankDir::open(&path).map(drop)] {
            let is_refused = matches!(
                &refused,
                Err(PipelineError::Bank { source: BankError::BadLog { line, .. }, .. }) if *line == at
            );
            assert!(is_refused, "{damaged}: {refused:?}");
        }
    }
    fs::write(&log, text).unwrap();
    assert!(read_bank(&path).unwrap().notes.is_empty());
}

#[test]
fn a_log_without_hashes_has_one_note_and_is_chained_from_its_next_event() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let mut bank = Bank::new();
    let event = proposed(&bank, "Ask");
    bank.record(0, Author::Person, event).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join(LOG_FILE), bank.log_text()).unwrap();
    assert!(matches!(read_bank(&path).unwrap().notes[..], [Note::UnchainedLog { events: 1 }]));
    let mut bank_dir = BankDir::open(&path).unwrap();
    let event = proposed(bank_dir.bank(), "Look");
    bank_dir.record(0, Author::Person, [event]).unwrap();
    assert!(read_bank(&path).unwrap().notes.is_empty());
    let text = fs::read_to_string(path.join(LOG_FILE)).unwrap();
    fs::write(path.join(LOG_FILE), text.replacen("Ask", "Asks", 1)).unwrap();
    assert!(matches!(read_bank(&path), Err(PipelineError::Bank { .. })), "the old line counts too");
}

#[test]
fn files_that_follow_from_the_log_are_written_again_where_they_differ() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let bank = skill_bank::format::read(PAPER).unwrap().bank;
    drop(BankDir::create(&path, bank, Some((BankFormat::Paper, PAPER))).unwrap());
    let expect = [BANK_FILE, MEASUREMENTS_FILE].map(|name| fs::read(path.join(name)).unwrap());
    fs::write(path.join(BANK_FILE), "{}").unwrap();
    fs::remove_file(path.join(MEASUREMENTS_FILE)).unwrap();
    BankDir::open(&path).unwrap().refresh().unwrap();
    assert_eq!([BANK_FILE, MEASUREMENTS_FILE].map(|name| fs::read(path.join(name)).unwrap()), expect);
    // What they are made from has to be what was imported.
    fs::write(path.join(SOURCE_FILE), PAPER.replacen("Look", "Book", 1)).unwrap();
    assert!(matches!(BankDir::open(&path), Err(PipelineError::ChangedFile { .. })));
}

#[test]
fn one_process_at_a_time_changes_a_bank() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let bank_dir = BankDir::create(&path, Bank::new(), None).unwrap();
    assert!(matches!(BankDir::open(&path).unwrap_err(), PipelineError::BankLocked { .. }));
    assert!(read_bank(&path).is_ok(), "others may read it");
    drop(bank_dir);
    assert!(BankDir::open(&path).is_ok());
    let refused = BankDir::create(&path, Bank::new(), None).unwrap_err();
    assert!(matches!(refused, PipelineError::NotVacant { .. }));
}

#[test]
fn a_directory_without_a_log_is_no_bank_and_one_with_a_run_does_not_become_one() {
    let dir = tempfile::tempdir().unwrap();
    for refused in [read_bank(dir.path()).map(drop), BankDir::open(dir.path()).map(drop)] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, PipelineError::Bank { source: BankError::NotABank { .. }, .. }),
            "{refused:?}"
        );
    }
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    let refused = BankDir::create(dir.path(), Bank::new(), None).unwrap_err();
    assert!(matches!(refused, PipelineError::NotVacant { .. }), "{refused:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written there");
}

#[test]
fn the_text_that_a_bank_was_imported_from_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (file, path) = (dir.path().join("paper.json"), dir.path().join("bank"));
    fs::write(&file, PAPER).unwrap();
    let read = read_bank(&file).unwrap();
    let expect = Some((BankFormat::Paper, PAPER.to_owned()));
    assert_eq!(read_source(&file, &read.bank).unwrap(), expect);
    let bank_dir = BankDir::create(&path, read.bank, Some((read.format, PAPER))).unwrap();
    assert_eq!(read_source(&path, bank_dir.bank()).unwrap(), expect);
    fs::remove_file(path.join(SOURCE_FILE)).unwrap();
    assert_eq!(read_source(&path, bank_dir.bank()).unwrap(), None);
    assert_eq!(read_source(&path, &Bank::new()).unwrap(), None);
}

#[test]
fn a_bank_whose_source_cannot_be_read_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    let file = dir.path().join("paper.json");
    fs::write(&file, PAPER).unwrap();
    let read = read_bank(&file).unwrap();
    drop(BankDir::create(&path, read.bank, Some((read.format, PAPER))).unwrap());
    let source = path.join(SOURCE_FILE);
    fs::write(&source, [0xc3, 0x28]).unwrap();
    let refused = BankDir::open(&path).unwrap_err();
    assert!(matches!(&refused, PipelineError::RunDir { path, .. } if *path == source), "{refused:?}");
    // Without one its files are those of the paper's format.
    fs::remove_file(&source).unwrap();
    BankDir::open(&path).unwrap();
}
