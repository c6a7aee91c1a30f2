"""The PyTorch side of the benchmark `torch`: the same double DQN steps.

Reads one JSON line: {"obs", "actions", "hidden", "batch", "rows", "accelerator", "tf32"}, and prints what it runs on. For every
further line it prints the mean of many calls in microseconds:

update    The update alone, on fixed rows.
step      Draws rows from host memory, then updates. On the CPU the rows are in numpy arrays. On a GPU they go through pinned
          memory, and the next rows are drawn while the last ones are copied and used.
resident  On a GPU: draws rows from the GPU's memory. One graph has the draw and the update.
"""
import json
import sys

import numpy as np
import torch
from torch import nn

from best import Place, follow

case = json.loads(sys.stdin.readline())
place = Place(case)
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
    return nn.Sequential(*layers[:-1]).to(place.device)


online, target = network(), network()
target.load_state_dict(online.state_dict())
optimizer = place.adam(online.parameters(), 1e-3)


def update(obs, next_obs, actions, rewards, terminated):
    with torch.no_grad():
        choice = online(next_obs).argmax(1, keepdim=True)
        value = target(next_obs).gather(1, choice).squeeze(1)
        goal = rewards + 0.99 * (1 - terminated) * value
    chosen = online(obs).gather(1, actions.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, goal)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        follow(target.parameters(), online.parameters(), 0.005)


def sampled():
    drawn = rng.integers(0, rows, batch)
    return [torch.from_numpy(column[drawn]) for column in storage.values()]


here = [column.to(place.device) for column in sampled()]
alone = place.ready(lambda: update(*here))
columns = [torch.from_numpy(column) for column in storage.values()]


class Pinned:
    """Selects rows into one of two pinned slots and copies them from there to the tensors that the graph reads."""

    def __init__(self):
        self.slots = [[column[:batch].clone().pin_memory() for column in columns] for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in self.slots]
        self.turn = 0

    def step(self):
        slot, copied = self.slots[self.turn], self.copied[self.turn]
        self.turn = 1 - self.turn
        copied.synchronize()
        drawn = torch.randint(0, rows, (batch,))
        for column, to in zip(columns, slot):
            torch.index_select(column, 0, drawn, out=to)
        for to, of in zip(here, slot):
            to.copy_(of, non_blocking=True)
        copied.record()
        alone()


def resident():
    there = [column.to(place.device) for column in columns]

    def step():
        drawn = torch.randint(0, rows, (batch,), device=place.device)
        update(*[column[drawn] for column in there])

    return place.ready(step)


steps = {"update": lambda: alone, "step": lambda: Pinned().step if place.gpu else lambda: update(*sampled())}
if place.gpu:
    steps["resident"] = resident
made = {}
print(json.dumps(place.says()), flush=True)
for line in sys.stdin:
    name = line.strip()
    if name not in made:
        made[name] = steps[name]()
    place.mean(made[name], 20)
    print(place.mean(made[name], 200), flush=True)
