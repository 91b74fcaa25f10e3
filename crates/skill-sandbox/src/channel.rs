//! What comes out of a sandbox: what the script sends, and what the program prints.

use crate::outcome::{OutputFile, Printed};
use crate::program::{Input, Outputs, Program};
use crate::script::{ENDED, check_path};
use crate::verdict::{Report, Seen};
use parking_lot::Mutex;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How much of the end of a stream is searched for the reason of a failure.
const SAID_BYTES: usize = 2048;

/// What came through the channel of the script.
pub(crate) struct Channelled {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_too_much: bool,
}

/// Reads all that the script sends, up to a limit.
pub(crate) fn read_channel(
    stream: Option<impl Read + Send + 'static>,
    max_bytes: u64,
) -> Receiver<Channelled> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What cannot be read has not been sent.
            drop(stream.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes));
        }
        let is_too_much = bytes.len() as u64 > max_bytes;
        drop(sender.send(Channelled { bytes, is_too_much }));
    });
    receiver
}

/// A stream of a program that is being read.
///
/// What has been read is there before the end of the stream: without a sandbox, a process that left the group of the
/// program may hold it open.
pub(crate) struct Reading {
    printed: Arc<Mutex<Printed>>,
    ended: Receiver<()>,
    limit: usize,
}

pub(crate) fn read_printed(stream: Option<impl Read + Send + 'static>, limit: usize) -> Reading {
    let (sender, ended) = channel();
    let printed = Arc::<Mutex<Printed>>::default();
    let of_thread = Arc::clone(&printed);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        if let Some(mut stream) = stream {
            while let Ok(n_read) = stream.read(&mut buffer) {
                match buffer.get(..n_read) {
                    Some(bytes) if n_read > 0 => of_thread.lock().add(bytes, limit),
                    Some(_) | None => break,
                }
            }
        }
        let _ = sender.send(());
    });
    Reading { printed, ended, limit }
}

impl Reading {
    /// What was printed until the end of the stream, or until the time is up.
    pub(crate) fn within(self, time: Duration) -> Printed {
        // What is there is taken in both cases.
        let _ = self.ended.recv_timeout(time);
        let mut printed = std::mem::take(&mut *self.printed.lock());
        printed.cut(self.limit);
        printed
    }
}

/// The lines about the end of the program, and the archive behind them.
pub(crate) fn report(said: &[u8]) -> (Option<Report>, &[u8]) {
    let parsed = said.strip_prefix(ENDED).and_then(|rest| {
        let (ended, rest) = first_line(rest)?;
        let (_, rest) = first_line(rest)?;
        let (times, archive) = first_line(rest)?;
        let numbers: Vec<u64> = ended.split(' ').map_while(|number| number.parse().ok()).collect();
        let [code, full, n_oom_kills, n_refused_forks] = numbers[..] else { return None };
        let seen = match (n_oom_kills, n_refused_forks) {
            (0, 0) => None,
            (0, _) => Some(Seen::Processes),
            (_, _) => Some(Seen::Memory),
        };
        let report =
            Report { code: i32::try_from(code).ok()?, is_disk_full: full == 1, seen, cpu: cpu_time(times) };
        Some((Some(report), archive))
    });
    parsed.unwrap_or((None, &[]))
}

fn first_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = bytes.split_at_checked(end)?;
    Some((str::from_utf8(line).ok()?, rest.get(1..)?))
}

/// The sum of the times of a shell, such as `0m1.25s 0m0.04s`.
fn cpu_time(line: &str) -> Option<Duration> {
    let times = line.split_ascii_whitespace().map(|time| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        let seconds = Duration::try_from_secs_f64(seconds.replace(',', ".").parse().ok()?).ok()?;
        Duration::from_secs(minutes.parse::<u64>().ok()?.checked_mul(60)?).checked_add(seconds)
    });
    times.sum::<Option<Duration>>()
}

