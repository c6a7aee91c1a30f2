"""Environments of Gymnasium's form that need only numpy. They count as counting.ts does, singly and
as vector environments with each autoreset mode. Some fail on purpose."""

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
    """Shows its index, the number of the episode, the step within the episode, and the last action.
    An episode has 3 + index steps."""

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
    """Fails in its third step."""

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


class Returned(Counting):
    """Returns in each step the entry of `steps` whose index is the action. A list stands for an
    observation."""

    def __init__(self, dtype, steps, obs_size=4):
        super().__init__(0)
        self.observation_space, self.action_space = Box(0, 1, (obs_size,), dtype), Discrete(len(steps))
        self.steps = steps

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action):
        given = self.steps[action]
        given = given if isinstance(given, dict) else {"obs": given}
        if "tuple" in given:
            return tuple(given["tuple"])
        return given["obs"], given.get("reward", 1), given.get("terminated", False), given.get("truncated", False), {}


class ReturnedVector(CountingVector):
    """The vector form of Returned. The first action selects the entry for all environments."""

    def __init__(self, count, mode, steps):
        super().__init__(count, mode)
        self.single_action_space, self.steps = Discrete(len(steps)), steps

    def step(self, actions):
        given, n = self.steps[actions[0]], self.num_envs
        whole = {"obs": np.zeros((n, 4)), "reward": np.zeros(n), "terminated": np.zeros(n, bool), "truncated": np.zeros(n, bool)}
        whole.update({key: np.array(value) for key, value in given.items() if key != "info"})
        return *whole.values(), given.get("info", {})


def returned(dtype, steps, obs_size=4):
    return Returned(dtype, steps, obs_size)


def returned_vector(num_envs, mode, steps):
    return ReturnedVector(num_envs, mode, steps)


class Keeper(Counting):
    """Keeps its actions and writes into them. All environments share one observation array, which
    each step of any of them changes."""

    def __init__(self, dtype, shape, low=-1, high=1):
        super().__init__(0)
        self.action_space, self.kept, self.low, self.high = Box(low, high, tuple(shape), dtype), [], low, high
        self.observation_space = Box(0, 1, (5,), "float64")

    shows = np.zeros(5)

    def reset(self, *, seed=None, options=None):
        Keeper.shows[:] = 0
        return Keeper.shows, {}

    def step(self, action):
        fits = action.dtype == self.action_space.dtype and action.shape == self.action_space.shape
        inside = np.all(self.action_space.low <= action) and np.all(action <= self.action_space.high)
        self.kept.append(action)
        Keeper.shows[:] = [fits, inside, action.flat[0], self.kept[0].flat[0], self.kept[0].flat[-1]]
        action.flat[-1] = 77
        return Keeper.shows, 0, False, False, {}


def keeper(**how):
    return Keeper(**how)


class KeeperVector(CountingVector):
    """The vector form of Keeper. It keeps the actions of all environments."""

    def __init__(self, count, mode):
        super().__init__(count, mode)
        self.kept = []

    def step(self, actions):
        self.kept.append(actions)
        shows = np.array([[each[0], each[1], kept[0], kept[1]] for each, kept in zip(actions, self.kept[0])])
        actions[:, 1] = 77
        none = np.zeros(self.num_envs, bool)
        return shows, np.zeros(self.num_envs), none, none, {}


def keeper_vector(num_envs, mode):
    return KeeperVector(num_envs, mode)


class Pool:
    """Steps all of its environments, as EnvPool does, but is not a vector environment of
    Gymnasium's form."""

    def __init__(self):
        self.observation_space, self.action_space = Box(0, 1, (2,)), Discrete(2)

    def reset(self):
        return np.zeros((3, 2)), {}


def pool(num_envs):
    return Pool()


def told(**kwargs):
    """Raises an error that shows the keyword arguments."""
    raise RuntimeError(" ".join(f"{name}={value!r}" for name, value in kwargs.items()))


