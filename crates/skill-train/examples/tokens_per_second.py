"""Generated tokens per second of llama.cpp, to set beside tokens_per_second.rs.

    python3 tokens_per_second.py MODEL.gguf THREADS

Needs llama-cpp-python. The reply is greedy, and the prompt is not counted.
"""

import sys
import time

from llama_cpp import Llama

N_TOKENS = 64


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    model = Llama(path, n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
    prompt = model.tokenize(b"Write a long story. Story 0.")
    for is_measured in (False, True):
        model.reset()
        model.eval(prompt)
        start = time.perf_counter()
        for _ in range(N_TOKENS):
            model.eval([model.sample(temp=0.0)])
        seconds = time.perf_counter() - start
        if is_measured:
            print(f"generation: {N_TOKENS} tokens in {seconds:.2f} s, {N_TOKENS / seconds:.1f} tokens/s")


main()
