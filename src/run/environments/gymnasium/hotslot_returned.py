"""Checks the results of environments, except observations. Shapes must be equal, because numpy would
broadcast one number to all environments."""

import numpy as np
from hotslot_spaces import Fault, Refused, array, shown, sizes


def needs(thing, names, form):
    """Raises Refused if a user's object lacks one of the names."""
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
    """Checks and copies the flag `name` of all environments."""
    given = of_all(name, given, into)
    if given.dtype.kind != "b":
        wrong = (given != 0) & (given != 1) if given.dtype.kind in "iuf" else np.ones(given.shape, bool)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise Fault(f"{shown(given[i])} as {name}, which must be a boolean", i)
    into[...] = given


def numbers(given, into):
    """Checks and copies the rewards of all environments."""
    given = of_all("rewards", given, into)
    if given.dtype.kind not in "biuf":
        raise Fault(f"rewards of {given.dtype}, which must be numbers")
    into[...] = given


def one(what, value, kind, environment):
    """
    Returns the single number in `value`. It may be an array of one number, which custom environments
    return, because the meaning of such an array is clear.
    """
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
