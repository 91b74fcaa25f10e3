//! What a person at the command line can do about an error or a warning of any crate.
//!
//! This is the one place that names commands of `skillrl` and keys of its configuration: the libraries below carry data
//! and hints in terms of their own interfaces, which hold where nothing better is said here.

use skill_bank::BankError;
use skill_envs::EnvError;
use skill_llm::error::GiveUpReason;
use skill_llm::journal::JOURNAL_FILE;
use skill_llm::{ErrorClass, JournalError, LlmError};
use skill_pipeline::error::{NoteRefusal, SettingChange, is_without_locks};
use skill_pipeline::kind::{RunKind, has_phases};
use skill_pipeline::{Advice, PipelineError, SettingsError, Warning};
use std::io;
use std::path::Path;

/// What to do about a server that leaves what the model thinks in the text of its replies.
pub(crate) const THOUGHTS_IN_TEXT: &str = "it is not scored, but counts as tokens of the reply; have the server keep it apart \
    (vLLM and SGLang: `--reasoning-parser NAME`, llama.cpp: `--reasoning-format deepseek`, LM Studio: its setting for \
    `reasoning_content`), or have the model think less with `thinking` and `reasoning_effort`";

/// Advice in terms of the commands and the configuration, for the events of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandHints;

impl Advice for CommandHints {
    fn on_error(&self, error: &PipelineError) -> String {
        of_pipeline(error).to_owned()
    }

    fn on_warning(&self, warning: &Warning) -> Option<String> {
        of_warning(warning).map(str::to_owned)
    }
}

/// What to do about a warning of a run, as one phrase; `None` where there is nothing to add.
fn of_warning(warning: &Warning) -> Option<&'static str> {
    match warning {
        Warning::CutReplies { .. } => Some(
            "raise the limit (`env.max_tokens`, `models.target.max_tokens`) if the task needs longer ones",
        ),
        Warning::EmptyReplies { .. } => {
            Some("`skillrl journal list` shows its calls, `skillrl doctor` asks it one question")
        }
        Warning::RequestsWithoutSkill { .. } => Some(concat!(
            "put the request's `skill` into the agent's prompt, or set `env.skill_delivery` to \"system_prompt\" (",
            skill_core::book_page!(env_protocol),
            "); `skillrl try ITEM` shows its requests",
        )),
        Warning::NoSkillFailed { .. } => Some("`eval.no_skill = \"off\"` does not try it"),
        Warning::OneShotFailed { .. } => Some("`eval.one_shot = \"off\"` does not try it"),
        Warning::SkillTwice { .. } => Some(
            "set `env.skill_delivery` to \"replace\", which puts the skill in its place, or take it out of the \
             agent's own prompt",
        ),
        Warning::NoRequests { .. } => {
            Some("give its client the request's `endpoint`; `skillrl try ITEM` shows its requests")
        }
        Warning::UncountedTokens { .. } => {
            Some("`budget.calls` holds, `budget.tokens` and `budget.money` do not")
        }
        Warning::NoEdits { .. } => Some(
            "`skillrl doctor` asks the optimizer for edits, \
             `skillrl journal list RUN --place \"step 1 / reflect\"` shows what it said",
        ),
        Warning::DamagedFiles { .. } => Some(
            "where the journal has lost nothing, the run is rebuilt from it without paying again if \
             runtime_state.json, history.jsonl and history.json are removed; `skillrl check RUN` lists all damage",
        ),
        Warning::NothingToShow { .. } => {
            Some("give the split more or harder items, or ask for less evidence (`gate.mode`)")
        }
        Warning::LastStepCannotAccept { .. } => {
            Some("give the split more items, or set `gate.spend_alpha` to false")
        }
        other => other.hint(),
    }
}

/// The command that measures an arm of the test split which a finished run has left out.
#[cfg(feature = "report")]
pub(crate) fn arm_command(arm: skill_pipeline::records::arm::ArmName, run: &Path) -> String {
    use skill_pipeline::records::arm::ArmName;
    let key = match arm {
        ArmName::OneShot => "eval.one_shot",
        ArmName::NoSkill | ArmName::Initial | ArmName::Trained => "eval.no_skill",
    };
    format!("skillrl train {} --set {key}=on", run.display())
}

