"""Writes items.jsonl: 360 questions of six types, each with a rule of its own that no question states.

    python3 generate.py > items.jsonl

The items are the same each time. A model that does not know a rule answers in the usual form, which counts as wrong.
"""

import json
import random

N_ITEMS_OF_A_TYPE = 60
SEED = 20

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December"]
FIRST_NAMES = ["Ada", "Boris", "Clara", "David", "Elena", "Frank", "Grace", "Hugo", "Irene", "Jonas", "Karin", "Louis"]
LAST_NAMES = ["Abbott", "Brandt", "Castro", "Dubois", "Evans", "Fischer", "Garcia", "Hansen", "Iversen", "Jensen"]
COLOURS = ["red", "blue", "green", "black", "white", "yellow", "brown", "grey", "purple", "silver"]
GOODS = ["chair", "lamp", "table", "mug", "shelf", "clock", "bowl", "desk"]


def date(rng):
    day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1990, 2029)
    return f"the date {day} {MONTHS[month - 1]} {year}", f"{year}/{month:02}/{day:02}"


def person(rng):
    first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
    return f"the name of {first} {last}", f"{last.upper()}, {first}"


def clock(rng):
    hour, minute = rng.randint(1, 11), rng.choice([5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55])
    half = rng.choice(["a.m.", "p.m."])
    return f"the time {hour}:{minute:02} {half}", f"{hour + (12 if half == 'p.m.' else 0):02}h{minute:02}"


def room(rng):
    floor, number = rng.randint(1, 9), rng.randint(1, 40)
    return f"room {number} on floor {floor}", f"F{floor}-R{number:02}"


def product(rng):
    colour, good = rng.choice(COLOURS), rng.choice(GOODS)
    return f"the {colour} {good}", f"{good}#{colour}"


def money(rng):
    amount = rng.randint(2, 950)
    return f"the price of {amount} dollars", f"USD {amount}.00"


TYPES = {"date": date, "person": person, "clock": clock, "room": room, "product": product, "money": money}


def main():
    rng = random.Random(SEED)
    for name, make in TYPES.items():
        seen = set()
        while len(seen) < N_ITEMS_OF_A_TYPE:
            what, answer = make(rng)
            if what in seen:
                continue
            seen.add(what)
            item = {"id": f"{name}-{len(seen):02}", "type": name, "question": f"How does our house write {what}? Answer with it alone.",
                    "answers": [answer]}
            print(json.dumps(item))


if __name__ == "__main__":
    main()
