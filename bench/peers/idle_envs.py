"""Vector environments that do nothing, so that what is measured is the way to them and back."""

from types import SimpleNamespace

import numpy as np


class Idle:
    metadata = {"autoreset_mode": "SameStep"}

    def __init__(self, count, width, actions):
        box = lambda size: SimpleNamespace(low=-np.ones(size), high=np.ones(size), shape=(size,), dtype=np.dtype("float32"))
        self.num_envs = count
        self.single_observation_space, self.single_action_space = box(width), box(actions)
        self.shown, self.rewards = np.zeros((count, width), "float32"), np.zeros(count)
        self.never = np.zeros(count, bool)

    def reset(self, *, seed=None, options=None):
        return self.shown, {}

    def step(self, actions):
        return self.shown, self.rewards, self.never, self.never, {}

    def close(self):
        pass


def make(num_envs, width, actions):
    return Idle(num_envs, width, actions)
