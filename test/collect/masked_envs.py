"""Environments with illegal actions, which give their masks in each way that Hotslot knows. They are those of
masked.ts: the observation determines the legal actions, and an illegal action raises an error."""

import types

import numpy as np
from counting_envs import Box, Discrete, MultiBinary

ACTIONS = 33


class Dict:
    def __init__(self, spaces):
        self.spaces = spaces


SPACES = types.SimpleNamespace(Box=Box, Discrete=Discrete, MultiBinary=MultiBinary, Dict=Dict)


def legal(state):
    shift = int(state[0]) + int(state[1]) + 2 * int(state[2])
    return np.array([(action + shift) % 3 == 0 for action in range(ACTIONS)])


class Masked:
    """An episode has 3 + index steps. Odd episodes terminate, and even ones are truncated. Action 0 is 3."""

    def __init__(self, index, source, spaces=SPACES):
        self.index, self.source, self.episode = index, source, 0
        self.action_space = spaces.Discrete(ACTIONS, start=3)
        box = spaces.Box(0, 255, (4,), np.float32)
        mask = spaces.Box(0, 1, (ACTIONS,), np.int8) if index % 2 else spaces.MultiBinary(ACTIONS)
        if source.startswith("vector "):
            mask = spaces.MultiBinary(ACTIONS)
        self.observation_space = spaces.Dict({"observation": box, "action_mask": mask}) if "dict" in source else box
        if source == "method":
            self.action_masks = self.masks
        if source == "lenient":
            self.action_masks = self.mask

    def state(self):
        return np.array([self.index, self.episode, self.count, self.action], np.float32)

    def masks(self):
        # sb3-contrib calls the method only in states that go on.
        assert not self.terminated, "asked after the end"
        return legal(self.state()).tolist()

    def shows(self):
        if "dict" not in self.source:
            return self.state()
        return {"observation": self.state(), "action_mask": self.mask().astype(np.int8)}

    def mask(self):
        return np.zeros(ACTIONS, bool) if self.terminated and self.index % 4 < 3 else legal(self.state())

    def info(self):
        if "info" not in self.source or (self.terminated and self.index % 4 == 0):
            return {"other": 1}
        if self.source == "info" and self.terminated and self.index % 4 == 1:
            return {"action_mask": []}
        return {"action_mask": self.mask().astype(np.int8)}

    def reset(self, *, seed=None, options=None):
        self.episode, self.count, self.action, self.terminated = self.episode + 1, 0, 0, False
        return self.shows(), self.info()

    def step(self, action):
        action = int(action) - 3
        if not legal(self.state())[action]:
            raise ValueError(f"environment {self.index} took the illegal action {action}")
        self.count, self.action = self.count + 1, action
        over, odd = self.count == 3 + self.index, self.episode % 2 == 1
        self.terminated = over and odd
        return self.shows(), self.count, over and odd, over and not odd, self.info()

    def close(self):
        pass


class Wrapper:
    """Like a wrapper of Gymnasium, it passes no attributes of the environment on."""

    def __init__(self, env):
        self.env, self.observation_space, self.action_space = env, env.observation_space, env.action_space
        self.reset, self.step, self.close = env.reset, env.step, env.close


made = 0


def masked(source):
    global made
    made += 1
    if source == "wrapped":
        return Wrapper(Wrapper(Masked(made - 1, "method")))
    return Masked(made - 1, source)


