"""Steps Gymnasium environments for Hotslot: python3 hotslot_gymnasium.py '{"id": "CartPole-v1", "environments": 16}'.

File descriptor 3 is what it reads from, 4 what it writes to. First it writes a line of JSON: what the environments show and
take. Then each request, a frame of one size, is answered by a frame of one size, in the machine's byte order:

    request   operation uint32 (1 reset, 2 step) | seeds uint32 × n | mask uint8 × n, and zeros up to a multiple of 8
              | actions: int32 × n, or float32 × n × size
    answer    observations n × size | final observations n × size, with autoreset "same-step" only
              | rewards float64 × n | terminated uint8 × n | truncated uint8 × n

each part from a multiple of 8 on. A reset is of the environments that the mask marks. When there is nothing more to read
it closes the environments and ends. It needs numpy, and Gymnasium for what is asked for by id. What environments print goes
to standard error.
"""

import faulthandler
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import traceback

READS, WRITES = 3, 4
RESET, STEP = 1, 2
REFUSED = 3  # exit status: the last line of standard error is for the user

try:
    import numpy as np
except ImportError:
    print(f"{sys.executable} has no module numpy: pip install numpy", file=sys.stderr)
    sys.exit(REFUSED)


class Refused(Exception):
    """What the user can mend; the text says how."""


class OneByOne:
    """Environments of one kind, stepped in turn and begun anew when they are told."""

    metadata = {"autoreset_mode": "disabled"}

    def __init__(self, made):
        self.environments = made
        self.num_envs = len(made)
        self.single_observation_space = made[0].observation_space
        self.single_action_space = made[0].action_space
        space = self.single_observation_space
        observation(space)  # refuses what has no arrays
        self.obs = np.zeros((self.num_envs, *space.shape), space.dtype)
        self.rewards = np.zeros(self.num_envs)
        self.terminated = np.zeros(self.num_envs, bool)
        self.truncated = np.zeros(self.num_envs, bool)

    def reset(self, *, seed, options):
        for i in np.flatnonzero(options["reset_mask"]):
            self.show(i, self.environments[i].reset(seed=seed[i])[0])
        return self.obs, {}

    def step(self, actions):
        for i, environment in enumerate(self.environments):
            obs, self.rewards[i], self.terminated[i], self.truncated[i], _ = environment.step(actions[i])
            self.show(i, obs)
        return self.obs, self.rewards, self.terminated, self.truncated, {}

    def show(self, i, obs):
        # Assigning would stretch what is too short.
        if np.shape(obs) != self.obs.shape[1:]:
            raise ValueError(f"environment {i} shows {np.shape(obs)}, its space is {self.obs.shape[1:]}")
        self.obs[i] = obs

    def close(self):
        for environment in self.environments:
            environment.close()


def maker(asked):
    """What makes the environments: of a registered id, or a function of the user's."""
    kwargs, count = asked["kwargs"], asked["environments"]
    if asked["entry"]:
        name, _, attribute = asked["entry"].partition(":")
        try:
            function = getattr(importlib.import_module(name), attribute)
        except ModuleNotFoundError as error:
            raise Refused(f"{sys.executable} has no module {error.name}, which is needed for {asked['entry']}") from error
        except AttributeError as error:
            raise Refused(f"{name} has no {attribute}, which is asked for") from error
        if "num_envs" in inspect.signature(function).parameters:
            return function(num_envs=count, **kwargs)
        made = [function(**kwargs) for _ in range(count)]
        if hasattr(made[0], "num_envs"):
            raise Refused(f"{asked['entry']} makes vector environments: it must take num_envs")
        return OneByOne(made)
    try:
        import gymnasium
    except ImportError as error:
        raise Refused(f"{sys.executable} has no module gymnasium: pip install gymnasium") from error
    try:
        if asked["vectorization"]:
            return gymnasium.make_vec(asked["id"], count, asked["vectorization"], **kwargs)
        return OneByOne([gymnasium.make(asked["id"], **kwargs) for _ in range(count)])
    except (gymnasium.error.Error, ImportError) as error:
        raise Refused(f"{asked['id']}: {error}") from error


# As they are, or as what Hotslot has for them.
DTYPES = {name: name for name in "float32 float64 int8 uint8 int16 uint16 int32 uint32".split()}
DTYPES |= {"float16": "float32", "bool": "uint8"}


def ends(space):
    """JSON has no infinities: null stands for an end that is none."""
    finite = lambda value: float(value) if np.isfinite(value) else None
    return {side: [finite(value) for value in np.ravel(getattr(space, side))] for side in ("low", "high")}


