//! An evaluation of many long items: the memory that it takes.

use super::{Timed, take};
use crate::Failure;
use crate::server::Server;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Calls in flight.
pub(crate) const WORKERS: u32 = 256;
/// The text of an item, in bytes.
pub(crate) const ITEM_BYTES: usize = 5_600;
/// How long a reply takes.
const LATENCY_MS: &str = "50";

/// Evaluates a skill on so many items with `eval --out`, in a directory that is there.
pub(super) fn evaluate(
    program: &Path,
    dir: &Path,
    n_items: u32,
    repetitions: usize,
) -> Result<Timed, Failure> {
    let server = Server::start(&["--latency-ms", LATENCY_MS])?;
    let data = dir.join("data");
    std::fs::create_dir_all(&data)?;
    for (split, n_items) in [("train", 2), ("val", n_items), ("test", 2)] {
        write_items(&data.join(format!("{split}.jsonl")), split, n_items)?;
    }
    let config = dir.join("skillrl.toml");
    std::fs::write(&config, configuration(server.address()))?;
    std::fs::write(dir.join("skill.md"), "# Words\n\n- Answer with one word.\n")?;
    let took: Result<_, Failure> = (0..repetitions)
        .map(|repetition| {
            let out = dir.join(format!("out-{repetition}"));
            let args = ["eval".as_ref(), config.as_os_str(), "--split".as_ref(), "val".as_ref()];
            let args = args.into_iter().chain(["--out".as_ref(), out.as_os_str(), "--quiet".as_ref()]);
            let took = take(program, &args.collect::<Vec<_>>())?;
            std::fs::remove_dir_all(&out)?;
            Ok(took)
        })
        .collect();
    Ok(Timed { what: "eval --out".to_owned(), took: took? })
}

fn configuration(address: &str) -> String {
    let model = format!("{{ kind = \"openai\", model = \"mock\", base_url = \"{address}/v1\" }}");
    format!(
        "[run]\ndir = \"run\"\nworkers = {WORKERS}\n\n[models]\ntarget = {model}\noptimizer = {model}\n\n\
         [env]\nkind = \"tasks\"\ndata = \"data\"\nscorer = \"exact\"\n\n[skill]\ninitial = \"skill.md\"\n"
    )
}

fn write_items(path: &Path, split: &str, n_items: u32) -> Result<(), Failure> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    for number in 0..n_items {
        let mut text = String::new();
        let mut word = number;
        while text.len() < ITEM_BYTES {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            write!(text, "{word:x} ")?;
        }
        writeln!(
            out,
            r#"{{"id": "{split}-{number}", "question": "Which word is number {number}?", "context": "{}", "answers": ["{word:x}"]}}"#,
            text.trim_end()
        )?;
    }
    out.flush()?;
    Ok(())
}
