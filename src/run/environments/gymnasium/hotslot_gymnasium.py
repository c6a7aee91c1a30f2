"""Steps Gymnasium environments for Hotslot. child.ts starts this script, and frames.ts has the same frames.

The script reads from file descriptor 3 and writes to 4, in the machine's byte order. It first reads
which environments to make: a uint32, then that number of bytes of JSON. It answers with a greeting that
describes their spaces: two uint32, then the first number of bytes of JSON, then the second number of
bytes, which are bounds of actions. Then it reads requests and answers each of them. All requests have
one size, and all answers have another:

    request   operation uint32 (1 reset, 2 step) | seeds uint32 × n | mask uint8 × n, and zeros up to a multiple of 8
              | actions: int32 × n, or float32 × n × size
    answer    lengths uint32 × 2 | observations n × size | final observations n × size, with autoreset "same-step" only
              | rewards float64 × n | terminated uint8 × n | truncated uint8 × n

Each part begins at a multiple of 8 bytes. The first of `lengths` is that of the JSON that follows the
answer, 0 without a fault. This JSON describes a value that the environments returned and that their
spaces do not contain. The second is that of the action masks that follow the answer instead, 0 if the
environments have given none: a byte for each action of each environment, 1 for a legal action, or 255
for all actions of an environment that gave no mask. With "same-step", those before an automatic reset
follow. A reset resets the environments that the mask marks. At the end of its input the script
closes the environments and ends. It needs numpy, and Gymnasium for environments that are named by id.
child.ts decides where the output of the environments goes.
"""

import base64
import faulthandler
import importlib
import inspect
import json
import math
import os
import signal
import sys
import threading
import traceback

READS, WRITES = 3, 4
RESET, STEP = 1, 2


def read(into):
    """Fills `into`. Returns False at the end of the input."""
    done = 0
    while done < len(into):
        some = os.readv(READS, [into[done:]])
        if some == 0:
            return False
        done += some
    return True


def write(data):
    data, done = memoryview(data), 0
    while done < len(data):
        done += os.write(WRITES, data[done:])


def greet(greeting, more=b""):
    text = json.dumps(greeting).encode()
    sizes = len(text).to_bytes(4, sys.byteorder) + len(more).to_bytes(4, sys.byteorder)
    write(sizes + text + more)


try:
    import numpy as np
    from hotslot_masks import Masks, in_infos, method_of, method_of_all, of_each
    from hotslot_returned import five, flag, flags, needs, number, numbers, pair
    from hotslot_spaces import MAX_BYTES, Actions, Fault, Observations, Refused, autoreset, shown, sizes
except ImportError:
    greet({"refused": f"{sys.executable} has no module numpy: pip install numpy"})
    sys.exit(0)


class OneByOne:
    """Environments of one kind that are stepped in turn. Hotslot requests each reset."""

    autoreset = "disabled"

    def __init__(self, made):
        self.made, self.count = made, len(made)

    def examine(self):
        """Checks the environments. Raises Refused if they cannot be stepped. The caller closes them in any case."""
        made = self.made
        for environment in made:
            needs(environment, "observation_space action_space reset step", "gymnasium.Env")
        self.methods = [method_of(each) for each in made]
        spaces = [(Observations(each.observation_space), Actions(each.action_space)) for each in made]
        self.observations, self.actions = spaces[0]
        alike = [(seen.shape, seen.dtype, seen.entry, acts.greeting(), getattr(acts, "start", 0), acts.dtype) for seen, acts in spaces]
        for i, each in enumerate(alike):
            if each != alike[0]:
                other, its = made[0], made[i]
                raise Refused(
                    f"environments of one set have the same spaces; environment {i} has {shown(its.observation_space)} and "
                    f"{shown(its.action_space)}, environment 0 {shown(other.observation_space)} and {shown(other.action_space)}"
                )

    def reset(self, seeds, mask, answer):
        for i in np.flatnonzero(mask):
            shows, info = pair(self.made[i].reset(seed=int(seeds[i])), int(i))
            self.copy_mask(int(i), self.show(int(i), shows, answer), info, answer)

    def step(self, actions, answer):
        for i, environment in enumerate(self.made):
            shows, reward, terminated, truncated, info = five(environment.step(self.actions.of(actions[i, ...])), i)
            mask = self.show(i, shows, answer)
            answer.rewards[i] = number(reward, i)
            answer.terminated[i] = flag("terminated", terminated, i)
            answer.truncated[i] = flag("truncated", truncated, i)
            self.copy_mask(i, mask, info, answer, answer.terminated[i])

    def show(self, i, shows, answer):
        """Copies the observation of environment i. Returns the mask in it, None without one."""
        shows, mask = self.observations.split(shows, i)
        self.observations.copy(shows, answer.rows[i], i)
        return mask

    def copy_mask(self, i, mask, info, answer, terminated=False):
        if mask is None and isinstance(info, dict):
            mask = info.get("action_mask")
        # A method may fail in a terminated state, because other libraries call it only after a reset.
        if mask is None and self.methods[i] is not None and not terminated:
            mask = self.methods[i]()
        answer.masks.copy(mask, i)

    def close(self):
        for environment in self.made:
            if hasattr(environment, "close"):
                environment.close()


