"""What the SDK of Tinker does with `skillrl train-server`: fine-tuning, samples, losses of policies, saved weights.

    python check.py path/to/skillrl path/to/model

The model is a folder with safetensors; a tiny one with random weights will do.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.update(TINKER_API_KEY="tml-local", TINKER_TELEMETRY="0")

import tinker
from tinker import types

PROGRAM, MODEL = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
ADAM = types.AdamParams(learning_rate=1e-2)


def ints(tokens):
    return types.TensorData(data=list(tokens), dtype="int64", shape=[len(tokens)])


def floats(numbers):
    return types.TensorData(data=list(numbers), dtype="float32", shape=[len(numbers)])


def datum(tokens, **numbers):
    """Predictions of all tokens but the first, with the numbers that the loss needs of each."""
    inputs = {"target_tokens": ints(tokens[1:]), **{name: floats(values) for name, values in numbers.items()}}
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)


def demonstration(tokens, n_prompt):
    return datum(tokens, weights=[float(place >= n_prompt) for place in range(1, len(tokens))])


def play(url):
    service = tinker.ServiceClient(base_url=url)
    models = [model.model_name for model in service.get_server_capabilities().supported_models]
    assert models == ["tiny"], models
    training = service.create_lora_training_client(base_model="tiny", rank=4, seed=1)
    rows = [demonstration([5, 6, 7, 8, 9, 10], 3), demonstration([5, 6, 11, 12], 3)]

    losses = []
    for _ in range(8):
        passed, stepped = training.forward_backward(rows, "cross_entropy"), training.optim_step(ADAM)
        outputs = passed.result().loss_fn_outputs
        stepped.result()
        weights = [row.loss_fn_inputs["weights"].data for row in rows]
        pairs = [zip(output["logprobs"].data, of) for output, of in zip(outputs, weights)]
        losses.append(-sum(logprob * weight for row in pairs for logprob, weight in row))
    print("loss:", " ".join(f"{loss:.2f}" for loss in losses))
    assert losses[-1] < losses[0] / 2

    sampler = training.save_weights_and_get_sampling_client(name="ignored")
    prompt = types.ModelInput.from_ints([5, 6, 7])
    params = types.SamplingParams(max_tokens=4, temperature=1.0, seed=3)
    sampled = sampler.sample(prompt=prompt, num_samples=3, sampling_params=params).result().sequences
    assert [len(sample.tokens) == len(sample.logprobs) for sample in sampled] == [True] * 3
    known = sampler.compute_logprobs(types.ModelInput.from_ints([5, 6, 7] + list(sampled[0].tokens))).result()
    differences = [abs(a - b) for a, b in zip(known[3:], sampled[0].logprobs)]
    print(f"samples: {[sample.tokens for sample in sampled]}; log-probabilities differ by {max(differences):.1e} at most")
    assert max(differences) < 1e-3

    tokens = [5, 6, 7] + list(sampled[0].tokens)
    of_prompt = [0.0, 0.0]
    row = datum(tokens, logprobs=of_prompt + list(sampled[0].logprobs),
                advantages=of_prompt + [1.0] * len(sampled[0].tokens))
    for loss in ("importance_sampling", "ppo"):
        print(f"{loss}:", training.forward_backward([row], loss).result().metrics)
        training.optim_step(ADAM).result()

    saved = training.save_state("all").result().path
    again = service.create_training_client_from_state(saved)
    both = [client.forward(rows, "cross_entropy").result().loss_fn_outputs for client in (training, again)]
    assert [list(row["logprobs"].data) for row in both[0]] == [list(row["logprobs"].data) for row in both[1]]
    named = training.save_weights_for_sampler("named").result().path
    later = service.create_sampling_client(model_path=named).compute_logprobs(prompt).result()
    assert later != sampler.compute_logprobs(prompt).result(), "a sampler keeps the weights that it was made with"
    print("saved weights:", saved, named)


with tempfile.TemporaryDirectory() as directory:
    command = [PROGRAM, "train-server", f"tiny={MODEL}", "--listen", "127.0.0.1:0", "--dir", directory]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        play(server.stdout.readline().strip())
    finally:
        server.terminate()
        server.wait()
