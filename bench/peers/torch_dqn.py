"""The other side of the benchmark `torch`: the same double DQN steps, as one writes them in PyTorch.

Reads one JSON line: {"obs", "actions", "hidden", "batch", "rows"}. Then, for every line 'step' (rows drawn from a replay buffer of
numpy arrays, then the update) or 'update' (the update alone, on rows that are there) prints the mean of many in microseconds.
The first line it prints says what runs.
"""
import json
import sys
import time

import numpy as np
import torch
from torch import nn

case = json.loads(sys.stdin.readline())
rows, batch = case["rows"], case["batch"]
rng = np.random.default_rng(1)
floats = lambda *shape: rng.uniform(-0.5, 0.5, shape).astype(np.float32)
storage = {
    "obs": floats(rows, case["obs"]),
    "next_obs": floats(rows, case["obs"]),
    "actions": rng.integers(0, case["actions"], rows),
    "rewards": floats(rows),
    "terminated": np.zeros(rows, np.float32),
}


def network():
    sizes = [case["obs"], *case["hidden"], case["actions"]]
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


online, target = network(), network()
target.load_state_dict(online.state_dict())
optimiser = torch.optim.Adam(online.parameters(), lr=1e-3)


def update(obs, next_obs, actions, rewards, terminated):
    with torch.no_grad():
        choice = online(next_obs).argmax(1, keepdim=True)
        value = target(next_obs).gather(1, choice).squeeze(1)
        goal = rewards + 0.99 * (1 - terminated) * value
    chosen = online(obs).gather(1, actions.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, goal)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    with torch.no_grad():
        for to, of in zip(target.parameters(), online.parameters()):
            to.lerp_(of, 0.005)


def sampled():
    drawn = rng.integers(0, rows, batch)
    return [torch.from_numpy(column[drawn]) for column in storage.values()]


here = sampled()
print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}), flush=True)
for line in sys.stdin:
    do = (lambda: update(*sampled())) if line.strip() == "step" else (lambda: update(*here))
    for _ in range(20):
        do()
    begin = time.perf_counter()
    for _ in range(200):
        do()
    print((time.perf_counter() - begin) / 200 * 1e6, flush=True)
