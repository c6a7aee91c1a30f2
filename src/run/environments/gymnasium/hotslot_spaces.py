"""Checks Gymnasium's spaces, and converts their values for Hotslot and back.

Spaces are recognized by the names of their classes and base classes. So spaces of the old `gym` and
subclasses are accepted. A space that merely has an `n` or a `low` does not pass for a Discrete or a Box.
"""

import numpy as np

# The dtype in which each dtype's values are sent. A bool is sent as int8 and not as uint8. train()
# takes uint8 for the bytes of images, and would divide the values by 255.
TRAVELS = {name: name for name in "float32 float64 int8 uint8 int16 uint16 int32 uint32".split()}
TRAVELS |= {"float16": "float32", "bool": "int8", "int64": "int32", "uint64": "uint32"}
# Spaces that the wrapper FlattenObservation converts to a Box.
FLATTENED = {"Discrete", "MultiBinary", "MultiDiscrete", "Text", "Dict", "Tuple", "OneOf"}
MAX_BYTES = 2**31


class Refused(Exception):
    """The environments cannot be stepped. The text says what the user can do."""


class Fault(Exception):
    """Environments returned a value that their spaces do not contain. `environment` is None if it concerns all of them."""

    def __init__(self, gave, environment=None):
        super().__init__(gave)
        self.gave, self.environment = gave, environment


def kinds(space):
    return {each.__name__ for each in type(space).__mro__}


def shown(value):
    """Returns the value as one line of at most 100 characters."""
    text = " ".join(str(value).split())
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text if len(text) <= 100 else text[:100] + "…")


def sizes(shape):
    return f"[{', '.join(str(size) for size in shape)}]"


def autoreset(environments):
    mode = (getattr(environments, "metadata", None) or {}).get("autoreset_mode")
    if mode is None:
        raise Refused("this vector environment does not say metadata['autoreset_mode']: Gymnasium's do since 1.1")
    known = {"disabled": "disabled", "samestep": "same-step", "nextstep": "next-step"}
    text = str(getattr(mode, "value", mode)).lower().replace("_", "").replace("-", "")
    if text not in known:
        raise Refused(f"autoreset_mode is {mode}: it must be NEXT_STEP, SAME_STEP or DISABLED")
    return known[text]


def array(given, what):
    try:
        made = np.asarray(given)
        # Final observations may be an array of Python objects. tolist() returns a list, from which
        # numpy finds the dtype of the numbers.
        made = np.array(made.tolist()) if made.dtype.kind == "O" else made
    except (TypeError, ValueError) as error:
        raise Fault(f"{what} that numpy makes no array of: {shown(error)}") from error
    return made


def masked_entry(space):
    """
    Returns the name and the space of the observation in a Dict of an observation and an action mask.
    Returns None and the space itself for any other space.
    """
    entries = getattr(space, "spaces", None)
    if "Dict" not in kinds(space) or not hasattr(entries, "keys") or "action_mask" not in entries:
        return None, space
    others = [name for name in entries if name != "action_mask"]
    if len(others) != 1:
        raise Refused(
            f"observations are {shown(space)}: next to action_mask, Hotslot takes one entry, a Box; wrap the environment by "
            "gymnasium.wrappers.TransformObservation with an observation_space of two entries"
        )
    return others[0], entries[others[0]]


