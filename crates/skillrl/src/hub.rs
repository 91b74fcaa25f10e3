//! Data sets of the Hugging Face Hub: downloaded once per revision, and kept as JSON Lines.
//!
//! The Hub converts public data sets to Parquet on a branch of their own. [`Hub::fetch`] pins the revision of that branch
//! in the name of the directory, so that a configuration that names the directory repeats the run exactly.

use serde_json::Value;
use skill_core::python_json;
use skill_envs::EnvError;
use skill_envs::Split;
use skill_envs::tasks::{split_of_file, write_json_lines};
use skill_llm::transport::{HttpMethod, HttpRequest, HttpResponse, Transport};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address of the Hub.
pub const HUB_ENDPOINT: &str = "https://huggingface.co";

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The most bytes of all files of a data set.
const MAX_BYTES: u64 = 1 << 30;
/// The most redirections from the Hub to where its files are.
const MAX_REDIRECTIONS: usize = 5;
/// The most pages of a list of files.
const MAX_PAGES: usize = 100;
/// So many characters of a revision are in the name of a directory.
const SHOWN_REVISION: usize = 12;
/// The name of a data set of the Hub, such as `hf://owner/name`, `hf://owner/name/CONFIG` or `hf://owner/name:test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    id: String,
    config: Option<String>,
    split: Option<String>,
}

impl HubName {
    /// Reads a name; `None` if the text does not begin with `hf://` or has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("hf://")?;
        let rest = rest.strip_prefix("datasets/").unwrap_or(rest);
        let (path, split) = match rest.split_once(':') {
            Some((path, split)) => (path, Some(split)),
            None => (rest, None),
        };
        let words: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        let is_word = |word: &&str| {
            !word.is_empty()
                && !word.starts_with('.')
                && word
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
        };
        if !words.iter().chain(&split).all(is_word) {
            return None;
        }
        let (id, config) = match words.as_slice() {
            [owner, name] => (format!("{owner}/{name}"), None),
            [owner, name, config] => (format!("{owner}/{name}"), Some((*config).to_owned())),
            _ => return None,
        };
        Some(Self { id, config, split: split.map(str::to_owned) })
    }

    /// The name without its owner, for the name of a run.
    pub fn short(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or(&self.id)
    }

    fn folder(&self, revision: &str) -> String {
        let words = [Some(self.id.replace('/', "--")), self.config.clone(), self.split.clone()];
        let words = words.into_iter().flatten().chain([revision.to_owned()]);
        words.collect::<Vec<_>>().join("-")
    }
}

/// A data set that cannot be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The Hub cannot be reached, and no copy is on this machine.
    #[error("cannot reach {url}: {message}")]
    Unreachable {
        /// The address.
        url: String,
        /// What the network said.
        message: String,
    },
    /// The Hub has no public data set of this name.
    #[error("{endpoint} has no public data set `{id}`")]
    NotFound {
        /// The Hub.
        endpoint: String,
        /// The data set.
        id: String,
    },
    /// An answer that is not as the Hub's interface has it.
    #[error("{url} answered with {what}")]
    Answer {
        /// The address.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// A data set has none of the parts that were asked for.
    #[error("the data set `{id}` has no {what} `{name}`; it has {}", known.join(", "))]
    NoPart {
        /// The data set.
        id: String,
        /// `configuration` or `split`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A data set has several configurations, and none was named.
    #[error("the data set `{id}` has several configurations: {}", known.join(", "))]
    Ambiguous {
        /// The data set.
        id: String,
        /// Its configurations.
        known: Vec<String>,
    },
    /// A data set is too large to be downloaded.
    #[error("the data set `{id}` has {bytes} bytes, more than {MAX_BYTES}")]
    TooLarge {
        /// The data set.
        id: String,
        /// The bytes of its files.
        bytes: u64,
    },
    /// A file of the copy cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the data set cannot be read.
    #[error(transparent)]
    Data(#[from] EnvError),
}

impl HubError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => {
                "check the network, or download the data set elsewhere and name its files"
            }
            Self::NotFound { .. } => {
                "check the name; data sets that need a login are downloaded with `hf download` and named as files"
            }
            Self::Answer { .. } => "try again later, or download the data set and name its files",
            Self::NoPart { .. } => "name one of them, as in hf://OWNER/NAME/CONFIG or hf://OWNER/NAME:SPLIT",
            Self::Ambiguous { .. } => "name one of them, as in hf://OWNER/NAME/CONFIG",
            Self::TooLarge { .. } => "name one split, as in hf://OWNER/NAME:test, or prepare a smaller file",
            Self::Write { .. } => "make room, or start in a directory that can be written",
            Self::Data(_) => "this data set cannot be read; convert it to JSON Lines and name the file",
        }
    }
}

