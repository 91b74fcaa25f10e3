//! The agent's program as a model that writes a text: descriptions, and drafts of queries.

use super::runs::last_words;
use super::{Caps, Ended, Launcher, Setup, Stop, Store, StoreError, prepare_plain};
use crate::read::{ReadOptions, last_text, read_case};
use std::io::ErrorKind;

/// How often a prompt is asked that comes to no reply.
const MAX_ATTEMPTS: usize = 2;

/// The agent's reply to a prompt, without tools and skills, in an empty directory. A reply on record is not asked for
/// again, and each start counts as one of a measurement.
///
/// # Errors
///
/// A directory that cannot be used.
pub async fn write(
    setup: &Setup,
    prompt: &str,
    store: &Store,
    launcher: &dyn Launcher,
    caps: &Caps,
) -> Result<Result<String, Stop>, StoreError> {
    let model = setup.model.as_deref().unwrap_or_default();
    let name = crate::skill::text_hash(&format!("{model}\n{prompt}"));
    let path = store.directory().join("writes").join(format!("{name}.txt"));
    let fault = |source| StoreError::File { path: path.clone(), source };
    match std::fs::read_to_string(&path) {
        Ok(reply) => return Ok(Ok(reply)),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fault(error)),
    }
    let mut said = String::new();
    for _ in 0..MAX_ATTEMPTS {
        if let Some(stop) = stop_before(store, caps)? {
            return Ok(Err(stop));
        }
        let workspace = launcher.workspace().map_err(fault)?;
        let prepared = prepare_plain(setup, prompt, workspace.path()).map_err(fault)?;
        store.note_start("write")?;
        let launched = match launcher.launch(&prepared.launch).await {
            Ok(launched) => launched,
            Err(error) => return Ok(Err(Stop::of_launch(&error))),
        };
        let found =
            read_case(setup.agent, std::slice::from_ref(&launched.stdout), &[], &ReadOptions::default());
        store.note_cost("write", caps.cost(found.usage.as_ref()))?;
        let reply = last_text(setup.agent, &launched.stdout);
        let failed = found.failed.iter().flatten().next();
        if failed.is_none() && matches!(launched.ended, Ended::Exited(_)) && !reply.trim().is_empty() {
            store.write(&path, reply.as_bytes())?;
            return Ok(Ok(reply));
        }
        let message =
            failed.map(|failed| failed.message.clone()).filter(|message| !message.trim().is_empty());
        let message = message.unwrap_or_else(|| last_words(&launched));
        let why = failed.map_or("the agent did not reply", |failed| failed.why.as_str());
        said = format!("{why}: {message}");
        let status = failed.and_then(|failed| failed.status);
        if let Some(stop) = Stop::of_trouble(launcher.trouble(&message, status), &said) {
            return Ok(Err(stop));
        }
    }
    Ok(Err(Stop::KeepsFailing(said)))
}

/// Why nothing more may be started; `None` where something may.
///
/// # Errors
///
/// A file that cannot be read.
pub fn stop_before(store: &Store, caps: &Caps) -> Result<Option<Stop>, StoreError> {
    Ok(caps.stop_after(store.n_starts()?, &store.spending()?))
}