/// As [`of_pipeline`], with text to copy for a run of other settings.
pub(crate) fn of_run(error: &PipelineError) -> String {
    match error {
        PipelineError::Mismatch { path, changes } if !changes.iter().any(is_bank_of_old_default) => {
            // Another run does not lie in the run of all phases that this one is a phase of.
            let whole = path.parent().filter(|above| has_phases(above));
            let path = whole.unwrap_or(path);
            let free =
                (2..100).map(|n| format!("{}-{n}", path.display())).find(|name| !Path::new(name).exists());
            let named = free.unwrap_or_else(|| "DIR".to_owned());
            let set = if named.contains(char::is_whitespace) {
                format!("'run.dir={named}'")
            } else {
                format!("run.dir={named}")
            };
            format!("set these back to resume this run, or start a new one: `--set {set}`")
        }
        error => of_pipeline(error).to_owned(),
    }
}

/// What to do about an error of a run.
pub fn of_pipeline(error: &PipelineError) -> &'static str {
    match error {
        PipelineError::Rollout { source, .. } => of_env(source),
        PipelineError::Optimizer { source, .. } => of_model(source),
        PipelineError::Prompt(_) => "fix the file in the directory that `prompts.dir` names",
        PipelineError::Settings(error) => of_settings(error),
        PipelineError::Note(NoteRefusal::NoNote { .. }) => "`skillrl note RUN --list` lists them",
        PipelineError::Note(NoteRefusal::NothingToHold { .. } | NoteRefusal::NoEdit { .. }) => {
            "`skillrl show RUN --step N` shows the edits of a step"
        }
        PipelineError::Note(NoteRefusal::NoDocument) => {
            "`skillrl bank pin` and `skillrl bank retire` are for banks"
        }
        PipelineError::EmptySplit { .. } => "give the split at least one item, or change `env.split_ratio`",
        PipelineError::NoTrialTasks { .. } => {
            "give at least one type two training tasks (`env.max_train`, `env.split_ratio`), whatever `bank.trial_share` is; or set `bank.admit = \"unmeasured\"`"
        }
        PipelineError::RunDir { action: "lock", source, .. } if is_without_locks(source) => {
            "the file system has no locks, which a run needs: name another place, such as a local disk (of a run that is `run.dir`)"
        }
        PipelineError::RunDir { source, .. } => of_file(source),
        PipelineError::ChangedSkill { .. } => {
            "restore it (of best_skill.md the same `skillrl train` does that, and keeps what is there beside it), or name the file itself where a command takes one"
        }
        PipelineError::ChangedFile { .. } => {
            "restore the file from a copy; of a run, `skillrl check RUN` lists all damaged files and says what else brings each back"
        }
        PipelineError::Corrupt { .. } => {
            "`skillrl check RUN` lists all damaged files and says what brings each back; a file that no run wrote is restored from a copy"
        }
        PipelineError::MovedRunDir { .. } => {
            "start the same command with the new place of the directory as `run.dir`, or move it back first; everything finished is in it"
        }
        PipelineError::OtherFormat { .. } => "use the version of skillrl that wrote the run",
        PipelineError::NotARun { .. } => {
            "use another `run.dir`, or restore config.json; nothing was overwritten"
        }
        PipelineError::InsideARun { .. } => "take another `run.dir`; nothing was written there",
        PipelineError::NotVacant { .. } => {
            "take another `run.dir`, such as a new directory below this one; nothing was written there"
        }
        PipelineError::NoRun { .. } => "name a directory that `skillrl train` has written",
        PipelineError::NoStep { .. } => "name a finished step; `skillrl show RUN` lists them",
        PipelineError::Bank { source: BankError::OtherContents { .. }, .. } => {
            "name a bank of what is shown, or change `bank.show`; with `bank.show = \"episodes\"` `skillrl distill` makes a bank of episodes"
        }
        PipelineError::Bank { source: BankError::Pinned { .. }, .. } => {
            "unpin it with `skillrl bank unpin`, if it is to change"
        }
        PipelineError::Locked { holder: None, .. } => {
            "wait for it, or end it; `skillrl stop RUN` ends one that trains, after the step under way"
        }
        PipelineError::Locked { holder: Some(_), .. } => {
            "wait for it, or ask it to end with `skillrl stop RUN` after the step under way"
        }
        PipelineError::NotMeasured { .. } => {
            "try again after the baseline; if no process works on the run, start its command again"
        }
        PipelineError::Mismatch { changes, .. } if changes.iter().any(is_bank_of_old_default) => {
            "`--set train.mode=bank` resumes it; `--set run.dir=DIR` starts a run of all phases elsewhere"
        }
        PipelineError::Mismatch { changes, .. } if changes.iter().any(is_of_earlier_search) => {
            "its planned search is of an earlier version, which this one cannot continue: `skillrl show`, `report` and `check` read it; start a new run with another `run.dir`, from its best skill with `--set skill.initial=RUN/best_skill.md`"
        }
        PipelineError::Mismatch { .. } => {
            "set these back to resume this run, or start a new one with another `run.dir`"
        }
        PipelineError::Capped { .. } => OF_CAP,
        PipelineError::Journal(error) => of_journal(error),
        PipelineError::LostJournal { .. } => {
            "restore it from a copy, with its -wal file; a run that trains a document can continue without it by `skillrl train --new-journal`: requests that only the lost journal holds are not counted by caps, and are paid for again where they are needed"
        }
        PipelineError::Uncounted { .. } => {
            "a cap on calls holds: the same command with `--set budget.calls=N` resumes, and pays nothing twice"
        }
        PipelineError::Silent { .. } => {
            "`skillrl doctor` asks it one question; raise `models.target.max_tokens` and `env.max_tokens`, or have it think less; where the server was at fault, take its empty replies out of the journal (that of the run, or of --out) with `skillrl journal prune DIR --place PLACE`"
        }
        PipelineError::SilentOptimizer { .. } => {
            "`skillrl doctor` asks it for edits; raise `limits.max_reply_tokens` and `models.optimizer.max_tokens`, or have it think less; where the server was at fault, take its empty replies out of the journal with `skillrl journal prune RUN --place PLACE`"
        }
        PipelineError::StoppedUnkept => {
            "`skillrl eval --out DIR` keeps what it has measured, and resumes from there"
        }
        PipelineError::Halted | PipelineError::Stopped { .. } => "start the same command again to resume",
        other => other.hint(),
    }
}

