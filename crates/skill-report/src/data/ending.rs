//! How the last process that worked on a run ended, by the end of the run's events.

use serde_json::Value;
use skill_llm::regular_file;
use skill_pipeline::run_dir::live;
use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// So many bytes of the end of a run's events are looked at.
const EVENTS_TAIL: u64 = 64 * 1024;

/// How the last process ended, where the run has not come to its end and no process works on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The run has no events, such as an imported one, and so nobody can say.
    Unknown,
    /// It said why it ends and, unless it was of an early version, what can be done about it.
    Said { reason: String, hint: Option<String> },
    /// It said nothing: the last event is not that of an end.
    Silent,
}

impl Ending {
    pub(super) fn of(run_dir: &Path) -> Self {
        let Some(tail) = tail(run_dir) else { return Self::Unknown };
        let Some(last) = tail.lines().rev().find(|line| !line.trim().is_empty()) else {
            return Self::Unknown;
        };
        // What is no JSON is half a line, or the end of a long one.
        let last = serde_json::from_str::<Value>(last).unwrap_or_default();
        let text = |name: &str| Some(last.get(name)?.as_str()?.to_owned());
        match name_of(&last) {
            Some("run_stopped") => {
                Self::Said { reason: text("reason").unwrap_or_default(), hint: text("hint") }
            }
            Some("run_finished") => Self::Unknown,
            Some(_) | None => Self::Silent,
        }
    }

    /// Why the run stands still, where that is known, and what its process said can be done about it.
    pub(super) fn reason_and_hint(self, run_dir: &Path) -> (Option<String>, Option<String>) {
        match self {
            Self::Unknown => (None, None),
            Self::Said { reason, hint } => (Some(reason), hint),
            Self::Silent => (Some(silence(run_dir)), None),
        }
    }
}

/// What can be said of a process that said nothing itself.
fn silence(run_dir: &Path) -> String {
    let mut text = "its process".to_owned();
    let seen = live::last_seen(run_dir);
    if let Some(seen) = &seen {
        let _ = write!(text, " (pid {})", seen.pid);
    }
    text.push_str(" died");
    if let Some((seen, stage)) = seen.as_ref().and_then(|seen| Some((seen, seen.stage.as_ref()?))) {
        let step = seen.step.map(|step| format!("step {step} ")).unwrap_or_default();
        let _ = write!(text, " in {step}{stage} {}/{}", seen.done, seen.total);
    }
    text.push_str(": it was killed or crashed, or the machine went down");
    text
}

/// The last event of a kind among the last ones.
pub(super) fn last_event(run_dir: &Path, kind: &str) -> Option<Value> {
    let tail = tail(run_dir)?;
    let mut events = tail.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.find(|event| name_of(event) == Some(kind))
}

fn name_of(event: &Value) -> Option<&str> {
    event.get("event")?.as_str()
}

fn tail(run_dir: &Path) -> Option<String> {
    let mut file = regular_file::open(&run_dir.join("events.jsonl")).ok()?;
    let n_bytes = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(n_bytes.saturating_sub(EVENTS_TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    Some(String::from_utf8_lossy(&tail).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[track_caller]
    fn check(events: &str, expect: &Ending) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("events.jsonl"), events).unwrap();
        assert_eq!(Ending::of(dir.path()), *expect);
    }

    const STARTED: &str = "{\"event\":\"run_started\",\"total_steps\":2}\n";
    const STOPPED: &str = "{\"event\":\"run_stopped\",\"reason\":\"a cap\",\"hint\":\"raise it\"}\n";

    #[test]
    fn only_the_last_event_says_how_the_last_process_ended() {
        let said = Ending::Said { reason: "a cap".to_owned(), hint: Some("raise it".to_owned()) };
        check("", &Ending::Unknown);
        check(STARTED, &Ending::Silent);
        check(&format!("{STARTED}{STOPPED}"), &said);
        check(&format!("{STARTED}{STOPPED}{STARTED}"), &Ending::Silent);
        check(&format!("{STARTED}{STOPPED}{{\"event\":\"run_st"), &Ending::Silent);
        let long = format!("{{\"event\":\"step_finished\",\"text\":\"{}\"}}\n", "x".repeat(100_000));
        check(&format!("{STARTED}{long}"), &Ending::Silent);
        check(&format!("{STARTED}{long}{STOPPED}"), &said);
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(Ending::of(nowhere.path()), Ending::Unknown);
    }

    #[test]
    fn a_silent_end_says_which_process_and_where_it_was_last_seen() {
        let dir = tempfile::tempdir().unwrap();
        let silent = || Ending::Silent.reason_and_hint(dir.path()).0.unwrap();
        let end = ": it was killed or crashed, or the machine went down";
        assert_eq!(silent(), format!("its process died{end}"));
        let live = "{\"format_version\":\"1.0\",\"pid\":7,\"started_unix_ms\":1,\"updated_unix_ms\":1,\
                    \"total_steps\":2,\"finished_at_start\":0,\"finished_steps\":0,\"step\":1,\"stage\":\"evaluate\",\
                    \"stage_started_unix_ms\":1,\"done\":6,\"total\":40,\"in_flight\":0,\"limit\":0,\"waiting\":0,\
                    \"calls\":1,\"tokens\":1,\"money\":0.0,\"seconds\":1.0}";
        fs::write(dir.path().join("live.json"), live).unwrap();
        assert_eq!(silent(), format!("its process (pid 7) died in step 1 evaluate 6/40{end}"));
    }
}