def observation(space):
    kind = type(space).__name__
    if hasattr(space, "n") or getattr(space, "shape", None) is None:
        raise Refused(f"observations are {space}, not an array: wrap the environment by gymnasium.wrappers.FlattenObservation")
    dtype = DTYPES.get(np.dtype(space.dtype).name)
    if dtype is None:
        raise Refused(f"observations are {kind} of {space.dtype}, which Hotslot has not: use one of {', '.join(DTYPES)}")
    return {"shape": list(space.shape), "dtype": dtype}


def action(space):
    if type(space).__name__ == "Discrete" or (hasattr(space, "n") and np.ndim(space.n) == 0):
        return {"n": int(space.n)}
    if not hasattr(space, "low"):
        raise Refused(f"actions are {space}: Hotslot has Discrete and Box ones")
    return {"shape": list(space.shape), **ends(space)}


def autoreset(environments):
    mode = getattr(environments, "metadata", {}).get("autoreset_mode")
    if mode is None:
        raise Refused("this vector environment does not say metadata['autoreset_mode']: Gymnasium's do since 1.1")
    known = {"disabled": "disabled", "samestep": "same-step", "nextstep": "next-step"}
    text = str(getattr(mode, "value", mode)).lower().replace("_", "").replace("-", "")
    if text not in known:
        raise Refused(f"autoreset_mode is {mode}: it must be NEXT_STEP, SAME_STEP or DISABLED")
    return known[text]


class Frame:
    """Arrays that lie one behind the other, each from a multiple of 8 on."""

    def __init__(self, *parts):
        offsets, end = [], 0
        for dtype, shape in parts:
            offsets.append(end)
            end += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 8) * 8
        self.bytes = memoryview(bytearray(end))
        self.parts = [
            np.frombuffer(self.bytes, dtype, int(np.prod(shape)), offset).reshape(shape)
            for (dtype, shape), offset in zip(parts, offsets)
        ]


def read(frame):
    """False at the end."""
    done = 0
    while done < len(frame.bytes):
        some = os.readv(READS, [frame.bytes[done:]])
        if some == 0:
            return False
        done += some
    return True


def write(data):
    done = 0
    while done < len(data):
        done += os.write(WRITES, data[done:])


def final_observations(into, over, shown, info):
    """Of environments that began anew in the same step."""
    into[...] = shown
    if not over.any():
        return
    given = info.get("final_obs", info.get("final_observation"))
    if given is None:
        raise ValueError("an episode is over, and info has no final_obs, as autoreset_mode SAME_STEP promises")
    for i in np.flatnonzero(over):
        into[i] = given[i]


def serve(environments):
    count = environments.num_envs
    seen, acts = environments.single_observation_space, environments.single_action_space
    spaces = {"observation": observation(seen), "action": action(acts), "autoreset": autoreset(environments)}
    write((json.dumps({"count": count, **spaces}) + "\n").encode())
    discrete = "n" in spaces["action"]
    same_step = spaces["autoreset"] == "same-step"
    shown = (spaces["observation"]["dtype"], (count, *seen.shape))
    taken = ("int32", (count,)) if discrete else ("float32", (count, *acts.shape))
    request = Frame(("uint32", (1,)), ("uint32", (count,)), ("uint8", (count,)), taken)
    operation, seeds, mask, actions = request.parts
    flags = [("float64", (count,)), ("uint8", (count,)), ("uint8", (count,))]
    answer = Frame(shown, *([shown] if same_step else []), *flags)
    obs, *finals, rewards, terminated, truncated = answer.parts
    start = int(getattr(acts, "start", 0))
    while read(request):
        if operation[0] == RESET:
            options = {"reset_mask": mask.astype(bool)} if spaces["autoreset"] == "disabled" else None
            # Of a vector environment one seed is for all of them.
            every = [int(seed) for seed in seeds]
            seed = every if isinstance(environments, OneByOne) else every[np.argmax(mask)]
            obs[...], _ = environments.reset(seed=seed, options=options)
        else:
            action_of = actions.astype(np.int64) + start if discrete else actions
            obs[...], rewards[...], terminated[...], truncated[...], info = environments.step(action_of)
            for final in finals:
                final_observations(final, (terminated | truncated).astype(bool), obs, info)
        write(answer.bytes)


def end_with_parent():
    """Standard input ends when nobody is there any more who would end this process."""
    while os.read(0, 1):
        pass
    os._exit(0)


def main():
    faulthandler.enable()  # SIGABRT tells where it was
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the learner's
    threading.Thread(target=end_with_parent, daemon=True).start()
    asked = json.loads(sys.argv[1])
    sys.path.insert(0, asked["path"])
    environments = None
    try:
        environments = maker(asked)
        serve(environments)
    except Refused as error:
        print(error, file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        pass
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        if environments is not None:
            environments.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
