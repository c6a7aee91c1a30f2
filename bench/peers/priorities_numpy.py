"""The numpy and torch side of the benchmark `priorities`: draws with weights, and updates of priorities.

Reads one JSON line: {"leaves", "count", "torch"}. For every further line, a name in `ways`, it runs that function several times
and prints the median in microseconds.
"""
import json
import sys
import time

import numpy as np

case = json.loads(sys.stdin.readline())
leaves, count = case["leaves"], case["count"]
rng = np.random.default_rng(1)
alpha, beta, epsilon = 0.6, 0.4, 1e-6

# Node i has the children 2i and 2i + 1. Leaf i is node leaves + i. The number of leaves is a power of two.
levels = leaves.bit_length() - 1
sums = np.zeros(2 * leaves)
least = np.full(2 * leaves, np.inf)
sums[leaves:] = least[leaves:] = (rng.uniform(0, 2, leaves) + epsilon) ** alpha
for level in range(levels - 1, -1, -1):
    at = np.arange(1 << level, 2 << level)
    sums[at] = sums[2 * at] + sums[2 * at + 1]
    least[at] = np.minimum(least[2 * at], least[2 * at + 1])


def weights(chosen):
    return ((sums[leaves + chosen] / least[1]) ** -beta).astype(np.float32)


def tree():
    mass = rng.random(count) * sums[1]
    at = np.ones(count, np.int64)
    for _ in range(levels):
        at *= 2
        left = sums[at]
        right = mass > left
        mass -= left * right
        at += right
    return weights(at - leaves)


def cumsum():
    running = np.cumsum(sums[leaves:])
    chosen = np.searchsorted(running, rng.random(count) * running[-1])
    return weights(chosen)


def update():
    at = leaves + chosen_before
    sums[at] = least[at] = (priorities + epsilon) ** alpha
    for _ in range(levels):
        at = np.unique(at >> 1)
        sums[at] = sums[2 * at] + sums[2 * at + 1]
        least[at] = np.minimum(least[2 * at], least[2 * at + 1])


chosen_before = rng.integers(0, leaves, count)
priorities = rng.uniform(0, 2, count).astype(np.float32).astype(np.float64)
ways = {"numpy sum tree": tree, "numpy cumsum": cumsum, "numpy update": update}
if case["torch"]:
    import torch

    torch.set_num_threads(1)
    probabilities = torch.from_numpy(sums[leaves:])

    def multinomial():
        chosen = torch.multinomial(probabilities, count, replacement=True)
        return (probabilities[chosen] / least[1]) ** -beta

    ways["torch multinomial"] = multinomial

for line in sys.stdin:
    do = ways[line.strip()]
    times = []
    for _ in range(20 if count < 1000 else 3):
        chosen_before = rng.integers(0, leaves, count)
        begin = time.perf_counter()
        do()
        times.append(time.perf_counter() - begin)
    print(sorted(times)[len(times) // 2] * 1e6, flush=True)
