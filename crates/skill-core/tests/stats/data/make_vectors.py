"""Writes vectors.json: the statistics of skill-core by other means.

Whole numbers, mpmath's quadrature and beta function, and scipy. Run it with scipy and mpmath installed:
`python make_vectors.py > vectors.json`.
"""

import json
import math
import random
import mpmath as mp
import numpy as np
from scipy import stats

mp.mp.dps = 30
draw = random.Random(7)


def ways_at_least(n, k):
    """In how many of 2^n ways at least k coins show heads; a whole number."""
    ways, total = math.comb(n, k), 0
    for j in range(k, n + 1):
        total += ways
        ways = ways * (n - j) // (j + 1)
    return total


def mcnemar(wins, losses):
    n = wins + losses
    p = mp.mpf(ways_at_least(n, wins)) / mp.mpf(2) ** n
    return {"wins": wins, "losses": losses, "p": float(p), "ln_p": float(mp.log(p))}


def e_value(wins, losses):
    n = wins + losses
    if n <= 2000:
        # From 0 to 1/2 with the roles exchanged, so that no digits cancel.
        area = mp.betainc(losses + 1, wins + 1, 0, mp.mpf(1) / 2)
        ln_e = (n + 1) * mp.log(2) + mp.log(area)
    else:
        # The beta distribution above 1/2 is the binomial distribution of n + 1 coins up to `wins`.
        below = ways_at_least(n + 1, n + 1 - wins)
        ln_e = mp.log(mp.mpf(below)) - mp.log(n + 1) - mp.log(mp.mpf(math.comb(n, wins)))
    return {"wins": wins, "losses": losses, "ln_e": float(ln_e)}


def e_value_of(differences):
    exact = [mp.mpf(d) for d in differences]
    # Between the places where the integrand is 1/e, 1/e^2, ... of its peak the quadrature has easy work.
    area = mp.quad(lambda x: mp.fprod(1 + x * d for d in exact), [mp.mpf(k) / 8 for k in range(9)], maxdegree=7)
    return {"differences": differences, "ln_e": float(mp.log(area))}


def graded(n, bias):
    return [round(max(-1.0, min(1.0, draw.gauss(bias, 0.4))), 3) for _ in range(n)]


def agresti_min(wins, losses, ties, level):
    win, loss, n = wins + 0.5, losses + 0.5, wins + losses + ties + 2
    mean = (win - loss) / n
    se = math.sqrt((win + loss) - (win - loss) ** 2 / n) / n
    z = stats.norm.ppf(0.5 + level / 2)
    return {"wins": wins, "losses": losses, "ties": ties, "level": level, "low": mean - z * se, "high": mean + z * se}


def agresti_coull(solved, n, level):
    z = stats.norm.ppf(0.5 + level / 2)
    total = n + z * z
    p = (solved + z * z / 2) / total
    half = z * math.sqrt(p * (1 - p) / total)
    return {"mean": solved / n, "n": n, "level": level, "low": p - half, "high": p + half}


def sign_flip(differences):
    found = stats.permutation_test(
        (np.array(differences),), np.sum, permutation_type="samples", alternative="greater", n_resamples=np.inf
    )
    return {"differences": differences, "p": float(found.pvalue)}


small = [(w, l) for w in range(0, 13) for l in range(0, 13)]
large = [(60, 40), (100, 0), (0, 100), (500, 450), (450, 500), (1000, 900), (5200, 4800), (10000, 0), (3, 2000)]
huge = [(50_500, 49_500), (50_000, 50_000), (49_000, 51_000), (100_000, 0), (99_000, 1_000), (0, 100_000)]
vectors = {
    "mcnemar": [mcnemar(w, l) for w, l in small + large + huge],
    "e_value": [e_value(w, l) for w, l in small + large + [(50_500, 49_500), (100_000, 0), (49_000, 51_000)]],
    "e_value_of": [
        e_value_of(d)
        for d in [[0.5], [-0.25], [1.0, -1.0, 0.5], [0.001] * 40, [1.0 / 3, -1.0 / 3, 1.0], [-1.0] * 30 + [0.5]]
        + [graded(n, bias) for n in (5, 20, 80, 200) for bias in (-0.3, 0.0, 0.1, 0.6)]
    ],
    "upper_tail": [{"x": x, "p": float(stats.norm.sf(x))} for x in np.linspace(-8, 12, 81).round(4).tolist()],
    "upper_quantile": [
        {"p": p, "x": float(stats.norm.isf(p))}
        for p in [1e-12, 1e-6, 1e-4, 0.001, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.8, 0.9, 0.975, 0.999]
    ],
    "difference_interval": [
        agresti_min(w, l, t, level)
        for w, l, t in [(0, 0, 50), (3, 1, 46), (12, 5, 33), (40, 45, 115), (5, 5, 8), (30, 2, 168)]
        for level in (0.9, 0.95)
    ],
    "score_interval": [agresti_coull(s, n, 0.95) for s, n in [(0, 20), (7, 20), (19, 20), (33, 50), (150, 200)]],
    "sign_flip": [sign_flip(d) for d in [graded(n, bias) for n in (2, 4, 8, 12) for bias in (0.0, 0.3)]
                  + [[0.5, 0.4, 0.0, -0.1], [1.0, 1.0, -1.0, 0.0], [0.0, 0.0]]],
}
print(json.dumps(vectors, indent=1))
