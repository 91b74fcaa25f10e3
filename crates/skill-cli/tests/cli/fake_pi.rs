//! Shell scripts in the place of coding agents; `pi.sh` prints what Pi prints.
#![cfg(unix)]

use crate::context::TestContext;
use std::os::unix::fs::PermissionsExt as _;

/// What scripts print their stream with.
const STREAM: &str = r##"#!/bin/sh
line() { printf '%s\n' "$1"; }
begins() { line '{"type": "session", "id": "s"}'; }
loads() {
  line '{"type": "message_end", "message": {"role": "assistant", "responseId": "1", "stopReason": "toolUse", "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "'"$1"'/SKILL.md"}}]}}'
  line '{"type": "message_end", "message": {"role": "toolResult", "toolCallId": "c", "isError": false, "content": [{"type": "text", "text": "# Do it"}]}}'
}
says() {
  line '{"type": "message_end", "message": {"role": "assistant", "responseId": "2", "stopReason": "stop", "content": [{"type": "text", "text": "'"$1"'"}], "usage": {"input": 100, "output": 5, "cost": {"total": 0.5}}}}'
}
ends() { line '{"type": "agent_settled"}'; }
"##;

/// Writes `pi.sh`, whose commands may use the functions of the stream.
pub(crate) fn install(context: &TestContext, commands: &str) {
    write_program(context, "pi.sh", &format!("{STREAM}{commands}"));
}

/// Writes a script that can be started.
pub(crate) fn write_program(context: &TestContext, name: &str, script: &str) {
    context.write(name, script);
    std::fs::set_permissions(context.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}
