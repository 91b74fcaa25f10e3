//! What finished programs and calculations came to, on the disk: a run that is resumed does not repeat them.

use super::lab::Ran;
use serde_json::{Value, json};
use skill_sandbox::Termination;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What is kept, in bytes; the oldest go first when a process begins.
const MAX_BYTES: u64 = 1 << 30;

/// A directory with a file for each result, named by a hash of all that decides it.
#[derive(Debug, Clone)]
pub(super) struct Cache(PathBuf);

impl Cache {
    pub(super) fn open(directory: &Path) -> Self {
        prune(directory);
        Self(directory.to_owned())
    }

    /// What a program came to.
    pub(super) fn program(&self, key: &str) -> Option<Ran> {
        let (head, bytes) = self.read(key)?;
        let text = |name: &str| head.get(name).and_then(Value::as_str);
        let code = head.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let mut rest: &[u8] = &bytes;
        let mut files = BTreeMap::new();
        for file in head.get("files")?.as_array()? {
            let n_bytes = usize::try_from(file.get("n_bytes")?.as_u64()?).ok()?;
            let (content, behind) = rest.split_at_checked(n_bytes)?;
            files.insert(file.get("name")?.as_str()?.to_owned(), Arc::from(content));
            rest = behind;
        }
        Some(Ran {
            verdict: verdict(text("verdict")?, code)?,
            stdout: text("stdout")?.to_owned(),
            stderr: text("stderr")?.to_owned(),
            files,
        })
    }

    /// Keeps it, unless another run of the program could come to something else.
    pub(super) fn keep_program(&self, key: &str, ran: &Ran) {
        let code = match ran.verdict {
            Termination::Exited { code } => Some(code),
            Termination::OutOfMemory | Termination::TooManyProcesses | Termination::DiskFull => None,
            Termination::TimedOut | Termination::Killed { .. } => return,
        };
        let files: Vec<Value> =
            ran.files.iter().map(|(name, bytes)| json!({"name": name, "n_bytes": bytes.len()})).collect();
        let head = json!({
            "verdict": ran.verdict.as_str(), "code": code, "stdout": ran.stdout, "stderr": ran.stderr, "files": files,
        });
        let contents: Vec<&[u8]> = ran.files.values().map(|bytes| &**bytes).collect();
        self.write(key, &head, &contents.concat());
    }

    /// A calculated workbook.
    pub(super) fn calculated(&self, key: &str) -> Option<Arc<[u8]>> {
        self.read(key).map(|(_, bytes)| bytes)
    }

    pub(super) fn keep_calculated(&self, key: &str, bytes: &[u8]) {
        self.write(key, &json!({}), bytes);
    }

    /// The first line, and what is behind it.
    fn read(&self, key: &str) -> Option<(Value, Arc<[u8]>)> {
        let bytes = fs::read(self.0.join(key)).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let head: Value = serde_json::from_slice(bytes.get(..end)?).ok()?;
        let rest = bytes.get(end + 1..)?;
        // One that was not written to its end is none.
        (head.get("n_bytes")?.as_u64()? == rest.len() as u64).then(|| (head.clone(), Arc::from(rest)))
    }

    fn write(&self, key: &str, head: &Value, bytes: &[u8]) {
        let mut head = head.clone();
        if let Some(fields) = head.as_object_mut() {
            fields.insert("n_bytes".to_owned(), json!(bytes.len()));
        }
        let written = fs::create_dir_all(&self.0).and_then(|()| {
            let path = self.0.join(format!("{key}.{}.new", std::process::id()));
            let mut file = fs::File::create(&path)?;
            writeln!(file, "{head}")?;
            file.write_all(bytes)?;
            fs::rename(path, self.0.join(key))
        });
        if let Err(error) = written {
            // The result is known all the same.
            tracing::debug!(%error, directory = %self.0.display(), "a program's result is not kept");
        }
    }
}

/// The verdict of a name, of those that are kept.
fn verdict(name: &str, code: Option<i32>) -> Option<Termination> {
    let others = [Termination::OutOfMemory, Termination::TooManyProcesses, Termination::DiskFull];
    code.map(|code| Termination::Exited { code })
        .into_iter()
        .chain(others)
        .find(|verdict| verdict.as_str() == name)
}

fn prune(directory: &Path) {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        })
        .collect();
    let mut n_bytes: u64 = files.iter().map(|(_, n_bytes, _)| n_bytes).sum();
    files.sort();
    for (_, n_own, path) in files {
        if n_bytes <= MAX_BYTES {
            return;
        }
        if fs::remove_file(path).is_ok() {
            n_bytes = n_bytes.saturating_sub(n_own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(&directory.path().join("programs"));
        assert_eq!(cache.program("a"), None);
        let files = [("a.txt", &b""[..]), ("output.xlsx", &b"PK\n\0"[..])];
        let ran = Ran {
            verdict: Termination::Exited { code: 1 },
            stdout: "out\n".to_owned(),
            stderr: "err".to_owned(),
            files: files.map(|(name, bytes)| (name.to_owned(), Arc::from(bytes))).into(),
        };
        cache.keep_program("a", &ran);
        assert_eq!(cache.program("a"), Some(ran.clone()));
        let full = Ran { verdict: Termination::DiskFull, files: BTreeMap::new(), ..ran.clone() };
        cache.keep_program("b", &full);
        assert_eq!(cache.program("b"), Some(full));
        for verdict in [Termination::TimedOut, Termination::Killed { signal: 9 }] {
            cache.keep_program("c", &Ran { verdict, ..ran.clone() });
            assert_eq!(cache.program("c"), None);
        }
        let path = directory.path().join("programs/a");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(cache.program("a"), None);
    }
}