/// The regular files of an archive that were asked for.
pub(crate) fn files_of(archive: &[u8], program: &Program, max_bytes: u64) -> Vec<OutputFile> {
    let may_be_changed = |content: &Input| matches!(content, Input::Writable(_) | Input::Executable(_));
    let is_fixed =
        |name: &str| program.inputs.iter().any(|(input, content)| input == name && !may_be_changed(content));
    let is_wanted = |name: &str| match &program.outputs {
        Outputs::None => false,
        Outputs::Named(names) => names.iter().any(|wanted| wanted == name),
        Outputs::All => !is_fixed(name),
    };
    let mut archive = tar::Archive::new(archive);
    let mut files = Vec::new();
    let mut n_left = max_bytes;
    // An archive that cannot be read further was cut: what came before is whole.
    for entry in archive.entries().into_iter().flatten().map_while(Result::ok) {
        let path = entry.path().map(|path| path.to_string_lossy().into_owned());
        let Ok(name) = path.map(|path| path.trim_start_matches("./").to_owned()) else { continue };
        let size = entry.size();
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
        if entry.header().entry_type().is_file()
            && check_path(&name).is_ok()
            && is_wanted(&name)
            && size <= n_left
        {
            let mut bytes = Vec::new();
            if entry.take(size).read_to_end(&mut bytes).is_ok() && bytes.len() as u64 == size {
                n_left -= size;
                files.push(OutputFile { name, bytes, is_executable });
            }
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    files
}

/// The end of what was printed.
pub(crate) fn last_words(stdout: &Printed, stderr: &Printed) -> String {
    let end = |printed: &Printed| {
        let all = [printed.head.as_slice(), &printed.tail].concat();
        let at = all.len().saturating_sub(SAID_BYTES);
        String::from_utf8_lossy(all.get(at..).unwrap_or_default()).into_owned()
    };
    // A program that says why it failed says so on its standard error.
    let said = end(stderr);
    if said.trim().is_empty() { end(stdout) } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Sender;

    #[track_caller]
    fn check(said: &str, expect: Option<(i32, Option<Seen>, Option<u64>)>) {
        let (found, archive) = report(said.as_bytes());
        let millis = |cpu: Duration| u64::try_from(cpu.as_millis()).unwrap();
        assert_eq!(found.map(|found| (found.code, found.seen, found.cpu.map(millis))), expect, "{said:?}");
        assert_eq!(archive.is_empty(), expect.is_none());
    }

    /// A stream that somebody else holds open.
    struct HeldOpen {
        said: Option<&'static [u8]>,
        is_read: Sender<()>,
        end: Receiver<()>,
    }

    impl Read for HeldOpen {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.said.take() {
                Some(mut said) => said.read(buffer),
                None => {
                    self.is_read.send(()).unwrap();
                    self.end.recv().unwrap();
                    Ok(0)
                }
            }
        }
    }

    #[test]
    fn what_was_read_of_a_stream_that_stays_open_is_kept() {
        let ((is_read, has_read), (end, ended)) = (channel(), channel());
        let reading = read_printed(Some(HeldOpen { said: Some(b"12345"), is_read, end: ended }), 2);
        has_read.recv().unwrap();
        let printed = reading.within(Duration::ZERO);
        assert_eq!((printed.head.as_slice(), printed.tail.as_slice()), (&b"12"[..], &b"45"[..]));
        end.send(()).unwrap();
    }

    #[test]
    fn the_end_of_a_program_is_read_with_its_counts_and_times() {
        check("ended 3 0 0 0\n0m0.00s 0m0.00s\n1m1.25s 0m0.250000s\ntar", Some((3, None, Some(61_500))));
        check(
            "ended 137 0 2 9\n0m0.0s 0m0.0s\n0m0,5s 0m0.0s\ntar",
            Some((137, Some(Seen::Memory), Some(500))),
        );
        check("ended 1 1 0 9\n\nunknown\ntar", Some((1, Some(Seen::Processes), None)));
        check("ended 1 0\n0m0.0s 0m0.0s\n0m0.0s 0m0.0s\ntar", None);
        check("ended 1 0 0 0\n0m0.0s", None);
        check("", None);
    }
}
