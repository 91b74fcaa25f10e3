//! Messages in parts: a broker limits one message to about a megabyte, and a request may hold images.

use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The most bytes of a whole message.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// The most bytes of all messages of which parts are missing.
const MAX_INCOMPLETE_BYTES: usize = 2 * MAX_MESSAGE_BYTES;
/// The most messages of which parts are missing.
const MAX_INCOMPLETE: usize = 4096;
/// The bytes of a part besides its content, at most.
const HEAD_BYTES: usize = 128;
/// A part begins with this, a whole message with a brace.
const MARK: &[u8] = b"part ";

/// Splits a message into parts of at most `max_payload` bytes; `id` names the message among those of its sender.
pub(crate) fn split(message: Vec<u8>, id: &str, max_payload: usize) -> Vec<Bytes> {
    let room = max_payload.saturating_sub(HEAD_BYTES).max(1);
    if message.len() <= max_payload {
        return vec![message.into()];
    }
    let parts: Vec<&[u8]> = message.chunks(room).collect();
    let n_parts = parts.len();
    let framed = parts.into_iter().enumerate().map(|(part_idx, content)| {
        let mut part = format!("part {id} {part_idx} {n_parts}\n").into_bytes();
        part.extend_from_slice(content);
        part.into()
    });
    framed.collect()
}

/// Puts messages together.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    incomplete: HashMap<String, Incomplete>,
    /// The messages of which parts are missing, the oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Incomplete {
    parts: BTreeMap<usize, Bytes>,
    n_parts: usize,
    bytes: usize,
}

impl Assembler {
    /// The whole message that this payload is, or completes. Parts of an unknown message are dropped; the oldest
    /// incomplete messages give way.
    pub(crate) fn take(&mut self, payload: Bytes) -> Option<Bytes> {
        let Some(rest) = payload.strip_prefix(MARK) else { return Some(payload) };
        let end = rest.iter().take(HEAD_BYTES).position(|byte| *byte == b'\n')?;
        let (head, content) = rest.split_at_checked(end)?;
        let content = payload.slice_ref(content.get(1..)?);
        let mut words = std::str::from_utf8(head).ok()?.split(' ');
        let (id, part_idx, n_parts) = (words.next()?, words.next()?, words.next()?);
        let (part_idx, n_parts): (usize, usize) = (part_idx.parse().ok()?, n_parts.parse().ok()?);
        if part_idx >= n_parts || n_parts > MAX_MESSAGE_BYTES {
            return None;
        }
        self.add(id, (part_idx, n_parts), content)
    }

    fn add(&mut self, id: &str, (part_idx, n_parts): (usize, usize), content: Bytes) -> Option<Bytes> {
        if !self.incomplete.contains_key(id) {
            self.order.push_back(id.to_owned());
        }
        let message = self.incomplete.entry(id.to_owned()).or_default();
        if message.n_parts != n_parts {
            self.bytes -= message.bytes;
            *message = Incomplete { n_parts, ..Incomplete::default() };
        }
        if !message.parts.contains_key(&part_idx) {
            message.bytes += content.len();
            self.bytes += content.len();
            message.parts.insert(part_idx, content);
        }
        let (is_whole, is_too_large) = (message.parts.len() == n_parts, message.bytes > MAX_MESSAGE_BYTES);
        if is_whole || is_too_large {
            let message = self.forget(id)?;
            let whole = message.parts.values().flat_map(|part| part.iter().copied());
            return (!is_too_large).then(|| whole.collect::<Vec<u8>>().into());
        }
        while self.bytes > MAX_INCOMPLETE_BYTES || self.order.len() > MAX_INCOMPLETE {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.incomplete.remove(&oldest).map_or(0, |message| message.bytes);
        }
        None
    }

    fn forget(&mut self, id: &str) -> Option<Incomplete> {
        self.order.retain(|other| other != id);
        let message = self.incomplete.remove(id)?;
        self.bytes -= message.bytes;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n_bytes: usize) -> Vec<u8> {
        (0..n_bytes).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn a_message_of_any_size_comes_back_from_parts_in_any_order() {
        for n_bytes in [0, 1, 1000, 1001, 5000, 100_000] {
            let mut parts = split(message(n_bytes), "w1", 1000);
            assert!(parts.iter().all(|part| part.len() <= 1000), "{n_bytes}");
            parts.reverse();
            let mut assembler = Assembler::default();
            let whole: Vec<Bytes> = parts.into_iter().filter_map(|part| assembler.take(part)).collect();
            assert_eq!(whole, [Bytes::from(message(n_bytes))], "{n_bytes}");
            assert_eq!((assembler.bytes, assembler.order.len()), (0, 0));
        }
    }

    #[test]
    fn parts_that_come_twice_or_are_nonsense_change_nothing() {
        let parts = split(message(2500), "w1", 1000);
        let mut assembler = Assembler::default();
        let bad = ["part ", "part w1\n", "part w1 9 3\nx", "part w1 0 99999999999\nx", "part w1 a b\nx"];
        for bad in bad {
            assert_eq!(assembler.take(Bytes::from_static(bad.as_bytes())), None, "{bad}");
        }
        let mut whole = Vec::new();
        for part in parts.iter().chain(&parts[..1]) {
            whole.extend(assembler.take(part.clone()));
        }
        assert_eq!(whole, [Bytes::from(message(2500))]);
    }

    #[test]
    fn messages_that_are_never_completed_take_limited_room() {
        let mut assembler = Assembler::default();
        let content = Bytes::from(vec![b'x'; 8 * 1024 * 1024]);
        for id in 0..40 {
            assert_eq!(assembler.add(&format!("w{id}"), (0, 2), content.clone()), None);
        }
        assert!(assembler.bytes <= MAX_INCOMPLETE_BYTES);
        assert_eq!(assembler.order.len(), assembler.incomplete.len());
        for id in 0..10_000 {
            assert_eq!(assembler.add(&format!("small{id}"), (0, 2), Bytes::new()), None);
        }
        assert_eq!((assembler.order.len(), assembler.incomplete.len()), (MAX_INCOMPLETE, MAX_INCOMPLETE));
        let mut whole = Vec::new();
        for part_idx in 0..9 {
            whole.extend(assembler.add("large", (part_idx, 9), content.clone()));
        }
        assert_eq!(whole, [] as [Bytes; 0], "a message over the limit is dropped");
    }
}
