"""Prints tasks of a public benchmark as JSON: `{"train": [...], "val": [...], "test": [...], "measured": [...]}`.

usage: real_tasks.py chain-sum|bfcl-simple|bbh SEED TRAIN VAL TEST MEASURED [FILE]

Rows have `id`, `question` and `answer`. `chain-sum` makes its tasks by reasoning-gym (Apache-2.0), `bfcl-simple` draws
them from the data in the package bfcl-eval (Apache-2.0; FILE is its wheel), and `bbh` from FILE, a task of BIG-Bench
Hard (MIT) as its repository has it: `{"examples": [{"input": ..., "target": ...}]}`.
"""

import json
import random
import sys
import zipfile

# What is measured at the end is made or drawn by another seed than what a search sees.
MEASURED_SEED = 9_000_000
BFCL = "bfcl_eval/data/BFCL_v4_simple_python.json"
BFCL_ANSWERS = "bfcl_eval/data/possible_answer/BFCL_v4_simple_python.json"


def chain_sum(seed, sizes, _file):
    import reasoning_gym

    def made(seed, size):
        limits = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}
        tasks = reasoning_gym.create_dataset("chain_sum", size=size, seed=seed, **limits)
        return [(task["question"], task["answer"]) for task in tasks]

    *seen, measured = sizes
    rows = made(seed, sum(seen))
    known = {question for question, _ in rows}
    fresh = [row for row in made(MEASURED_SEED + seed, 4 * measured) if row[0] not in known]
    return rows, fresh[:measured]


def bfcl_simple(seed, sizes, file):
    with zipfile.ZipFile(file) as wheel:
        read = lambda name: [json.loads(line) for line in wheel.read(name).decode().splitlines() if line]
        answers = {row["id"]: row["ground_truth"] for row in read(BFCL_ANSWERS)}
        rows = [(bfcl_question(row), bfcl_answer(answers[row["id"]])) for row in read(BFCL)]
    return drawn(rows, seed, sizes)


def bfcl_question(row):
    (turn,) = row["question"]
    text = "\n".join(message["content"] for message in turn)
    return f"Functions:\n{json.dumps(row['function'], indent=1)}\n\nRequest: {text}"


def bfcl_answer(ground_truth):
    """The first accepted value of each argument; an argument that may be left out is left out."""
    ((name, arguments),) = ground_truth[0].items()
    return {"name": name, "arguments": first_values(arguments)}


def first_values(arguments):
    first = {key: values[0] for key, values in arguments.items() if "" not in values}
    return {key: first_values(value) if isinstance(value, dict) else value for key, value in first.items()}


def bbh(seed, sizes, file):
    with open(file, encoding="utf-8") as data:
        examples = json.load(data)["examples"]
    return drawn([(example["input"], example["target"]) for example in examples], seed, sizes)


def drawn(rows, seed, sizes):
    *seen, measured = sizes
    if len(rows) < sum(sizes):
        raise SystemExit(f"{len(rows)} tasks are fewer than the {sum(sizes)} that are needed")
    order = random.Random(0).sample(rows, len(rows))
    # The items of the measurement are the same part of the data for every seed, and no search sees that part.
    kept, rest = order[-measured:], order[:-measured]
    return random.Random(seed).sample(rest, sum(seen)), kept


def main():
    name, *numbers = sys.argv[1:7]
    file = sys.argv[7] if len(sys.argv) > 7 else None
    seed, *sizes = map(int, numbers)
    task = {"chain-sum": chain_sum, "bfcl-simple": bfcl_simple, "bbh": bbh}[name]
    rows, measured = task(seed, sizes, file)
    splits, start = {}, 0
    for (split, prefix), size in zip([("train", "t"), ("val", "v"), ("test", "e")], sizes):
        splits[split] = as_rows(prefix, rows[start : start + size])
        start += size
    json.dump({**splits, "measured": as_rows("m", measured)}, sys.stdout)


def as_rows(prefix, rows):
    numbered = enumerate(rows)
    return [{"id": f"{prefix}{number:03}", "question": question, "answer": answer} for number, (question, answer) in numbered]


main()
