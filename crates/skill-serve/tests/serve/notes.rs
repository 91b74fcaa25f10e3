//! Notes of people, from the page of a run.

use crate::HOSTILE;
use crate::client::send_with;
use crate::runs::finished;
use crate::site::Site;
use skill_pipeline::run_dir::notes::{NoteKind, read_notes};

#[test]
fn a_note_from_the_page_is_kept_with_the_run_and_shown_as_text() {
    let site = Site::new(|runs| finished(&runs.join("run")));
    let page = site.until("/run/run", |page| page.contains("<h2 id=\"skill\">"));
    assert!(page.contains("action=\"/note/run\""), "{page}");
    let sent =
        site.post_form("/note/run", "kind=note&item=&step=1&edit=1&text=%3Cscript%3Ealert(1)%3C/script%3E");
    assert_eq!((sent.status, sent.header("location")), (303, "/run/run#notes"));
    let sent = site.post_form("/note/run", "kind=forbid&step=1&edit=1&text=");
    assert_eq!(sent.status, 303, "{}", sent.body);
    let notes = read_notes(&site.path("runs/run")).unwrap();
    let kinds: Vec<NoteKind> = notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::Note, NoteKind::Forbid]);
    assert!(notes[1].forbidden.as_ref().unwrap().text().contains(HOSTILE));
    let page = site.until("/run/run", |page| page.contains("edit 1 of step 1"));
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert(1)"), "{page}");
}

#[test]
fn what_does_not_exist_and_what_comes_from_elsewhere_is_refused() {
    let site = Site::new(|runs| finished(&runs.join("run")));
    for (form, status) in [
        ("kind=note&item=gone&text=x", 409),
        ("kind=note&step=9&text=x", 409),
        ("kind=pin&text=not+there", 409),
        ("kind=note&text=", 409),
        ("kind=other&text=x", 400),
        ("", 400),
    ] {
        assert_eq!(site.post_form("/note/run", form).status, status, "{form}");
    }
    assert_eq!(site.post_form("/note/other", "kind=note&text=x").status, 404);
    let long = format!("kind=note&text={}", "x".repeat(100_000));
    assert_eq!(site.post_form("/note/run", &long).status, 413);
    let host = site.address.to_string();
    let foreign = [("Host", host.as_str()), ("Origin", "http://elsewhere.example")];
    assert_eq!(send_with(site.address, "POST /note/run", &foreign, "kind=note&text=x").status, 403);
    assert!(!site.path("runs/run/notes.jsonl").exists());
}
