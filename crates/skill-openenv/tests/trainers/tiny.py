"""A tiny Qwen3 of random weights, made on the spot and taught one thing: to call the tool `step`.

    python tiny.py DIRECTORY
"""

import sys

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Tokens of their own that are text all the same, as in the published tokenizer: a parser finds them in what is decoded.
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
CALL = '<tool_call>\n{"name": "step", "arguments": {"command": "look"}}\n</tool_call>'
STEPS, ROWS = 250, 4
TEXTS = [
    "You are in a room. Looking quickly around you, you see a cabinet, a fridge and a shelf.",
    "Your task is to put a clean apple in the fridge.",
    "# Tools You may call one or more functions to assist with the user query.",
    '{"type": "function", "function": {"name": "step", "description": "Takes one action", "parameters": {}}}',
    CALL,
]


def tokenizer():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(TEXTS * 4, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, special_tokens=SPECIAL))
    bpe.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=qwen3_chat_template
    )


def main(directory):
    torch.manual_seed(0)
    own = tokenizer()
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(own), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=4096, tie_word_embeddings=True,
            eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    reply = own(CALL + "<|im_end|>", add_special_tokens=False)["input_ids"]
    start = own("<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
    answers = torch.full((ROWS, 1), -100)
    for step in range(STEPS):
        # Whatever stands before it, and however long that is, an assistant calls the tool.
        length = int(torch.randint(16, 700, ()))
        noise = torch.randint(len(SPECIAL), len(own) - len(MARKS), (ROWS, length)).tolist()
        rows = torch.tensor([row + start + reply for row in noise])
        labels = torch.cat([answers.expand(-1, rows.shape[1] - len(reply)), rows[:, -len(reply):]], dim=1)
        loss = model(input_ids=rows, labels=labels).loss
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / STEPS)
        optimizer.step()
        optimizer.zero_grad()
    print(f"tiny Qwen3: {sum(p.numel() for p in model.parameters()):,} weights, loss {loss.item():.4f}")
    model.save_pretrained(directory)
    own.save_pretrained(directory)


main(sys.argv[1])
