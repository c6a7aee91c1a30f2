"""The PyTorch side of the benchmark `torch`: the same SAC updates, on one thread.

Reads one JSON line: {"obs", "actions", "actor", "critic", "batch", "atoms", "accelerator", "tf32"}. With atoms 1 the critics are
scalar, with ReLU. With more they are categorical from -20 to 20, with LayerNorm and SiLU. Prints what it runs on. For every further
line, 'update', it prints the mean of many updates in microseconds.
"""
import json
import sys

import torch
from torch import nn
from torch.nn import functional as F

from best import Place, follow

torch.set_num_threads(1)
case = json.loads(sys.stdin.readline())
place = Place(case)
obs_dim, act_dim, batch, atoms = case["obs"], case["actions"], case["batch"], case["atoms"]
fast = atoms > 1


def network(inputs, hidden, outputs):
    layers = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), *([nn.LayerNorm(size), nn.SiLU()] if fast else [nn.ReLU()])]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, outputs)).to(place.device)


actor = network(obs_dim, case["actor"], 2 * act_dim)
critics, targets = ([network(obs_dim + act_dim, case["critic"], atoms) for _ in range(2)] for _ in range(2))
for to, of in zip(targets, critics):
    to.load_state_dict(of.state_dict())
log_alpha = torch.zeros(1, device=place.device, requires_grad=True)
adam = lambda parameters: place.adam(parameters, 3e-4)
actor_adam, alpha_adam = adam(actor.parameters()), adam([log_alpha])
critic_adam = adam([each for critic in critics for each in critic.parameters()])
support = torch.linspace(-20, 20, max(atoms, 2), device=place.device)
gap = 40 / (max(atoms, 2) - 1)


def sample(obs):
    mean, raw = actor(obs).chunk(2, -1)
    log_std = -5 + 3.5 * (torch.tanh(raw) + 1)
    noise = torch.randn_like(mean)
    y = torch.tanh(mean + log_std.exp() * noise)
    log_prob = -0.5 * noise**2 - log_std - 0.9189385 - torch.log(1 - y**2 + 1e-6)
    return y, log_prob.sum(1)


def project(logits, rewards, discounts, cost):
    probs = F.softmax(logits, 1)
    moved = (rewards[:, None] + discounts[:, None] * (support - cost[:, None])).clamp(-20, 20)
    at = (moved + 20) / gap
    left = at.floor().long().clamp(max=atoms - 2)
    right = at - left
    out = torch.zeros_like(probs)
    out.scatter_add_(1, left, probs * (1 - right))
    out.scatter_add_(1, left + 1, probs * right)
    return out


def update(obs, next_obs, actions, rewards, discounts):
    with torch.no_grad():
        alpha = log_alpha.exp()
        next_actions, next_log_prob = sample(next_obs)
        seen = torch.cat([next_obs, next_actions], 1)
        cost = alpha * next_log_prob
        if fast:
            goals = [project(target(seen), rewards, discounts, cost) for target in targets]
        else:
            least = torch.min(targets[0](seen), targets[1](seen)).squeeze(1)
            goals = [rewards + discounts * (least - cost)] * 2
    seen = torch.cat([obs, actions], 1)
    if fast:
        loss = sum(-(goal * F.log_softmax(critic(seen), 1).clamp(min=-30)).sum(1).mean() for critic, goal in zip(critics, goals))
    else:
        loss = sum(F.mse_loss(critic(seen).squeeze(1), goal) for critic, goal in zip(critics, goals))
    critic_adam.zero_grad(set_to_none=True)
    loss.backward()
    critic_adam.step()

    drawn, log_prob = sample(obs)
    seen = torch.cat([obs, drawn], 1)
    if fast:
        value = sum((F.softmax(critic(seen), 1) * support).sum(1) for critic in critics) / 2
    else:
        value = torch.min(critics[0](seen), critics[1](seen)).squeeze(1)
    actor_loss = (alpha * log_prob - value).mean()
    actor_adam.zero_grad(set_to_none=True)
    actor_loss.backward()
    actor_adam.step()

    with torch.no_grad():
        log_prob = next_log_prob if fast else sample(obs)[1]
    alpha_loss = (-log_alpha.exp() * (log_prob - act_dim)).mean()
    alpha_adam.zero_grad(set_to_none=True)
    alpha_loss.backward()
    alpha_adam.step()
    with torch.no_grad():
        every = lambda networks: [each for network in networks for each in network.parameters()]
        follow(every(targets), every(critics), 0.005)


some = lambda *shape: torch.rand(shape, device=place.device) - 0.5
discounts = torch.full((batch,), 0.99, device=place.device)
here = [some(batch, obs_dim), some(batch, obs_dim), some(batch, act_dim), some(batch), discounts]
step = place.ready(lambda: update(*here))
rounds = 200 if place.gpu else max(1, int(40000 / batch / (8 if fast else 1)))
print(json.dumps(place.says()), flush=True)
for line in sys.stdin:
    step()
    print(place.mean(step, rounds), flush=True)
