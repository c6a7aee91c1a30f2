"""The PyTorch side of the benchmark `traced`: the same QR-DQN updates, on one thread.

Reads one JSON line: {"obs", "actions", "hidden", "batch", "quantiles", "accelerator"}. Prints what it runs on. For every further
line, 'update', it prints the mean of many updates in microseconds.
"""
import json
import sys

import torch
from torch import nn

from best import Place, follow

torch.set_num_threads(1)
case = json.loads(sys.stdin.readline())
place = Place(case)
batch, actions, count = case["batch"], case["actions"], case["quantiles"]


def network():
    sizes = [case["obs"], *case["hidden"], actions * count]
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(place.device)


online, target = network(), network()
target.load_state_dict(online.state_dict())
optimizer = place.adam(online.parameters(), 1e-3)
middles = ((torch.arange(count, device=place.device) + 0.5) / count).view(1, count, 1)


def update(obs, next_obs, taken, rewards, discounts):
    with torch.no_grad():
        following = target(next_obs).view(batch, count, actions)
        best = following.mean(1).argmax(1)
        chosen = following.gather(2, best.view(batch, 1, 1).expand(batch, count, 1)).squeeze(2)
        goal = rewards[:, None] + discounts[:, None] * chosen
    values = online(obs).view(batch, count, actions)
    values = values.gather(2, taken.view(batch, 1, 1).expand(batch, count, 1)).squeeze(2)
    error = goal[:, None, :] - values[:, :, None]
    size = error.abs()
    huber = torch.where(size > 1, size - 0.5, 0.5 * error**2)
    share = (middles - (error.detach() < 0).float()).abs()
    loss = (share * huber).mean(2).sum(1).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        follow(target.parameters(), online.parameters(), 0.005)


some = lambda *shape: torch.rand(shape, device=place.device) - 0.5
taken = torch.randint(0, actions, (batch,), device=place.device)
discounts = torch.full((batch,), 0.99, device=place.device)
here = [some(batch, case["obs"]), some(batch, case["obs"]), taken, some(batch), discounts]
step = place.ready(lambda: update(*here))
print(json.dumps(place.says()), flush=True)
for line in sys.stdin:
    place.mean(step, 5)
    print(place.mean(step, 200 if place.gpu else 60), flush=True)