class Observations:
    """Converts observations of a space for Hotslot."""

    def __init__(self, space):
        # The name of the observation in a Dict that also has an action_mask, None without such a Dict.
        self.entry, space = masked_entry(space)
        if "Box" not in kinds(space):
            if self.entry is not None:
                raise Refused(
                    f"the observation's entry {self.entry!r} is {shown(space)}: Hotslot takes Box; wrap the environment by "
                    "gymnasium.wrappers.TransformObservation so that this entry is a Box"
                )
            flattened = FLATTENED & kinds(space) or isinstance(space, dict)
            if flattened and getattr(space, "is_np_flattenable", True):
                wrapper = "FlattenObservation"
            else:
                wrapper = "TransformObservation with an observation_space that is a Box"
            raise Refused(f"observations are {shown(space)}: Hotslot takes Box; wrap the environment by gymnasium.wrappers.{wrapper}")
        self.shape, self.dtype = tuple(space.shape), np.dtype(space.dtype)
        if self.dtype.name not in TRAVELS:
            raise Refused(
                f"observations are Box of {self.dtype.name}: Hotslot takes {', '.join(TRAVELS)}; "
                "wrap the environment by gymnasium.wrappers.DtypeObservation with float32"
            )
        self.travels = np.dtype(TRAVELS[self.dtype.name])

    def greeting(self):
        return {"shape": list(self.shape), "dtype": self.travels.name}

    def split(self, given, environment=None):
        """Returns the observation and its action mask, None for a space without masks."""
        if self.entry is None:
            return given, None
        if not hasattr(given, "keys") or self.entry not in given:
            raise Fault(f"{shown(given)}, its space is a Dict of {self.entry!r} and 'action_mask'", environment)
        return given[self.entry], given.get("action_mask")

    def copy(self, given, into, first=None):
        """
        Copies one observation of environment `first`, or the observations of all environments. Raises a
        Fault that says what does not fit. numpy alone would broadcast shapes and wrap numbers.
        """
        given = array(given, "an observation")
        if given.shape != into.shape:
            if first is None:
                raise Fault(f"observations of shape {sizes(given.shape)}: {len(into)} environments have {sizes(into.shape)}")
            raise Fault(f"an observation of shape {sizes(given.shape)}, its space is {sizes(self.shape)}", first)
        of_bool = self.dtype.kind == "b"
        if given.dtype.kind == "b" or (given.dtype == self.travels and not of_bool):
            into[...] = given
            return
        if given.dtype.kind not in "iuf":
            raise Fault(f"an observation of {given.dtype}, its space is {self.dtype}", first)
        into[...] = given
        if of_bool:
            wrong = (given != 0) & (given != 1)
        elif self.travels.kind == "f":
            # Only a finite number that overflows is wrong here. Hotslot itself checks NaN and
            # infinities that environments returned, because it knows which episodes are over.
            wrong = np.isinf(into)
            if wrong.any():
                wrong &= np.isfinite(given)
        else:
            wrong = into != given
        if not np.any(wrong):
            return
        at = int(np.argmax(wrong))
        size = int(np.prod(self.shape))
        named = self.dtype if of_bool else self.travels
        widest = f": {self.dtype} travels as {self.travels}" if self.dtype.itemsize > named.itemsize else ""
        raise Fault(
            f"{shown(np.ravel(given)[at])} as number {at % size} of an observation, which {named} cannot hold{widest}",
            at // size if first is None else first,
        )


class Actions:
    """Converts actions for environments, to the dtype and shape of their space."""

    def __init__(self, space):
        self.is_discrete = "Discrete" in kinds(space)
        if not self.is_discrete and "Box" not in kinds(space):
            raise Refused(
                f"actions are {shown(space)}: Hotslot takes Discrete, and Box of floats; wrap the environment by "
                "gymnasium.wrappers.TransformAction with an action_space that is one of these"
            )
        self.dtype = np.dtype(np.int64 if getattr(space, "dtype", None) is None else space.dtype)
        if self.is_discrete:
            self.n, self.start, self.shape = int(space.n), int(getattr(space, "start", 0)), ()
            return
        if self.dtype.kind != "f":
            raise Refused(
                f"actions are Box of {self.dtype}: Hotslot's boxes of actions are continuous; wrap the environment by "
                f"gymnasium.wrappers.TransformAction with a func that rounds to {self.dtype} and an action_space that is a "
                "Box of float32, or Discrete"
            )
        self.shape = tuple(space.shape)
        self.low, self.high = (np.asarray(end, np.float64) for end in (space.low, space.high))

    def part(self, count):
        return ("int32", (count,)) if self.is_discrete else ("float32", (count, *self.shape))

    def greeting(self):
        """
        Returns the action space for the greeting, and the bytes that follow the greeting. If the bounds
        of the values differ, the bytes are all lower bounds, then all upper bounds.
        """
        if self.is_discrete:
            return {"n": self.n}, b""
        if all(end.min() == end.max() for end in (self.low, self.high)):
            return {"shape": list(self.shape), "low": one_end(self.low), "high": one_end(self.high)}, b""
        return {"shape": list(self.shape)}, self.low.tobytes() + self.high.tobytes()

    def of(self, numbers):
        """
        Returns a new array for the environment, or a scalar for Discrete. The environment may keep the
        array and write into it, because this script never reads it again. The results of an environment
        are copied before the next environment is called. So an environment may return the same array
        each time, and change it later.
        """
        if self.is_discrete and np.ndim(numbers) == 0:
            return self.dtype.type(int(numbers) + self.start)
        if self.is_discrete:
            return (numbers.astype(np.int64) + self.start).astype(self.dtype)
        # TypeScript rounded the bounds to float32, towards the inside of the box. So the numbers
        # are also inside the bounds of the space.
        return np.array(numbers, self.dtype)


def one_end(end):
    """Returns the bound that all values share, or None if it is infinite, because JSON has no infinities."""
    value = float(end.flat[0])
    return value if np.isfinite(value) else None
