//! Requests as bytes, so that nothing is put right on their way.

use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far longer than an answer takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer, its body put together.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
            .unwrap_or("")
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request of this line and these headers, and reads the whole answer.
pub(crate) fn send(address: SocketAddr, line: &str, headers: &[(&str, &str)]) -> Answer {
    send_with(address, line, headers, "")
}

/// The same with a body.
pub(crate) fn send_with(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = connect(address);
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    write!(stream, "{line} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { chunks(body.as_bytes()).concat() } else { body.as_bytes().to_vec() };
    Answer { status, head: head.to_owned(), body: String::from_utf8(body).unwrap() }
}

fn chunks(mut body: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    loop {
        let end = body.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let n_bytes = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if n_bytes == 0 {
            return found;
        }
        let from = end + 2;
        found.push(&body[from..from + n_bytes]);
        body = &body[from + n_bytes + 2..];
    }
}

/// A stream of news.
pub(crate) struct News {
    stream: BufReader<TcpStream>,
    /// What came while something else was waited for.
    waiting: VecDeque<(String, Value)>,
}

impl News {
    /// Opens the stream, as soon as there is one.
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        loop {
            let mut stream = connect(address);
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            let mut stream = BufReader::new(stream);
            let mut status = String::new();
            stream.read_line(&mut status).unwrap();
            if status.starts_with("HTTP/1.1 200 ") {
                return Self { stream, waiting: VecDeque::new() };
            }
        }
    }

    /// The next event: its name and its data; `None` when the stream has ended.
    pub(crate) fn next(&mut self) -> Option<(String, Value)> {
        let (mut name, mut data) = (None, Vec::new());
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // An event comes in one piece, and nothing around it looks like one of its lines.
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(": ") {
                Some(("event", found)) => name = Some(found.to_owned()),
                Some(("data", found)) => data.push(found.to_owned()),
                _ if line.is_empty() && name.is_some() => {
                    let data = data.join("\n");
                    let value = serde_json::from_str(&data).unwrap_or(Value::String(data));
                    return Some((name.unwrap(), value));
                }
                _ => {}
            }
        }
    }

    /// The next event of this name for which this holds; those of other names stay.
    pub(crate) fn until(&mut self, wanted: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut others = VecDeque::new();
        loop {
            let (name, data) = self.waiting.pop_front().or_else(|| self.next()).unwrap();
            if name != wanted {
                others.push_back((name, data));
            } else if is_it(&data) {
                others.append(&mut self.waiting);
                self.waiting = others;
                return data;
            }
        }
    }
}