/// True if the run was planned by the search of an earlier version, whose steps are no proposals.
fn is_of_earlier_search(change: &SettingChange) -> bool {
    matches!(change, SettingChange::Value { name, was, .. } if name == "train.protocol" && was == "auto")
}

/// True if the run trains a bank, as a world without a configuration once did, and all phases are asked for.
fn is_bank_of_old_default(change: &SettingChange) -> bool {
    matches!(change, SettingChange::Value { name, was, is }
        if name == "train.mode" && was == "bank" && is == RunKind::Phases.as_str())
}

/// What to do about settings of a run that cannot work.
fn of_settings(error: &SettingsError) -> &'static str {
    match error {
        SettingsError::StandardErrors { .. } => "change `gate.standard_errors`",
        SettingsError::Alpha { .. } => "change `gate.alpha`",
        SettingsError::TokenSaving { .. } => "change `gate.token_saving`",
        SettingsError::ScoreMargin { .. } => "change `gate.score_margin`",
        SettingsError::NotPlanned { setting: "evidence.mode", .. } => {
            "set `gate.mode` to \"strict\" or \"eprocess\", or `train.protocol` to \"paper\""
        }
        SettingsError::NotPlanned { setting: "evidence.saving", .. } => {
            "leave `gate.token_saving` out, or set `train.protocol` to \"paper\""
        }
        SettingsError::NotPlanned { setting: "acceptance", .. } => {
            "set `gate.enabled` to true, or `train.protocol` to \"paper\""
        }
        SettingsError::NotPlanned { .. } => {
            "leave the key of that name in `train` out, or set `train.protocol` to \"paper\""
        }
        SettingsError::SavingWithoutGate => "set `gate.enabled` to true, or leave `gate.token_saving` out",
        SettingsError::SmallSplit { .. } => {
            "give the split more items (`env.split_ratio`), or ask for less evidence (`gate.mode`)"
        }
        SettingsError::FewerSteps { .. } => "raise `train.epochs`, or start a new run with another `run.dir`",
        other => other.hint(),
    }
}