/// The Hub, reached by a transport.
pub struct Hub<'a> {
    endpoint: String,
    transport: &'a dyn Transport,
}

/// A file of a data set.
struct HubFile {
    config: String,
    split: String,
    path: String,
    bytes: u64,
    /// The Hub has converted only the beginning of its split, which is too large for it.
    is_partial: bool,
}

/// What an entry of the tree of a revision is.
enum TreeEntry {
    Data(HubFile),
    /// A Parquet file with a path of another form, which is not read.
    OtherParquet(String),
    Other,
}

impl<'a> Hub<'a> {
    /// The Hub at an address, such as [`HUB_ENDPOINT`].
    pub fn new(endpoint: &str, transport: &'a dyn Transport) -> Self {
        Self { endpoint: endpoint.trim_end_matches('/').to_owned(), transport }
    }

    /// Downloads a data set below a directory, unless this revision of it is there; returns what `env.data` names: a
    /// directory with `train` and `validation` or `test`, or one file.
    ///
    /// Without a network, the copy of an earlier revision is taken, if there is one alone.
    ///
    /// # Errors
    ///
    /// See [`HubError`].
    pub async fn fetch(&self, name: &HubName, below: &Path) -> Result<PathBuf, HubError> {
        let revision = match self.revision(name).await {
            Ok(revision) => revision,
            Err(error @ HubError::Unreachable { .. }) => return copy_of(name, below).ok_or(error),
            Err(error) => return Err(error),
        };
        let shown: String = revision.chars().take(SHOWN_REVISION).collect();
        let folder = below.join(name.folder(&shown));
        if !folder.is_dir() {
            let files = self.files(name, &revision).await?;
            self.download(name, &revision, &files, &folder).await?;
        }
        Ok(data_in(&folder))
    }

    async fn revision(&self, name: &HubName) -> Result<String, HubError> {
        let url = format!("{}/api/datasets/{}/revision/refs%2Fconvert%2Fparquet", self.endpoint, name.id);
        let body = self.json(&url, name).await?;
        let is_hash = |text: &&str| !text.is_empty() && text.chars().all(|digit| digit.is_ascii_hexdigit());
        let revision = body.get("sha").and_then(Value::as_str).filter(is_hash);
        revision.map(str::to_owned).ok_or(HubError::Answer { url, what: "no revision".to_owned() })
    }