class Together:
    """A vector environment, in any of the three autoreset modes."""

    def __init__(self, made):
        self.made = made

    def examine(self):
        made, form = self.made, "gymnasium.vector.VectorEnv"
        needs(made, "num_envs single_observation_space single_action_space reset step close", form)
        self.count, self.autoreset = int(made.num_envs), autoreset(made)
        self.observations, self.actions = Observations(made.single_observation_space), Actions(made.single_action_space)
        self.method = method_of_all(made)

    def reset(self, seeds, mask, answer):
        which = mask.astype(bool) if self.autoreset == "disabled" else np.ones(self.count, bool)
        options = {"reset_mask": mask.astype(bool)} if self.autoreset == "disabled" else None
        # A vector environment accepts one seed, from which it seeds all of its environments.
        shows, info = pair(self.made.reset(seed=int(seeds[np.argmax(mask)]), options=options))
        self.show(shows, info, answer, which)

    def step(self, actions, answer):
        shows, rewards, terminated, truncated, info = five(self.made.step(self.actions.of(actions)))
        numbers(rewards, answer.rewards)
        flags("terminated", terminated, answer.terminated)
        flags("truncated", truncated, answer.truncated)
        # In same-step mode the environments already show the first state of the next episode.
        lasts = answer.terminated.astype(bool) & (self.autoreset != "same-step")
        self.show(shows, info, answer, np.ones(self.count, bool), lasts)
        if answer.finals is not None:
            self.show_finals(answer, info)

    def show(self, shows, info, answer, which, lasts=None):
        """
        Copies the observations of all environments, and the action masks of those that `which` marks.
        `lasts` marks those in the last state of a terminated episode.
        """
        shows, masks = self.observations.split(shows)
        self.observations.copy(shows, answer.observations)
        if masks is not None:
            masks = of_each(masks, None, self.count)
        else:
            masks = in_infos(info, self.count)
        if masks is None and self.method is not None:
            masks = of_each(self.method(~which if lasts is None else lasts), None, self.count)
        answer.masks.copy_all(masks, which)

    def show_finals(self, answer, info):
        """Copies the last observations and action masks of environments that began the next episode in the same step."""
        answer.finals[...] = answer.observations
        if answer.masks.finals is not None:
            answer.masks.finals[...] = answer.masks.rows
        over = np.flatnonzero(answer.terminated | answer.truncated)
        if len(over) == 0:
            return
        given = info.get("final_obs", info.get("final_observation"))
        if given is None:
            raise ValueError("an episode is over, and info has no final_obs, as autoreset_mode SAME_STEP promises")
        last = info.get("final_info")
        if not isinstance(last, dict):
            last = {"action_mask": None if last is None else [(each or {}).get("action_mask") for each in last]}
        masks = in_infos(last, self.count)
        for i in over:
            # Gymnasium has changed the form of final_obs for Dict spaces.
            one = {name: each[i] for name, each in given.items()} if isinstance(given, dict) else given[i]
            shows, mask = self.observations.split(one, int(i))
            self.observations.copy(shows, answer.finals[i, ...], int(i))
            if mask is None and masks is not None:
                mask = masks[i]
            if mask is None and answer.masks.rows is not None and not answer.terminated[i]:
                raise Fault(
                    "no action mask of the last state before an automatic reset: with autoreset_mode SAME_STEP, give "
                    "masks as info['action_mask'] or in a Dict of observations",
                    int(i),
                )
            answer.masks.copy(mask, int(i), final=True)

    def close(self):
        if hasattr(self.made, "close"):
            self.made.close()


def value_of(sent):
    """Decodes the value of a keyword argument, which keywords.ts has encoded."""
    if not isinstance(sent, list):
        return sent
    kind, *rest = sent
    if kind == "list":
        return [value_of(each) for each in rest[0]]
    if kind == "dict":
        return {value_of(key): value_of(each) for key, each in rest[0]}
    if kind == "float":
        return float(rest[0])
    if kind == "int":
        return int(rest[0], 16)
    return np.frombuffer(base64.b64decode(rest[0]), kind).copy()