class MultiBinary:
    def __init__(self, n):
        self.n, self.shape, self.dtype = n, (n,), np.dtype("int8")


class Graph:
    shape = dtype = None


class Image(Box):
    """A subclass of Box must be accepted as a Box."""


class Choice(Discrete):
    """A subclass of Discrete must be accepted as a Discrete."""


def big(shape, actions=2):
    made = Counting(0)
    made.observation_space = Big(shape)
    made.action_space = Box(-1, 1, (actions,))
    made.action_space.high[::2] = 2
    made.show = lambda: np.full(shape, 7, "uint8")
    return made


class Big(Box):
    """Has bounds as Box has, but allocates no arrays for them."""

    def __init__(self, shape):
        self.shape, self.dtype = tuple(shape), np.dtype("uint8")


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
    if what == "binary":
        made.action_space = MultiBinary(3)
    if what == "binary shown":
        made.observation_space = MultiBinary(3)
    if what == "graph shown":
        made.observation_space = Graph()
    if what == "discrete shown":
        made.observation_space = Discrete(3)
    if what == "whole":
        made.action_space = Box(0, 4, (2,), "int32")
    if what == "bool":
        made.action_space = Box(0, 1, (2,), "bool")
    if what == "subclasses":
        made.observation_space, made.action_space = Image(0, 255, (4,), "int64"), Choice(2, -5)
    return made


def wrapped(what):
    """Needs Gymnasium. Uses the wrappers that error texts recommend."""
    import gymnasium
    from gymnasium import spaces, wrappers

    class Any(gymnasium.Env):
        def __init__(self, shown, taken):
            self.observation_space, self.action_space = shown, taken

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.observation_space.seed(seed)
            return self.show(), {}

        def show(self):
            box = self.observation_space
            return np.zeros(box.shape, box.dtype) if box.dtype == np.longdouble else box.sample()

        def step(self, action):
            assert self.action_space.contains(action), action
            return self.show(), 0.0, False, False, {}

    box = spaces.Box(-1, 1, (2,))
    shown = {
        "discrete": spaces.Discrete(4, start=2),
        "binary": spaces.MultiBinary([2, 3]),
        "multi": spaces.MultiDiscrete([2, 3]),
        "text": spaces.Text(4),
        "dict": spaces.Dict({"a": box, "b": spaces.Discrete(3)}),
        "tuple": spaces.Tuple((box, spaces.MultiBinary(3))),
        "oneof": spaces.OneOf((box, spaces.Discrete(3))),
        "graph": spaces.Graph(box, None),
        "sequence": spaces.Sequence(box),
        "long": spaces.Box(0, 1, (2,), np.longdouble),
        "image": spaces.Box(0, 255, (96, 96, 3), np.uint8),
    }
    name, _, wrapper = what.partition(" ")
    if name == "whole":
        made = Any(box, spaces.Box(0, 4, (2,), np.int32))
        taken = spaces.Box(0, 4, (2,), np.float32)
        return wrappers.TransformAction(made, lambda a: np.rint(a).astype(np.int32), taken) if wrapper else made
    if name == "nvec":
        made = Any(box, spaces.MultiDiscrete([2, 3]))
        return wrappers.TransformAction(made, lambda a: np.array(np.unravel_index(a, (2, 3))), spaces.Discrete(6)) if wrapper else made
    made = Any(shown[name], box)
    if wrapper == "flat":
        return wrappers.FlattenObservation(made)
    if wrapper == "float32":
        return wrappers.DtypeObservation(made, np.float32)
    if wrapper == "box":
        return wrappers.TransformObservation(made, lambda obs: np.zeros(2, np.float32), box)
    if wrapper == "moved":
        moved = spaces.Box(0, 255, (3, 96, 96), np.uint8)
        return wrappers.TransformObservation(made, lambda obs: np.moveaxis(obs, -1, 0), moved)
    if wrapper == "gray":
        return wrappers.GrayscaleObservation(made)
    return made
