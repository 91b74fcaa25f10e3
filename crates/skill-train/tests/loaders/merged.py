"""A policy that `skillrl export --policy` has merged is the one that was trained, for transformers and for skillrl.

    python merged.py PROGRAM TOKENIZER

For Llama, Qwen2 and Qwen3 it makes a small random model in bfloat16 and an adapter by peft, has PROGRAM merge them, and
compares greedy tokens on 20 prompts: transformers with the adapter merged by peft and rounded to float16, transformers
with the merged folder, and the replies of PROGRAM with the merged folder. TOKENIZER is a folder with `tokenizer.json` and `chat_template.jinja`.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")

import torch  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

PROGRAM, TOKENIZER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
N_PROMPTS = 20
N_TOKENS = 12
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEXTS = ["tokenizer.json", "chat_template.jinja"]

TASK = """
[run]
dir = "run"

[models]
target = {{ kind = "local", path = "{path}", context = 512, max_tokens = {n_tokens}, temperature = 0.0, response_schema = "ignore" }}
optimizer = {{ kind = "simulated" }}

[env]
kind = "qa"
data = "data.jsonl"
split_ratio = "1:1:1"
"""


def made(family, folder):
    """A base of this family and an adapter of it, below the folder."""
    own = json.loads((TOKENIZER / "config.json").read_text())
    sizes = {key: own[key] for key in ("vocab_size", "max_position_embeddings", "eos_token_id")}
    config = AutoConfig.for_model(
        family, **sizes, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, tie_word_embeddings=family != "llama", bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    for name, weights in model.named_parameters():
        if weights.dim() == 2:
            # A large scale, so that the best token rarely has a near tie.
            torch.nn.init.normal_(weights, std=0.2)
    base, adapter = folder / "base", folder / "adapter"
    model.save_pretrained(base)
    for name in TEXTS:
        shutil.copy(TOKENIZER / name, base)
    adapted = get_peft_model(model.float(), LoraConfig(r=4, lora_alpha=8, target_modules=LAYERS))
    for name, weights in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weights, std=0.1)
    adapted.save_pretrained(adapter)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(base)
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    return base, adapter


def tokenizer():
    read = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER / "tokenizer.json"))
    read.chat_template = (TOKENIZER / "chat_template.jinja").read_text()
    return read


def replies(model, prompts):
    """Greedy replies of a model of transformers, as tokens."""
    model = model.float().eval()
    said = []
    for prompt in prompts:
        tokens = torch.tensor([prompt])
        made = model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=N_TOKENS, pad_token_id=0)
        said.append(made[0, len(prompt) :].tolist())
    return said


def played(folder, merged):
    """The calls of an evaluation of the merged policy by the program."""
    rows = [
        {"id": f"q{number}", "question": f"Word number {number} of {number % 7}?", "answers": ["x"]}
        for number in range(3 * N_PROMPTS)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "task.toml").write_text(TASK.format(path=merged, n_tokens=N_TOKENS))
    (folder / "skill.md").write_text("- Answer with one word.\n")
    command = [PROGRAM, "eval", "task.toml", "--skill", "skill.md", "--split", "test", "--out", "measured", "--quiet", "--yes"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    lines = subprocess.run([PROGRAM, "journal", "export", "measured"], cwd=folder, check=True, capture_output=True, text=True)
    calls = [json.loads(line) for line in lines.stdout.splitlines()]
    return [call for call in calls if call.get("reply")][:N_PROMPTS]


def rounded(model):
    """The model with weights rounded to float16; buffers such as rotary frequencies keep their precision."""
    for weights in model.parameters():
        weights.data = weights.data.half().float()
    return model


def messages(call):
    """The conversation of a recorded call."""
    return [{"role": message["role"], "content": message["text"]} for message in call["messages"]]


for family in ["llama", "qwen2", "qwen3"]:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        base, adapter = made(family, folder)
        merged = folder / "merged"
        subprocess.run([PROGRAM, "export", adapter, "--policy", merged], check=True, stdout=subprocess.DEVNULL)
        calls = played(folder, merged)
        assert len(calls) == N_PROMPTS, len(calls)
        text = tokenizer()
        prompts = [
            text.apply_chat_template(messages(call), add_generation_prompt=True, tokenize=True, return_dict=True)["input_ids"]
            for call in calls
        ]
        original = AutoModelForCausalLM.from_pretrained(base)
        before = replies(original, prompts)
        adapted = PeftModel.from_pretrained(original, adapter)
        unrounded = replies(adapted, prompts)
        trained = replies(rounded(adapted.merge_and_unload()), prompts)
        exported = AutoModelForCausalLM.from_pretrained(merged)
        assert exported.config.dtype == torch.float16, exported.config.dtype
        after = replies(exported, prompts)
        assert trained != before, "the adapter changes no reply"
        n_equal = sum(first == second for first, second in zip(trained, after))
        assert n_equal == N_PROMPTS, f"{family}: {n_equal} of {N_PROMPTS} replies are equal"
        shown = [text.decode(tokens, skip_special_tokens=True).strip() for tokens in after]
        ours = [call["reply"].strip() for call in calls]
        assert shown == ours, f"{family}: skillrl replies otherwise: {[pair for pair in zip(shown, ours) if pair[0] != pair[1]]}"
        n_unrounded = sum(first == second for first, second in zip(unrounded, after))
        n_tokens = sum(map(len, after))
        print(f"{family}: {N_PROMPTS} prompts, {n_tokens} greedy tokens, all equal; {n_unrounded} replies are those before rounding")
