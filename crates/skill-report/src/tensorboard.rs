//! Curves of a run as an event file of TensorBoard.
//!
//! The file is a sequence of TFRecords, each of which is an `Event` of TensorFlow's protocol buffers: formats of
//! `tensorflow/core/lib/io/record_writer.h` and `tensorflow/core/util/event.proto`. Only scalars are written.

use crate::data::rl::{RL_METRICS, RlReport};
use crate::data::sft::SftReport;
use skill_pipeline::records::sft::SftGames;

/// The name of the file: TensorBoard takes every file in a folder whose name contains `tfevents`.
pub const TENSORBOARD_FILE: &str = "events.out.tfevents.skillrl";

/// A number at a step.
#[derive(Debug, Clone, PartialEq)]
struct Scalar<'a> {
    tag: &'a str,
    step: u64,
    value: f64,
    /// Seconds since 1970; 0 where it is not known.
    wall_time: f64,
}

impl RlReport {
    /// The curves of a run of reinforcement learning, as the bytes of an event file of TensorBoard.
    pub fn tensorboard(&self) -> Vec<u8> {
        let mut file = EventFile::new();
        for row in &self.iterations {
            let (step, wall_time) = (row.record.iteration, seconds(row.unix_ms));
            let mut write = |tag: &str, value: f64| file.write(&Scalar { tag, step, value, wall_time });
            for metric in RL_METRICS {
                if let Some(value) = metric.value(row) {
                    write(metric.tag, value);
                }
            }
            if let Some(bank) = &row.record.bank {
                write("bank/active_skills", bank.active as f64);
            }
            for (name, [won, played]) in &row.record.by_task_type {
                write(&format!("episodes_won/{name}"), *won as f64 / (*played).max(1) as f64);
            }
        }
        for found in &self.validations {
            file.games(found.iteration, &found.games);
        }
        file.bytes
    }
}

impl SftReport {
    /// The curves of a run that fine-tunes, as the bytes of an event file of TensorBoard.
    pub fn tensorboard(&self) -> Vec<u8> {
        let mut file = EventFile::new();
        for record in &self.steps {
            let step = record.step;
            let mut write = |tag, value| file.write(&Scalar { tag, step, value, wall_time: 0.0 });
            write("train/loss", record.loss);
            write("train/learning_rate", record.learning_rate);
            write("train/grad_norm", record.grad_norm);
        }
        for found in &self.validations {
            if let Some(value) = found.loss {
                file.write(&Scalar { tag: "eval/loss", step: found.step, value, wall_time: 0.0 });
            }
            if let Some(games) = &found.games {
                file.games(found.step, games);
            }
        }
        file.bytes
    }
}

fn seconds(unix_ms: Option<u64>) -> f64 {
    unix_ms.unwrap_or_default() as f64 / 1000.0
}

struct EventFile {
    bytes: Vec<u8>,
}

impl EventFile {
    fn new() -> Self {
        let mut file = Self { bytes: Vec::new() };
        let mut event = Vec::new();
        delimited(&mut event, 3, b"brain.Event:2");
        file.record(&event);
        file
    }

    fn games(&mut self, step: u64, games: &SftGames) {
        let value = games.won as f64 / games.played.max(1) as f64;
        self.write(&Scalar { tag: "eval/games_won", step, value, wall_time: 0.0 });
    }

    /// `Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } }`.
    fn write(&mut self, scalar: &Scalar<'_>) {
        let mut value = Vec::new();
        delimited(&mut value, 1, scalar.tag.as_bytes());
        key(&mut value, 2, 5);
        value.extend((scalar.value as f32).to_le_bytes());
        let mut summary = Vec::new();
        delimited(&mut summary, 1, &value);
        let mut event = Vec::new();
        // Zero is the default of a field, which is left out.
        if scalar.wall_time != 0.0 {
            fixed64(&mut event, 1, scalar.wall_time);
        }
        if scalar.step != 0 {
            key(&mut event, 2, 0);
            varint(&mut event, scalar.step);
        }
        delimited(&mut event, 5, &summary);
        self.record(&event);
    }

    /// A TFRecord: the length, its checksum, the data, its checksum.
    fn record(&mut self, data: &[u8]) {
        let length = (data.len() as u64).to_le_bytes();
        self.bytes.extend(length);
        self.bytes.extend(masked(&length).to_le_bytes());
        self.bytes.extend(data);
        self.bytes.extend(masked(data).to_le_bytes());
    }
}

/// The checksum of TFRecords: CRC-32C, rotated and shifted.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// The key of a field: its number and the type of what follows.
fn key(into: &mut Vec<u8>, field: u64, wire_type: u64) {
    varint(into, field << 3 | wire_type);
}

fn fixed64(into: &mut Vec<u8>, field: u64, number: f64) {
    key(into, field, 1);
    into.extend(number.to_le_bytes());
}

fn delimited(into: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    key(into, field, 2);
    varint(into, bytes.len() as u64);
    into.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that TensorBoard's own writer (2.21) makes of the same events.
    #[test]
    fn the_bytes_are_those_of_tensorboards_writer() {
        let mut file = EventFile::new();
        file.write(&Scalar { tag: "train/return", step: 300, value: 0.325, wall_time: 1.5 });
        let hex: String = file.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, HEX);
    }

    const HEX: &str = "0f000000000000006d532b091a0d627261696e2e4576656e743a32fc9851292300000000000000b09f774309000000\
                       000000f83f10ac022a150a130a0c747261696e2f72657475726e156666a63e5d1c8c88";
}
