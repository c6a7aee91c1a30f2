"""An environment in the form of Gymnasium's that needs numpy alone: a cart is pushed until it stands still in the middle."""

import numpy as np

STEP, LENGTH = 0.1, 60


class Box:
    """As gymnasium.spaces.Box, by which name Hotslot knows it."""

    def __init__(self, end, shape):
        self.high = np.full(shape, end, np.float32)
        self.low, self.shape, self.dtype = -self.high, shape, self.high.dtype


class Braking:
    observation_space = Box(np.inf, (2,))  # where it is, and how fast
    action_space = Box(1, (1,))  # the push

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-1, 1, 2)
        self.steps = 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        place, speed = self.state
        push = float(action[0])
        speed += STEP * push
        place += STEP * speed
        self.state = np.array([place, speed])
        self.steps += 1
        reward = -(place**2 + 0.1 * speed**2 + 0.01 * push**2)
        return self.state.astype(np.float32), reward, False, self.steps == LENGTH, {}

    def close(self):
        pass
