//! The form of a note, as a browser sends it.

use percent_encoding::percent_decode_str;
use skill_pipeline::run_dir::notes::{Held, NoteAbout, NoteKind, NoteRequest};
use skillrl::core::{ItemId, StepIdx};
use std::collections::BTreeMap;

/// Reads a form of the fields `kind`, `item`, `step`, `edit` and `text`; blank ones are none.
///
/// # Errors
///
/// What is wrong with it, as a sentence.
pub(crate) fn read(body: &[u8]) -> Result<NoteRequest, &'static str> {
    let fields = fields(body)?;
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let number = |name: &str| match field(name) {
        "" => Ok(None),
        text => text.parse::<u32>().map(Some).map_err(|_| "A step and an edit are numbers, from 1."),
    };
    let kind = NoteKind::parse(field("kind")).ok_or("A note is of the kind note, pin or forbid.")?;
    let (item, text) = (field("item"), field("text").to_owned());
    let place = match (number("step")?, number("edit")?) {
        (Some(step), Some(edit)) => Some((StepIdx(step), Some(usize::try_from(edit).unwrap_or(usize::MAX)))),
        (Some(step), None) => Some((StepIdx(step), None)),
        (None, Some(_)) => return Err("An edit is one of a step: name the step too."),
        (None, None) => None,
    };
    let held = || match place {
        Some((step, Some(edit))) => Ok(Held::Edit { step, edit }),
        Some((_, None)) => Err("What is pinned or forbidden is a text, or an edit of a step."),
        None => Ok(Held::Text(text.clone())),
    };
    match kind {
        NoteKind::Pin => held().map(NoteRequest::Pin),
        NoteKind::Forbid => held().map(NoteRequest::Forbid),
        NoteKind::Withdraw => {
            let number = number("number")?.ok_or("Name the number of the note.")?;
            Ok(NoteRequest::Withdraw { number: usize::try_from(number).unwrap_or(usize::MAX) })
        }
        NoteKind::Note => {
            let about = match (item, place) {
                ("", None) => NoteAbout::Run,
                ("", Some((step, None))) => NoteAbout::Step(step),
                ("", Some((step, Some(edit)))) => NoteAbout::Edit { step, edit },
                (item, None) => NoteAbout::Item(ItemId::new(item)),
                (_, Some(_)) => return Err("A note is about an item, or about a step and its edit."),
            };
            Ok(NoteRequest::Note { about, text })
        }
    }
}

/// The fields of `application/x-www-form-urlencoded`, without the white space around their values.
fn fields(body: &[u8]) -> Result<BTreeMap<String, String>, &'static str> {
    let body = std::str::from_utf8(body).map_err(|_| "The form is not text.")?;
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8_lossy().trim().to_owned()
    };
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    Ok(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_say_what_is_meant() {
        let read = |body: &str| read(body.as_bytes());
        let text = || "50 % ü & +".to_owned();
        let body = "kind=note&item=q+1&step=&edit=&text=50+%25+%C3%BC+%26+%2B";
        let about = NoteAbout::Item(ItemId::new("q 1"));
        assert_eq!(read(body), Ok(NoteRequest::Note { about, text: text() }));
        let held = Held::Edit { step: StepIdx(3), edit: 2 };
        assert_eq!(read("kind=pin&step=3&edit=2&text="), Ok(NoteRequest::Pin(held.clone())));
        assert_eq!(read("kind=forbid&step=3&edit=2"), Ok(NoteRequest::Forbid(held)));
        assert_eq!(read("kind=forbid&text=x"), Ok(NoteRequest::Forbid(Held::Text("x".to_owned()))));
        assert_eq!(read("kind=withdraw&number=4"), Ok(NoteRequest::Withdraw { number: 4 }));
        for wrong in [
            "",
            "kind=x&text=y",
            "kind=note&step=one&text=y",
            "kind=note&edit=1&text=y",
            "kind=pin&step=1",
            "kind=withdraw",
            "kind=note&item=a&step=1&text=y",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
