"""Vector environments that do nothing, so that a benchmark measures only the way to them and back."""

import numpy as np


class Box:
    def __init__(self, size):
        self.low, self.high, self.shape, self.dtype = -np.ones(size), np.ones(size), (size,), np.dtype("float32")


class Idle:
    metadata = {"autoreset_mode": "SameStep"}

    def __init__(self, count, width, actions):
        self.num_envs = count
        self.single_observation_space, self.single_action_space = Box(width), Box(actions)
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
