"""Checks of what environments return besides observations. numpy would stretch one number to all environments: shapes must be equal."""

import numpy as np
from hotslot_spaces import Fault, Refused, array, shown, sizes


def needs(thing, names, form):
    """What an object of the user's has to have."""
    lacks = [name for name in names.split() if not hasattr(thing, name)]
    if lacks:
        raise Refused(f"{type(thing).__name__} has no {', '.join(lacks)}: it must be in the form of {form}")


def pair(given, environment=None):
    if not isinstance(given, tuple) or len(given) != 2:
        raise Fault(f"{shown(given)}, which is not (observation, info)", environment)
    return given


def five(given, environment=None):
    if isinstance(given, tuple) and len(given) == 5:
        return given
    many = f"{len(given)} values" if isinstance(given, tuple) else shown(given)
    raise Fault(f"{many}, which are not (observation, reward, terminated, truncated, info)", environment)


def of_all(what, given, into):
    given = array(given, what)
    if given.shape != into.shape:
        raise Fault(f"{what} of shape {sizes(given.shape)}: {len(into)} environments have {sizes(into.shape)}")
    return given


def flags(name, given, into):
    """Copies a flag of each environment."""
    given = of_all(name, given, into)
    if given.dtype.kind != "b":
        wrong = (given != 0) & (given != 1) if given.dtype.kind in "iuf" else np.ones(given.shape, bool)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise Fault(f"{shown(given[i])} as {name}, which must be a boolean", i)
    into[...] = given


def numbers(given, into):
    """Copies a reward of each environment."""
    given = of_all("rewards", given, into)
    if given.dtype.kind not in "biuf":
        raise Fault(f"rewards of {given.dtype}, which must be numbers")
    into[...] = given


def one(what, value, kind, environment):
    """The only number of it: an array of one number has no second meaning, as a custom environment returns it."""
    given = array(value, what)
    if given.size != 1 or given.dtype.kind not in "biuf":
        raise Fault(f"{shown(value)} as {what}, which must be a {kind}", environment)
    return given.item()


def number(value, environment):
    return value if type(value) is float else one("reward", value, "number", environment)


def flag(name, value, environment):
    if type(value) is bool or type(value) is np.bool_:
        return value
    given = one(name, value, "boolean", environment)
    if given not in (0, 1):
        raise Fault(f"{shown(value)} as {name}, which must be a boolean", environment)
    return given
