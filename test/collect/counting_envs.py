"""Environments in the form of Gymnasium's, which need numpy alone: what counting.ts does, one by one and as vector environments in
each way to begin anew; and some that break."""

import os
import sys
import time

import numpy as np


class Box:
    def __init__(self, low, high, shape, dtype="float32"):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)


class Discrete:
    def __init__(self, n, start=0):
        self.n, self.start, self.shape, self.dtype = np.int64(n), np.int64(start), (), np.dtype("int64")


class Counting:
    """Shows its index, the episode's number, the step within it and the last action; its episodes take 3 + index steps."""

    made = 0

    def __init__(self, index, discrete=0, dtype="float32"):
        self.index, self.episode = index, 0
        self.observation_space = Box(0, 255, (4,), dtype)
        self.action_space = Discrete(discrete, 3) if discrete else Box(-2, 2, (2,))

    def show(self):
        return np.array([self.index, self.episode, self.count, self.action], self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        self.episode, self.count, self.action, self.seed = self.episode + 1, 0, 0, seed
        return self.show(), {}

    def step(self, action):
        self.count += 1
        self.action = action[1] if np.ndim(action) else action
        over, odd = self.count == 3 + self.index, self.episode % 2 == 1
        return self.show(), 10 * self.index + self.count, over and odd, over and not odd, {}

    def close(self):
        pass


def counting(**how):
    Counting.made += 1
    return Counting(Counting.made - 1, **how)


class CountingVector:
    def __init__(self, count, mode):
        self.num_envs, self.mode = count, mode
        self.metadata = {"autoreset_mode": mode}
        self.environments = [Counting(i) for i in range(count)]
        self.single_observation_space = self.environments[0].observation_space
        self.single_action_space = self.environments[0].action_space
        self.over = np.zeros(count, bool)

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, int)
        assert (options is None) == (self.mode != "Disabled")
        mask = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        for i in np.flatnonzero(mask):
            self.environments[i].reset(seed=seed)
        self.over[mask] = False
        return np.stack([each.show() for each in self.environments]), {}

    def step(self, actions):
        rewards, ends, finals = np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool), [None] * self.num_envs
        for i, each in enumerate(self.environments):
            if self.over[i]:
                assert self.mode == "NextStep", "stepped behind its end"
                each.reset()
                continue
            finals[i], rewards[i], *ends[:, i], _ = each.step(actions[i])
            if self.mode == "SameStep" and ends[:, i].any():
                each.reset()
        over = ends.any(0)
        self.over = over & (self.mode != "SameStep")
        shown = np.stack([each.show() for each in self.environments])
        info = {"final_obs": np.array([final if last else None for final, last in zip(finals, over)], object)}
        return shown, rewards, *ends, info if over.any() else {}

    def close(self):
        pass


def counting_vector(num_envs, mode):
    return CountingVector(num_envs, mode)


class Broken(Counting):
    """Breaks in its third step."""

    def __init__(self, index, how):
        super().__init__(index)
        self.how = how

    def step(self, action):
        shown, reward, *rest = super().step(action)
        if self.count == 3:
            print("the third step")
            sys.stdout.flush()
            if self.how == "throws":
                raise RuntimeError("it broke")
            if self.how == "dies":
                os._exit(7)
            if self.how == "hangs":
                time.sleep(1000)
            if self.how == "short":
                shown = shown[:3]
            if self.how == "nan":
                shown[1] = np.nan
            if self.how == "reward":
                reward = np.inf
        return shown, reward, *rest

    def close(self):
        if self.how == "close":
            raise RuntimeError("it does not close")
        if self.how == "lingers":
            time.sleep(1000)


def broken(how):
    Counting.made += 1
    return Broken(Counting.made - 1, how)


def parting(seconds):
    os.closerange(3, 64)
    time.sleep(seconds)
    os._exit(7)


def odd_spaces(what):
    made = Counting(0)
    if what == "dict":
        made.observation_space = {"a": 1}
    if what == "complex":
        made.observation_space = Box(0, 1, (2,), "complex64")
    if what == "endless":
        made.action_space = Box(-np.inf, np.inf, (2,))
    if what == "tuple":
        made.action_space = (1, 2)
    return made