def maker(asked):
    """Makes the environments, from a registered id or by a user's function. Raises Refused if this fails."""
    count = asked["environments"]

    def kwargs():
        # Decodes a new copy for each environment, because an environment may keep its arguments and
        # write into them.
        return value_of(asked["kwargs"])

    if asked["entry"]:
        name, _, attribute = asked["entry"].partition(":")
        try:
            function = getattr(importlib.import_module(name), attribute)
        except ModuleNotFoundError as error:
            raise Refused(f"{sys.executable} has no module {error.name}, which is needed for {asked['entry']}") from error
        except AttributeError as error:
            raise Refused(f"{name} has no {attribute}, which is asked for") from error
        if "num_envs" in inspect.signature(function).parameters:
            return Together(function(num_envs=count, **kwargs()))
        made = [function(**kwargs()) for _ in range(count)]
        if hasattr(made[0], "num_envs"):
            raise Refused(f"{asked['entry']} makes vector environments: it must take num_envs")
        return OneByOne(made)
    try:
        import gymnasium
    except ImportError as error:
        raise Refused(f"{sys.executable} has no module gymnasium: pip install gymnasium") from error
    try:
        if asked["vectorization"]:
            return Together(gymnasium.make_vec(asked["id"], count, asked["vectorization"], **kwargs()))
        return OneByOne([gymnasium.make(asked["id"], **kwargs()) for _ in range(count)])
    except (gymnasium.error.Error, ImportError) as error:
        raise Refused(f"{asked['id']}: {error}") from error


class Frame:
    """Arrays in one buffer, one after the other. Each begins at a multiple of 8 bytes."""

    def __init__(self, *parts):
        offsets, end = [], 0
        for dtype, shape in parts:
            offsets.append(end)
            end += -(-math.prod(shape) * np.dtype(dtype).itemsize // 8) * 8
        self.bytes = memoryview(bytearray(end))
        self.parts = [
            np.frombuffer(self.bytes, dtype, math.prod(shape), offset).reshape(shape)
            for (dtype, shape), offset in zip(parts, offsets)
        ]


class Answer(Frame):
    def __init__(self, environments):
        seen, count = environments.observations, environments.count
        shows = (seen.travels, (count, *seen.shape))
        finals = [shows] if environments.autoreset == "same-step" else []
        super().__init__(("uint32", (2,)), shows, *finals, ("float64", (count,)), ("uint8", (count,)), ("uint8", (count,)))
        self.lengths, self.observations, *final, self.rewards, self.terminated, self.truncated = self.parts
        self.finals = final[0] if final else None
        self.rows = [self.observations[i, ...] for i in range(count)]
        self.masks = Masks(count, environments.actions, environments.autoreset == "same-step")


def serve(environments):
    environments.examine()
    count, seen, acts = environments.count, environments.observations, environments.actions
    size = count * math.prod(seen.shape) * seen.travels.itemsize
    if size > MAX_BYTES:
        raise Refused(
            f"observations of {count} environments, {sizes(seen.shape)} of {seen.travels} each, take {size} bytes: "
            f"Hotslot takes {MAX_BYTES} at once; make them smaller, or fewer environments"
        )
    taken, more = acts.greeting()
    greet({"count": count, "observation": seen.greeting(), "action": taken, "autoreset": environments.autoreset}, more)
    request = Frame(("uint32", (1,)), ("uint32", (count,)), ("uint8", (count,)), acts.part(count))
    operation, seeds, mask, actions = request.parts
    answer = Answer(environments)
    while read(request.bytes):
        try:
            if operation[0] == RESET:
                environments.reset(seeds, mask, answer)
            else:
                environments.step(actions, answer)
            answer.lengths[:] = 0, answer.masks.size
            more = answer.masks.bytes or b""
        except Fault as fault:
            more = json.dumps({"gave": fault.gave, "environment": fault.environment}).encode()
            answer.lengths[:] = len(more), 0
        write(answer.bytes)
        write(more)


def asked():
    size = bytearray(4)
    read(memoryview(size))
    text = bytearray(int.from_bytes(size, sys.byteorder))
    read(memoryview(text))
    return json.loads(bytes(text))


def end_with_parent():
    """Ends this process when its standard input ends, because the process that started it has then ended."""
    while os.read(0, 1):
        pass
    os._exit(0)


def main():
    faulthandler.enable()  # on SIGABRT, prints the stack
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the learner's process handles Ctrl-C
    threading.Thread(target=end_with_parent, daemon=True).start()
    environments = None
    try:
        wanted = asked()
        sys.path.insert(0, wanted["path"])
        environments = maker(wanted)
        serve(environments)
    except Refused as error:
        greet({"refused": str(error)})
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