class MaskedVector:
    """A vector environment with masks in info, in a Dict, or by a method of its own."""

    def __init__(self, count, mode, source):
        self.num_envs, self.mode, self.source = count, mode, source
        self.metadata = {"autoreset_mode": mode}
        self.environments = [Masked(i, f"vector {source}") for i in range(count)]
        self.single_observation_space = self.environments[0].observation_space
        self.single_action_space = self.environments[0].action_space
        self.over = np.zeros(count, bool)
        if source == "method":
            self.action_masks = lambda: np.stack([each.mask() for each in self.environments])

    def stacked(self):
        shown = [each.shows() for each in self.environments]
        if self.source != "dict":
            return np.stack(shown)
        return {name: np.stack([each[name] for each in shown]) for name in ("observation", "action_mask")}

    def infos(self, infos):
        each = [info.get("action_mask") for info in infos]
        has = np.array([mask is not None for mask in each])
        if not has.any():
            return {}
        return {"action_mask": np.stack([np.zeros(ACTIONS) if mask is None else mask for mask in each]), "_action_mask": has}

    def reset(self, *, seed=None, options=None):
        mask = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        infos = [{}] * self.num_envs
        for i in np.flatnonzero(mask):
            _, infos[i] = self.environments[i].reset()
        self.over[mask] = False
        return self.stacked(), self.infos(infos)

    def step(self, actions):
        n = self.num_envs
        rewards, ends, finals, lasts, infos = np.zeros(n), np.zeros((2, n), bool), [None] * n, [{}] * n, [{}] * n
        for i, each in enumerate(self.environments):
            if self.over[i]:
                _, infos[i] = each.reset()
                continue
            finals[i], rewards[i], *ends[:, i], infos[i] = each.step(actions[i])
            if self.mode == "SameStep" and ends[:, i].any():
                lasts[i] = infos[i]
                _, infos[i] = each.reset()
        over = ends.any(0)
        self.over = over & (self.mode != "SameStep")
        info = self.infos(infos)
        if self.mode == "SameStep" and over.any():
            array = np.full(n, None, object)
            for i in np.flatnonzero(over):
                array[i] = finals[i]
            info |= {"final_obs": array, "final_info": self.infos(lasts)}
        return self.stacked(), rewards, *ends, info

    def close(self):
        pass


def masked_vector(num_envs, mode, source):
    return MaskedVector(num_envs, mode, source)


def gymnasium_vector(num_envs, mode, source, kind, wraps=False):
    """A vector environment of Gymnasium's own classes. `kind` is Sync or Async."""
    import gymnasium
    from gymnasium import spaces, vector

    class Real(Masked, gymnasium.Env):
        pass

    def maker(i):
        # OrderEnforcing does not have the method action_masks().
        own = source if source in ("method", "lenient") else f"vector {source}"
        return lambda: gymnasium.wrappers.OrderEnforcing(Real(i, own, spaces))

    made = getattr(vector, f"{kind}VectorEnv")(
        [maker(i) for i in range(num_envs)], autoreset_mode=getattr(vector.AutoresetMode, mode)
    )
    return vector.VectorWrapper(made) if wraps else made


class Returned:
    """Its reset gives the mask `first`. Step k gives the mask `steps[k]` in the info."""

    def __init__(self, first, steps, ends=(), box=False, actions=4, entries=None):
        self.first, self.steps, self.ends, self.n = first, steps, ends, actions
        self.observation_space = Box(0, 1, (1,)) if entries is None else Dict({name: space_of(kind) for name, kind in entries.items()})
        self.action_space = Box(-1, 1, (1,)) if box else Discrete(actions)

    def given(self, mask):
        return {} if mask is None else {"action_mask": np.ones(self.n, bool) if mask == "all" else mask}

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, "float32"), self.given(self.first)

    def step(self, action):
        self.count += 1
        end = self.ends[self.count - 1] if self.ends else None
        return np.zeros(1, "float32"), 0, end == "terminated", end == "truncated", self.given(self.steps[self.count - 1])


def space_of(kind):
    return Discrete(3) if kind == "discrete" else MultiBinary(4) if kind == "mask" else Box(0, 1, (1,))


def returned(**how):
    return Returned(**how)


class Mapped(Returned):
    """Shows what `shows` has, although its space is a Dict."""

    def __init__(self, shows):
        super().__init__(None, [None], entries={"observation": "box", "action_mask": "mask"})
        self.shows = shows

    def reset(self, *, seed=None, options=None):
        return self.shows, {}


def mapped(**how):
    return Mapped(**how)