/// What to do about an error of an environment.
pub(crate) fn of_env(error: &EnvError) -> &'static str {
    match error {
        EnvError::Model(error) => of_model(error),
        EnvError::ReadData { .. } => "check `env.data` in the configuration; paths are relative to its file",
        EnvError::BadLine { .. } | EnvError::BadElement { .. } | EnvError::BadData { .. } => {
            "fix the data or the setting that names them, then run the same command again"
        }
        EnvError::BadCase { .. } => "fix the case, then run the same command again",
        EnvError::Configuration { .. } => "fix the `env` section of the configuration",
        EnvError::Program { .. } => "fix the environment's program, then start the same command again",
        EnvError::NoPoints { .. } => {
            "start the same command again: the judge is asked again; `skillrl try` shows what it answers, and another judge or prompt takes a new `run.dir`"
        }
        EnvError::Broken { .. } => {
            "start the same command again to resume; if it fails in the same way, fix the cause first"
        }
        other => other.hint(),
    }
}

/// Fields of a request that a server may not take, each with what is to be done about it.
const FIELDS: [(&str, &str); 12] = [
    (
        "seed",
        "the server takes no `seed`: leave it out of the model's settings, or set `seed_field = \"off\"`",
    ),
    ("temperature", "the server does not take this `temperature`: leave it out of the model's settings"),
    ("top_p", "the server does not take this `top_p`: leave it out of the model's settings"),
    (
        "max_completion_tokens",
        "the server does not take `max_completion_tokens`: set `max_tokens_field = \"max_tokens\"` for the model",
    ),
    (
        "max_tokens",
        "the server does not take this `max_tokens`: set another one, or `max_tokens_field = \"max_completion_tokens\"`",
    ),
    (
        "reasoning_effort",
        "the server does not take this `reasoning_effort`: leave `effort` out of the model's settings",
    ),
    ("logprobs", "the server gives no `logprobs`: leave them out of the model's settings"),
    (
        "response_format",
        "the server does not take this `response_format`: set `response_format = \"off\"` for the model",
    ),
    ("tool_choice", "the server does not take `tool_choice`: start it with tools, or take another model"),
    ("tools", "the server does not take `tools`: start it with tools, or take another model"),
    ("stop", "the server does not take `stop`: leave it out of the model's settings"),
    ("thinking", "the server does not take `thinking`: leave it out of the model's settings"),
];

/// Words of a server that refuses a field.
const REFUSED_FIELDS: [&str; 12] = [
    "extra inputs",
    "not permitted",
    "unsupported",
    "not supported",
    "deprecated",
    "unknown",
    "unrecognized",
    "unexpected",
    "not allowed",
    "unsupported parameter",
    "invalid value",
    "does not support",
];

/// What to do about a request that was not accepted.
fn of_bad_request(status: u16, message: &str) -> &'static str {
    let lower = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&["system role", "system message", "role 'system'", "roles must alternate", "`system` role"]) {
        return "the model has no system role: set `system_role = \"user\"` for it, which puts the system message, and with it the skill, at the head of the first user message";
    }
    let is_region = says(&["country", "region", "territory", "location is not", "legal reasons"]);
    match status {
        300..400 => {
            return "name the address itself as `base_url`, without a redirection; a page of a login means that a gateway in front of the server wants a sign-in";
        }
        400 | 403 | 451 if is_region => {
            return "the provider does not serve this country or region: take another provider, or an address of it that does";
        }
        403 if says(&["model"]) => {
            return "check the model's name, and that the account or project of the key may use this model";
        }
        403 => {
            return "the network between refuses this client (a firewall or gateway in front of the provider): try another network, or ask who runs the gateway to let it through";
        }
        405 => return "the address takes no such requests: check `base_url`, which usually ends in /v1",
        407 => {
            return "a proxy wants its own credentials: check `HTTPS_PROXY`, or name the host in `NO_PROXY`";
        }
        413 | 429 if says(&["per minute", "tpm"]) => {
            return "one request is larger than the account may send in a minute: raise the limit at the provider, or shorten skill, prompt and `train.minibatch_size`";
        }
        413 | 431 => {
            return "the request is too large for the server or a proxy in front of it: raise the limit there (such as `client_max_body_size`), or shorten skill, prompt and `train.minibatch_size`";
        }
        _ => {}
    }
    let is_refused = status == 422 || says(&REFUSED_FIELDS);
    let names = |field: &str| {
        [('`', '`'), ('\'', '\''), ('"', '"')]
            .iter()
            .any(|(open, close)| lower.contains(&format!("{open}{field}{close}")))
    };
    let field = FIELDS.iter().find(|(field, _)| is_refused && names(field));
    field.map_or(
        "check the model's name and its settings in the configuration; `skillrl doctor` names the nearest model that the server lists",
        |(_, hint)| hint,
    )
}

