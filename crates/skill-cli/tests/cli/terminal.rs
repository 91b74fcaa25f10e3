//! A terminal of any width, with a person's keys.

use crate::context::TestContext;
use anstream::adapter::strip_str;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};

/// What stood on the terminal when the command had ended.
pub(crate) struct Screen {
    pub(crate) code: Option<i32>,
    /// Without what the terminal itself understands, such as colours.
    pub(crate) text: String,
}

/// Runs a command on a terminal of so many columns; what is typed is there from the beginning.
pub(crate) fn on_terminal(context: &TestContext, args: &[&str], columns: u16, typed: &str) -> Screen {
    let (mut child, mut ours) = started(context, args, columns);
    ours.write_all(typed.as_bytes()).unwrap();
    // A command that asks for more than was typed finds the end of its input.
    ours.write_all(b"\x04").unwrap();
    let mut shown = Vec::new();
    // A terminal that nobody holds any more is an error to read from.
    let _ = ours.read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
    Screen { code: child.wait().unwrap().code(), text: strip_str(&shown).to_string() }
}

/// Starts a command on a terminal of so many columns; also our end of the terminal.
fn started(context: &TestContext, args: &[&str], columns: u16) -> (Child, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = File::from(ioctl_tiocgptpeer(&ours, flags).unwrap());
    tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = context.command(args);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("COLUMNS");
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let child = command.spawn().unwrap();
    // The ends that the command would have given to its child: with one of them here the output would have no end.
    drop(command);
    (child, File::from(ours))
}

/// Runs a command, and sends it a signal when it has shown a text.
pub(crate) fn signalled_at(context: &TestContext, args: &[&str], text: &str, signal: &str) -> Screen {
    let (mut child, mut ours) = started(context, args, 200);
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    let mut is_sent = false;
    // A terminal that nobody holds any more is an error to read from.
    while let Ok(n @ 1..) = ours.read(&mut part) {
        shown.extend_from_slice(&part[..n]);
        if !is_sent && String::from_utf8_lossy(&shown).contains(text) {
            is_sent = true;
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(sent.unwrap().success());
        }
    }
    let shown = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
    Screen { code: child.wait().unwrap().code(), text: strip_str(&shown).to_string() }
}