    /// The files of the configuration and the splits that are asked for, in order.
    async fn files(&self, name: &HubName, revision: &str) -> Result<Vec<HubFile>, HubError> {
        let url = format!("{}/api/datasets/{}/tree/{revision}?recursive=true", self.endpoint, name.id);
        let (mut files, mut left_out): (Vec<HubFile>, Vec<String>) = (Vec::new(), Vec::new());
        let mut next = Some(url.clone());
        for _ in 0..MAX_PAGES {
            let Some(page) = next.take() else { break };
            let response = self.get(&page, name).await?;
            let Value::Array(entries) = json_of(&page, &response)? else {
                return Err(wrong_answer(&page, "something that is not a list of files".to_owned()));
            };
            for entry in &entries {
                match tree_entry(entry).map_err(|what| wrong_answer(&page, what))? {
                    TreeEntry::Data(file) => files.push(file),
                    TreeEntry::OtherParquet(path) => left_out.push(path),
                    TreeEntry::Other => {}
                }
            }
            next = next_page(&page, &response)?;
        }
        if next.is_some() {
            return Err(wrong_answer(&url, format!("more than {MAX_PAGES} pages of files")));
        }
        files.sort_by(|first, second| first.path.cmp(&second.path));
        let known = |of: fn(&HubFile) -> &String| -> Vec<String> {
            files.iter().map(of).cloned().collect::<BTreeSet<_>>().into_iter().collect()
        };
        let configs = known(|file| &file.config);
        let config = match (&name.config, configs.as_slice()) {
            (Some(asked), _) if configs.contains(asked) => asked.clone(),
            (Some(asked), _) => {
                let (id, name) = (name.id.clone(), asked.clone());
                return Err(HubError::NoPart { id, what: "configuration", name, known: configs });
            }
            (None, []) => return Err(HubError::Answer { url, what: "no Parquet files".to_owned() }),
            (None, [only]) => only.clone(),
            (None, several) if several.iter().any(|config| config == "default") => "default".to_owned(),
            (None, _) => return Err(HubError::Ambiguous { id: name.id.clone(), known: configs }),
        };
        // Without a part of the rows the data set would be another one.
        let of_config = format!("{config}/");
        if let Some(path) = left_out.iter().find(|path| path.starts_with(&of_config)) {
            return Err(wrong_answer(&url, format!("a Parquet file whose name is not read: {path:?}")));
        }
        files.retain(|file| file.config == config);
        if let Some(split) = &name.split {
            let known: BTreeSet<String> = files.iter().map(|file| file.split.clone()).collect();
            files.retain(|file| file.split == *split);
            if files.is_empty() {
                let (id, known) = (name.id.clone(), known.into_iter().collect());
                return Err(HubError::NoPart { id, what: "split", name: split.clone(), known });
            }
        }
        for split in
            files.iter().filter(|file| file.is_partial).map(|file| &file.split).collect::<BTreeSet<_>>()
        {
            tracing::warn!(id = %name.id, "the Hub offers only the beginning of the split `{split}`, which is too large");
        }
        let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        if bytes > MAX_BYTES {
            return Err(HubError::TooLarge { id: name.id.clone(), bytes });
        }
        Ok(files)
    }

    /// Writes the splits as JSON Lines into a directory, whole or not at all.
    async fn download(
        &self,
        name: &HubName,
        revision: &str,
        files: &[HubFile],
        folder: &Path,
    ) -> Result<(), HubError> {
        let mut partial = folder.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| HubError::Write { path, source }
        };
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(write(&partial))?;
        }
        fs::create_dir_all(&partial).map_err(write(&partial))?;
        let mut splits = BTreeMap::<&str, Vec<PathBuf>>::new();
        for file in files {
            let url = format!("{}/datasets/{}/resolve/{revision}/{}", self.endpoint, name.id, file.path);
            let body = self.get(&url, name).await?.body;
            let of_split = splits.entry(&file.split).or_default();
            let path = partial.join(format!("{}-{}.parquet", file.split, of_split.len()));
            fs::write(&path, body).map_err(write(&path))?;
            of_split.push(path);
        }
        for (split, parts) in splits {
            write_json_lines(&parts, &partial.join(format!("{split}.jsonl")))?;
            for part in parts {
                fs::remove_file(&part).map_err(write(&part))?;
            }
        }
        fs::rename(&partial, folder).map_err(write(folder))
    }

    async fn json(&self, url: &str, name: &HubName) -> Result<Value, HubError> {
        json_of(url, &self.get(url, name).await?)
    }

    /// Reads an address; redirections lead from the Hub to the store of its files.
    async fn get(&self, url: &str, name: &HubName) -> Result<HttpResponse, HubError> {
        let mut at = url.to_owned();
        for _ in 0..=MAX_REDIRECTIONS {
            let request = HttpRequest {
                method: HttpMethod::Get,
                url: at.clone(),
                headers: Vec::new(),
                body: Vec::new(),
                timeout: Some(TIMEOUT),
                max_response_bytes: usize::try_from(MAX_BYTES).unwrap_or(usize::MAX),
            };
            let response = self.transport.send(request).await;
            let response = response.map_err(|error| HubError::Unreachable {
                url: self.endpoint.clone(),
                message: error.to_string(),
            })?;
            match (response.status, response.header("location")) {
                (200, _) => return Ok(response),
                (301 | 302 | 303 | 307 | 308, Some(location)) => {
                    let next = url::Url::parse(&at).and_then(|base| base.join(location));
                    at = next
                        .map_err(|error| wrong_answer(&at, format!("a wrong redirection: {error}")))?
                        .into();
                }
                // Private data sets are not told from missing ones.
                (401 | 403 | 404, _) => {
                    return Err(HubError::NotFound { endpoint: self.endpoint.clone(), id: name.id.clone() });
                }
                (status, _) => return Err(wrong_answer(&at, format!("the status {status}"))),
            }
        }
        Err(wrong_answer(url, "too many redirections".to_owned()))
    }
}

