#!/bin/sh
last=$(cat)
case "$*" in
  *--version*) echo "${SAYS_VERSION:-1.5.2}"; exit 0 ;;
esac
case "$MODE" in
  banner) echo "A new version is available!" ;;
  dies) printf '{"type": "session", "id": "s"}\n{"type": "mess'; echo "killed-by-memory" >&2; exit 137 ;;
  hangs) sleep 600 ;;
  changed) echo '{"kind": "session"}'; echo '{"kind": "text", "text": "Done."}'; echo '{"type": "agent_settled"}'; exit 0 ;;
esac
line() { printf '%s\n' "$1"; }
line '{"type": "session", "id": "s"}'
case "$*" in
  *"--skill "*) ;;
  *)
    line '{"type": "message_end", "message": {"role": "assistant", "responseId": "r", "stopReason": "stop", "content": [{"type": "text", "text": "<description>Formats invoices.</description>"}]}}'
    line '{"type": "agent_settled"}'
    exit 0 ;;
esac
if [ -n "$FAIL_WITH" ]; then
  case "$FAIL_WITH" in
    401) why="401: invalid key" ;;
    402) why="You have hit your ChatGPT usage limit. Try again in 53 min." ;;
    *) why="429: too many requests" ;;
  esac
  line '{"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": "'"$why"'"}}'
  line '{"type": "agent_settled"}'
  exit 0
fi
folder=.pi/skills/my-skill
description=$(sed -n 's/^description: //p' $folder/SKILL.md | tr -d '"')
line '{"type": "message_end", "message": {"role": "system", "sections": {"skills": "<name>my-skill</name><description>'"$description"'</description>"}}}'
case "$description $last" in
  *invoices*invoice*)
    line '{"type": "message_end", "message": {"role": "assistant", "responseId": "1", "stopReason": "toolUse", "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "'$folder'/SKILL.md"}}]}}'
    line '{"type": "message_end", "message": {"role": "toolResult", "toolCallId": "c", "isError": false, "content": [{"type": "text", "text": "# Do it"}]}}' ;;
esac
line '{"type": "message_end", "message": {"role": "assistant", "responseId": "2", "stopReason": "stop", "content": [{"type": "text", "text": "Done."}], "usage": {"input": 100, "output": 5, "cost": {"total": 0.5}}}}'
line '{"type": "agent_settled"}'
