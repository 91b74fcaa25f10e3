"""The trainers' own packages load what skillrl writes.

    python check.py EXPORTS BASE ADAPTER FULL

EXPORTS is the folder of the example `write_exports`; BASE is a model's folder, ADAPTER and FULL are the `policy/` of
two runs of `skillrl sft` that trained it: an adapter and all weights. Anything that would not be trained on, and any
weight that changes nothing, is a failure.
"""

import os
import pathlib
import sys
import tempfile

os.environ.update(
    HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error",
    HF_DATASETS_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
)

import datasets  # noqa: E402
import torch  # noqa: E402
from peft import PeftModel  # noqa: E402
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from trl import SFTConfig, SFTTrainer  # noqa: E402
from trl.data_utils import is_conversational, maybe_apply_chat_template  # noqa: E402

EXPORTS, BASE, ADAPTER, FULL = map(pathlib.Path, sys.argv[1:5])
IGNORED = -100


def tokenizer():
    """The tokenizer of the model, with its own template and a token to fill rows up."""
    made = PreTrainedTokenizerFast(tokenizer_file=str(BASE / "tokenizer.json"))
    made.chat_template = (BASE / "chat_template.jinja").read_text()
    made.eos_token = made.pad_token = made.convert_ids_to_tokens(AutoModelForCausalLM.from_pretrained(BASE).config.eos_token_id)
    return made


def rows(name, kind):
    """The rows of a file, as the library reads it that trainers read with."""
    return datasets.load_dataset(kind, data_files=str(EXPORTS / name), split="train", cache_dir=tempfile.mkdtemp())


def check_sft(name):
    """One step of TRL's trainer; every row has tokens that are learnt."""
    data = rows(name, "json")
    with tempfile.TemporaryDirectory() as out:
        settings = SFTConfig(
            output_dir=out, max_steps=1, per_device_train_batch_size=len(data), report_to=[], use_cpu=True, bf16=False, disable_tqdm=True,
            max_length=1024,
        )
        trainer = SFTTrainer(
            model=AutoModelForCausalLM.from_pretrained(BASE), args=settings, train_dataset=data, processing_class=tokenizer()
        )
        batch = next(iter(trainer.get_train_dataloader()))
        learnt = (batch["labels"] != IGNORED).sum(dim=1)
        assert len(learnt) == len(data) and bool((learnt > 0).all()), f"{name}: learnt tokens by row: {learnt.tolist()}"
        loss = trainer.train().training_loss
        assert loss == loss, f"{name}: the loss is not a number"
    print(f"{name}: {len(data)} rows, {learnt.tolist()} learnt tokens, loss {loss:.3f}")


def check_prompts(name, kind):
    """Prompts are conversations that the template renders."""
    data = rows(name, kind)
    for row in data:
        assert is_conversational({"prompt": row["prompt"]}), f"{name}: {row}"
        assert maybe_apply_chat_template({"prompt": row["prompt"]}, tokenizer())["prompt"].strip(), name
    print(f"{name}: {len(data)} prompts")


def check_policies():
    """The adapter and the trained weights load, and each gives other logits than the base."""
    tokens = torch.arange(1, 33)[None]
    with torch.no_grad():
        base = AutoModelForCausalLM.from_pretrained(BASE)
        before = base(tokens).logits
        full = AutoModelForCausalLM.from_pretrained(FULL)(tokens).logits
        adapted = PeftModel.from_pretrained(base, ADAPTER)
        after = adapted(tokens).logits
        merged = adapted.merge_and_unload()(tokens).logits
    for name, logits in [("all weights", full), ("adapter", after)]:
        assert torch.isfinite(logits).all(), f"{name}: logits that are not finite"
        change = (logits - before).abs().max().item()
        assert change > 1e-5, f"{name}: the logits are those of the base"
        print(f"{name}: logits differ from the base by up to {change:.4f}")
    assert (after - merged).abs().max() < 1e-4, "merging the adapter changes the logits"


for file in ["trl/sft-messages.jsonl", "trl/sft-prompt-completion.jsonl"]:
    check_sft(file)
check_prompts("trl/grpo.jsonl", "json")
check_prompts("verl/train.parquet", "parquet")
assert all(row["messages"] for row in rows("verl/sft.parquet", "parquet"))
check_policies()