fn json_of(url: &str, response: &HttpResponse) -> Result<Value, HubError> {
    let text = response.text().map_err(|fault| wrong_answer(url, fault.to_string()))?;
    python_json::read(&text)
        .map_err(|error| wrong_answer(url, format!("something that is not JSON: {error}")))
}

/// The address of the next page of a list, from the header `link` (RFC 8288); it has to be at the same server.
fn next_page(url: &str, response: &HttpResponse) -> Result<Option<String>, HubError> {
    let links = response.header("link").unwrap_or_default();
    let next = links.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        parameters
            .replace([' ', '"'], "")
            .split(';')
            .any(|parameter| parameter == "rel=next")
            .then_some(target)
    });
    let Some(next) = next else { return Ok(None) };
    let wrong = || wrong_answer(url, format!("a wrong address of its next page: {next}"));
    let base = url::Url::parse(url).map_err(|_| wrong())?;
    let address = base.join(next).map_err(|_| wrong())?;
    if address.origin() != base.origin() {
        return Err(wrong());
    }
    Ok(Some(address.into()))
}

fn wrong_answer(url: &str, what: String) -> HubError {
    HubError::Answer { url: url.to_owned(), what }
}

/// An entry of the tree of a revision, whose Parquet files are `CONFIG/SPLIT/NUMBER.parquet`; the error is what is wrong.
fn tree_entry(entry: &Value) -> Result<TreeEntry, String> {
    let Some(path) = entry.get("path").and_then(Value::as_str) else {
        return Err("a list of files with an entry without a path".to_owned());
    };
    let is_folder = entry.get("type").and_then(Value::as_str) == Some("directory");
    if is_folder || !path.ends_with(".parquet") {
        return Ok(TreeEntry::Other);
    }
    let words: Vec<&str> = path.split('/').collect();
    let is_safe =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let [config, named, _] = words.as_slice() else { return Ok(TreeEntry::OtherParquet(path.to_owned())) };
    if !words.iter().all(|word| is_safe(word)) {
        return Ok(TreeEntry::OtherParquet(path.to_owned()));
    }
    let bytes = entry.get("size").and_then(Value::as_u64);
    let split = named.strip_prefix("partial-");
    Ok(TreeEntry::Data(HubFile {
        config: (*config).to_owned(),
        split: split.unwrap_or(named).to_owned(),
        path: path.to_owned(),
        bytes: bytes.ok_or_else(|| format!("no size of the file {path}"))?,
        is_partial: split.is_some(),
    }))
}

/// What is named as data: the directory where it has a part to train on and another one, else the file to be split.
fn data_in(folder: &Path) -> PathBuf {
    let names = || fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let has = |split: Split| names().any(|path| split_of_file(&path) == Some(split));
    if has(Split::Train) && (has(Split::Test) || has(Split::Val)) {
        return folder.to_owned();
    }
    let mut paths: Vec<PathBuf> = names().collect();
    paths.sort_by_key(|path| (split_of_file(path).is_none(), split_of_file(path), path.clone()));
    paths.into_iter().next().unwrap_or_else(|| folder.to_owned())
}