/// True if words of a server are those of a page of the web.
fn is_page(message: &str) -> bool {
    let lower = message.to_lowercase();
    ["<!doctype html", "<html", "<head>"].iter().any(|tag| lower.contains(tag))
}

/// What to do about an error of a model.
pub(crate) fn of_model(error: &LlmError) -> &'static str {
    match error {
        LlmError::RateLimited { .. } => "lower the number of workers, or start the same command again later",
        LlmError::QuotaExhausted { .. } => "add credit at the provider, then start the same command again",
        LlmError::Authentication { status: 403, .. } => {
            "check the key in the variable that `api_key_env` names, and what it may be used for; a gateway in front of the server may refuse the client too"
        }
        LlmError::Authentication { .. } => "check the key in the variable that `api_key_env` names",
        LlmError::StaleToken { .. } => "start the same command again: it asks for a fresh token",
        LlmError::NoToken { .. } => {
            "run the command of `api_key_command` in a terminal: it has to print a key and nothing else"
        }
        LlmError::Program { class, .. } => match class {
            ErrorClass::Authentication => {
                "log the program in, or name the variable with its key in `pass_env`"
            }
            ErrorClass::Configuration => "check that the program is installed, or name it with `command`",
            ErrorClass::RateLimited | ErrorClass::QuotaExhausted => {
                "start the same command again when the program's limit is over; `skillrl train --wait` waits for it"
            }
            _ => "look at what the program printed, in `agent_traces` of the run directory",
        },
        // The words of the dialects over HTTP where no server answers at the address.
        LlmError::BadRequest { message, .. } if message.starts_with("nothing at ") => {
            "check the address of the server: most answer below `/v1`, such as http://localhost:8000/v1 (`--base-url`, `base_url`)"
        }
        LlmError::BadRequest { status, message, .. } => of_bad_request(*status, message),
        LlmError::ContextTooLong { .. } => {
            "take a smaller `train.minibatch_size` or a model with a longer context"
        }
        LlmError::Refused { .. } => "look at the item that the request was about, or take another model",
        LlmError::ServerError { .. } | LlmError::Truncated { .. } => "start the same command again later",
        LlmError::Timeout { .. } => "raise the model's `timeout_s`, or start the same command again later",
        LlmError::GaveUp { why: GiveUpReason::ServerWait { .. }, .. } => {
            "start the same command again later, or raise `retry.max_server_wait_s` to wait so long"
        }
        LlmError::GaveUp { last, .. } => of_model(last),
        LlmError::BudgetExhausted { .. } => OF_CAP,
        LlmError::Journal { .. } => {
            "check the disk and `journal.sqlite` in the run directory, then start the same command again"
        }
        LlmError::NotRecorded { .. } => {
            "let it continue with the models, or see what has changed since the recording"
        }
        LlmError::InvalidReply { message, .. } if is_page(message) => {
            "a web page came instead of a reply: check `base_url`, and whether a gateway in front of the server wants a sign-in"
        }
        LlmError::InvalidReply { message, .. } if message.contains("charset") => {
            "nothing of this is scored: have the server write UTF-8, or name its charset in the header `content-type`"
        }
        LlmError::InvalidReply { .. } => {
            "check that `base_url` is an endpoint of the model's `kind`, usually ending in /v1"
        }
        LlmError::NoContent { .. } => {
            "nothing of this is scored: start the same command again once the server works; if it fails at the same item again, the model returns nothing for that item"
        }
        LlmError::HalfCharacter { .. } => {
            "nothing of this is scored: update the server, which cuts characters of several bytes; the other items go on, and the same command continues with this one"
        }
        LlmError::Cancelled => "start the same command again to resume",
        LlmError::MissingKey { .. } => "set the variable, or name another one with `api_key_env`",
        LlmError::NoRule { .. } => {
            "add a reply to its file of rules, and start with another `run.dir`: with other rules it is another model"
        }
        LlmError::Configuration { .. } => "fix the configuration, then start the same command again",
        other => other.hint(),
    }
}

