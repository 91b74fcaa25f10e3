#!/bin/sh
# A world in POSIX shell: a safe with three buttons, which opens when they are pressed in the right order.
# docs/env-protocol.md describes the lines. Only this script decides what is printed on standard output.

# The first field of this name, a number or a text without escapes; a JSON tool such as jq reads any.
field() {
  value=${line#*\"$1\":} value=${value#\"}
  printf '%s' "${value%%[\",\}]*}"
}

# An observation: what is seen, and further fields.
see() { printf '{"id":%s,"observation":"%s","admissible":["press red","press green","press blue"]%s}\n' "$id" "$1" "$2"; }

# What a safe answers to the button that is pressed as the first, second and third.
press() {
  wanted=$(printf '%s' "$order" | cut -d' ' -f"$pressed")
  if [ "$1" != "$wanted" ]; then
    see "Click. The safe stays shut: button $pressed has to be $wanted." ',"done":true,"won":false'
  elif [ "$pressed" = 3 ]; then
    see "The safe opens." ',"reward":1,"done":true,"won":true'
  else
    see "A light goes on: $pressed of 3."
    pressed=$((pressed + 1))
  fi
}

while IFS= read -r line; do
  id=$(field id)
  case $line in
  *'"method":"hello"'*)
    items=
    for split in train val test; do
      list=
      for number in 1 2 3 4; do list="$list${list:+,}{\"id\":\"$split-$number\"}"; done
      items="$items${items:+,}\"$split\":[$list]"
    done
    case $line in *'"items":true'*) items=",\"items\":{$items}" ;; *) items= ;; esac
    printf '{"id":%s,"protocol":1,"name":"safe","mode":"step","instructions":"Press one button at a time."%s}\n' "$id" "$items"
    ;;
  *'"method":"reset"'*)
    order='green blue red' pressed=1
    see "A safe with three buttons: red, green and blue."
    ;;
  *'"method":"step"'*)
    action=$(field action)
    case $action in
    'press red' | 'press green' | 'press blue') press "${action#press }" ;;
    *) see "Nothing happens." ',"understood":false' ;;
    esac
    ;;
  esac
done