/// The only copy of a data set that is on this machine.
fn copy_of(name: &HubName, below: &Path) -> Option<PathBuf> {
    let beginning = name.folder("");
    let is_copy = |path: &PathBuf| {
        let revision = path.file_name().and_then(|found| found.to_str()?.strip_prefix(&beginning));
        path.is_dir() && revision.is_some_and(|text| text.chars().all(|digit| digit.is_ascii_hexdigit()))
    };
    let mut copies = fs::read_dir(below).ok()?.flatten().map(|entry| entry.path()).filter(is_copy);
    let copy = copies.next()?;
    if copies.next().is_some() {
        return None;
    }
    tracing::warn!(copy = %copy.display(), "the Hub cannot be reached; the copy of the data set is used");
    Some(data_in(&copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_files_has_pages() {
        let at = |link: &str| {
            let headers = vec![("link".to_owned(), link.to_owned())];
            let response = HttpResponse { status: 200, headers, body: Vec::new() };
            next_page("https://hub.example/api/tree/1", &response)
        };
        for (link, expect) in [
            (
                "<https://hub.example/api/tree/1?cursor=a>; rel=\"next\"",
                Some("https://hub.example/api/tree/1?cursor=a"),
            ),
            ("</api/tree/1?cursor=b>;rel=next", Some("https://hub.example/api/tree/1?cursor=b")),
            (
                "<https://hub.example/x>; rel=\"prev\", <https://hub.example/y>; rel=\"next\"",
                Some("https://hub.example/y"),
            ),
            ("<https://hub.example/x>; rel=\"prev\"", None),
            ("", None),
        ] {
            assert_eq!(at(link).unwrap().as_deref(), expect, "{link}");
        }
        // A list goes on at its own server alone.
        assert!(at("<https://other.example/x>; rel=\"next\"").is_err());
    }

    /// A server that answers everything with one text.
    struct Always(String);

    #[async_trait::async_trait]
    impl Transport for Always {
        async fn send(&self, _: HttpRequest) -> Result<HttpResponse, skill_llm::transport::TransportError> {
            Ok(HttpResponse { status: 200, headers: Vec::new(), body: self.0.as_bytes().to_vec() })
        }
    }

    /// Each of these answers would otherwise drop rows of the data set.
    #[tokio::test]
    async fn no_file_of_a_data_set_is_left_out() {
        const ONE: &str = r#"{"type": "file", "path": "default/train/0000.parquet", "size": 7}"#;
        let name = HubName::parse("hf://team/tickets").unwrap();
        for (tree, expect) in [
            (format!("[{ONE}]"), Some((1, false))),
            (format!(r#"[{ONE}, {{"path": "other one/train/0.parquet", "size": 7}}]"#), Some((1, false))),
            (r#"[{"path": "default/partial-train/0000.parquet", "size": 7}]"#.to_owned(), Some((1, true))),
            (format!("{{\"files\": [{ONE}]}}"), None),
            (format!(r#"[{ONE}, {{"path": "default/train/0001.parquet"}}]"#), None),
            (format!(r#"[{ONE}, {{"path": "default/train/00 01.parquet", "size": 7}}]"#), None),
            (format!(r#"[{ONE}, {{"size": 7}}]"#), None),
        ] {
            let transport = Always(tree.clone());
            let found = Hub::new(HUB_ENDPOINT, &transport).files(&name, "1").await;
            match (found, expect) {
                (Ok(files), Some(expect)) => {
                    assert_eq!((files.len(), files[0].is_partial), expect, "{tree}");
                }
                (Err(HubError::Answer { .. }), None) => {}
                (found, _) => panic!("{tree}: {:?}", found.map(|files| files.len())),
            }
        }
    }

    #[test]
    fn parts_stay_what_they_are() {
        #[track_caller]
        fn check(files: &[&str], expect: &str) {
            let dir = tempfile::tempdir().unwrap();
            files.iter().for_each(|name| fs::write(dir.path().join(name), "{}").unwrap());
            let found = data_in(dir.path());
            assert_eq!(found.strip_prefix(dir.path()).unwrap(), Path::new(expect), "{files:?}");
        }
        check(&["train.jsonl", "validation.jsonl", "test.jsonl"], "");
        check(&["train.jsonl", "test.jsonl"], "");
        check(&["train.jsonl", "validation.jsonl"], "");
        check(&["train.jsonl", "validation_matched.jsonl", "unsupervised.jsonl"], "");
        check(&["train.jsonl"], "train.jsonl");
        check(&["train.jsonl", "unsupervised.jsonl"], "train.jsonl");
        check(&["test.jsonl"], "test.jsonl");
        check(&["test.jsonl", "validation.jsonl"], "validation.jsonl");
    }
}