/// What to do about a journal that cannot be used.
pub(crate) fn of_journal(error: &JournalError) -> &'static str {
    match error {
        JournalError::Sqlite { is_full: true, .. } | JournalError::Sent { is_full: true, .. } => {
            "make room, then start the same command again to resume"
        }
        // A run has no journal of another name: somebody named another file.
        JournalError::NotAJournal { path } if path.file_name().is_none_or(|name| name != JOURNAL_FILE) => {
            "name the directory of a run, which its configuration has as `run.dir`, or the journal.sqlite in it"
        }
        JournalError::NotAJournal { .. } => {
            "bring the journal back from a copy, or move the file away and continue with `skillrl train --new-journal`: calls that only it holds are then sent again"
        }
        JournalError::OtherSchema { .. } => "use the version of skillrl that wrote it",
        JournalError::Empty { .. } => "start the run once more, which makes its tables",
        JournalError::Corrupt { .. } => {
            "bring it back from a copy, recover it with `sqlite3 FILE .recover`, or move it away; a run then continues with `skillrl train --new-journal`, and calls that it no longer holds are sent again"
        }
        JournalError::Closed { .. } => "start the same command again to resume",
        other => other.hint(),
    }
}

/// What to do about a cap that is reached.
const OF_CAP: &str = "raise the cap in `[budget]`, then start the same command again to resume";

/// What to do about a file or a directory of a run that cannot be used.
fn of_file(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, then start the same command again"
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "a file is where a directory should be: name another place (of a run that is `run.dir`), or move the file"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "check who may write there, or name another place (of a run that is `run.dir`)"
        }
        _ => "check the path (of a run that is `run.dir`), its permissions and the free space",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_without_locks_is_told_from_a_full_or_protected_one() {
        let hint = |action, number| {
            let source = io::Error::from_raw_os_error(number);
            of_pipeline(&PipelineError::RunDir { action, path: Path::new("run").to_owned(), source })
        };
        // EOPNOTSUPP, ENOLCK and ENOSYS, then EACCES, ENOSPC and EIO.
        let without = [95, 37, 38].map(|number| hint("lock", number));
        assert!(without.iter().all(|hint| *hint == without[0]));
        assert!([13, 28, 5].map(|number| hint("lock", number)).iter().all(|hint| *hint != without[0]));
        // Another action that is not supported has nothing to do with locks.
        assert_ne!(hint("write", 95), without[0]);
    }

    #[test]
    fn refused_requests_lead_to_their_cause() {
        for (status, message, names) in [
            (302, "it redirects to https://login.example/sso", "sign-in"),
            (400, "User location is not supported for the API use.", "region"),
            (403, "Country, region, or territory not supported", "region"),
            (451, "Unavailable for legal reasons", "region"),
            (403, "Project does not have access to model `m`", "model"),
            (403, "error code: 1010", "gateway"),
            (405, "Method Not Allowed", "base_url"),
            (407, "Proxy Authentication Required", "NO_PROXY"),
            (413, "<html>413 Request Entity Too Large</html>", "client_max_body_size"),
            (413, "Request too large for model: 8000 tokens per minute (TPM)", "account"),
            (422, "`seed`: Extra inputs are not permitted", "seed_field"),
            (400, "property 'seed' is unsupported", "seed_field"),
            (400, "System role not supported", "system_role"),
            (400, "no such thing", "doctor"),
        ] {
            let hint = of_bad_request(status, message);
            assert!(hint.contains(names), "{status} {message}: {hint}");
        }
        let unreadable =
            |message: &str| LlmError::InvalidReply { provider: "p".to_owned(), message: message.to_owned() };
        for (message, names) in [
            ("it is not JSON: <!DOCTYPE html><title>Sign in</title>", "sign-in"),
            ("the body is not text in UTF-8, or in the charset that its header names", "UTF-8"),
            ("`choices` is empty", "base_url"),
        ] {
            let hint = of_model(&unreadable(message));
            assert!(hint.contains(names), "{message}: {hint}");
        }
    }
}
