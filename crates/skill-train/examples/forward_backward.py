"""CPU seconds of a forward and backward pass in torch, on one thread, to set beside `forward_backward.rs`.

python forward_backward.py large 3     (needs the package torch)
"""

import resource
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
LARGE = dict(vocab=49152, hidden=576, inner=1536, layers=30, heads=9, shared=3, rows=1, tokens=512)
SMALL = dict(vocab=512, hidden=256, inner=640, layers=4, heads=8, shared=8, rows=16, tokens=256)


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Layer(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s, self.width = s, s["hidden"] // s["heads"]
        linear = lambda i, o: torch.nn.Linear(i, o, bias=False)
        self.q, self.o = linear(s["hidden"], s["hidden"]), linear(s["hidden"], s["hidden"])
        self.k, self.v = (linear(s["hidden"], s["shared"] * self.width) for _ in range(2))
        self.gate, self.up = (linear(s["hidden"], s["inner"]) for _ in range(2))
        self.down = linear(s["inner"], s["hidden"])
        self.norm1, self.norm2 = (torch.nn.Parameter(torch.ones(s["hidden"])) for _ in range(2))

    def forward(self, x, cos, sin):
        rows, tokens, hidden = x.shape
        n = F.rms_norm(x, (hidden,), self.norm1, 1e-6)
        split = lambda y: y.view(rows, tokens, -1, self.width).transpose(1, 2)
        q, k, v = rotate(split(self.q(n)), cos, sin), rotate(split(self.k(n)), cos, sin), split(self.v(n))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(rows, tokens, hidden))
        n = F.rms_norm(x, (hidden,), self.norm2, 1e-6)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


def main():
    size, passes = (sys.argv + ["small", "3"])[1], int((sys.argv + ["", "3"])[2])
    s = LARGE if size == "large" else SMALL
    embedding = torch.nn.Parameter(torch.randn(s["vocab"], s["hidden"]) * 0.02)
    layers = torch.nn.ModuleList(Layer(s) for _ in range(s["layers"]))
    for p in layers.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.02)
    norm = torch.nn.Parameter(torch.ones(s["hidden"]))
    width = s["hidden"] // s["heads"]
    angle = torch.outer(torch.arange(s["tokens"]).float(), 1e4 ** (-torch.arange(0, width, 2).float() / width))
    angle = torch.cat((angle, angle), dim=-1)
    cos, sin = angle.cos(), angle.sin()
    ids = torch.tensor([[(r * 31 + t * 7919) % s["vocab"] for t in range(s["tokens"])] for r in range(s["rows"])])
    every = [embedding, norm, *layers.parameters()]
    print(f"{size}: {sum(p.numel() for p in every)} parameters, torch {torch.__version__}")
    for _ in range(passes):
        for p in every:
            p.grad = None
        start = time.process_time()
        x = F.embedding(ids, embedding)
        for layer in layers:
            x = layer(x, cos, sin)
        logits = F.linear(F.rms_norm(x, (s["hidden"],), norm, 1e-6), embedding)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, s["vocab"]), ids[:, 1:].reshape(-1))
        middle = time.process_time()
        loss.backward()
        end = time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"loss {loss.item():.5f}, {end - start:.3f} CPU seconds (forward {middle - start:.3f}), {peak} MiB", flush=True)


main()
