"""Finds the masks of legal actions that environments give, and checks them.

An environment gives its masks in one of three ways: as the entry `action_mask` of a Dict of observations,
as `info["action_mask"]`, or by a method `action_masks()`, which may belong to an environment that others
wrap.
"""

import numpy as np
from hotslot_spaces import Fault, array, kinds, shown, sizes

MAX_MASKED = 4096
# Fills the row of an environment that gave no mask. Other bytes are 0 or 1. steps.ts has the same number.
NONE = 255
MAX_WRAPPERS = 1000


class Masks:
    """The masks of all environments: count × n bytes, and those before an automatic reset with "same-step"."""

    def __init__(self, count, actions, same_step):
        self.count, self.actions, self.same_step = count, actions, same_step
        self.bytes = self.rows = self.finals = None

    def copy(self, given, i, final=False):
        """Copies the mask of environment i. None: it gave none."""
        if self.rows is None:
            if given is None:
                return
            self.open(i)
        row = (self.finals if final else self.rows)[i]
        if given is None:
            row[...] = NONE
            return
        mask = array(given, "an action mask")
        if mask.size == 0:
            row[...] = NONE
            return
        if mask.shape != row.shape:
            raise Fault(f"an action mask of shape {sizes(mask.shape)}: its actions are {self.actions.n}", i)
        if mask.dtype.kind not in "biuf" or (mask.dtype.kind == "f" and np.isnan(mask).any()):
            raise Fault(f"{shown(given)} as action mask, which must be numbers or booleans", i)
        row[...] = mask != 0

    def copy_all(self, given, which):
        """Copies the masks of the environments that `which` marks. None: they gave none."""
        alike = self.rows is not None and isinstance(given, np.ndarray) and given.shape == self.rows.shape
        if alike and given.dtype.kind in "biu":
            np.not_equal(given, 0, out=self.rows.view(bool), where=which[:, None])
            return
        for i in np.flatnonzero(which):
            self.copy(None if given is None else given[i], int(i))

    def open(self, i):
        if not self.actions.is_discrete:
            raise Fault("an action mask, but its actions are a Box: masks are for Discrete, so leave it out", i)
        n = self.actions.n
        if n > MAX_MASKED:
            raise Fault(f"an action mask, but it has {n:,} actions: at most {MAX_MASKED:,} can have masks, so leave it out", i)
        whole = np.full((2 if self.same_step else 1, self.count, n), NONE, np.uint8)
        self.bytes = memoryview(whole).cast("B")
        self.rows, self.finals = whole[0], whole[-1]

    @property
    def size(self):
        return 0 if self.bytes is None else len(self.bytes)


def method_of(environment):
    """Returns the method action_masks() of an environment or of one that it wraps, None without one."""
    for _ in range(MAX_WRAPPERS):
        found = getattr(environment, "action_masks", None)
        if callable(found):
            return found
        environment = getattr(environment, "env", None)
        if environment is None:
            break
    return None


def method_of_all(made):
    """
    Returns a function that takes a flag for each environment of a vector environment, and returns a mask
    for each one whose flag is not set. Returns None if the environments have no method action_masks().
    """
    own = method_of(made)
    if own is not None:
        return lambda _: own()
    base = getattr(made, "unwrapped", made)
    if "SyncVectorEnv" in kinds(base):
        methods = [method_of(each) for each in base.envs]
        if None in methods:
            return None
        return lambda skip: [None if over else method() for method, over in zip(methods, skip)]
    # A call of a missing method would end the processes of an AsyncVectorEnv.
    if "AsyncVectorEnv" in kinds(base) and all(base.call("has_wrapper_attr", "action_masks")):
        return lambda _: base.call("action_masks")
    return None


def of_each(given, has, count):
    """
    Returns the masks of all environments, from an entry of a vector environment's info. `has` has a flag
    for each environment that gave a mask. None: all of them did.
    """
    try:
        each = given if isinstance(given, np.ndarray) else list(given)
        size = len(each)
    except TypeError as error:
        raise Fault(f"action masks that are no sequence: {shown(given)}") from error
    if size != count:
        raise Fault(f"{size} action masks: the {count} environments have one each")
    if has is None or np.all(has):
        return each
    return [mask if there else None for mask, there in zip(each, has)]


def in_infos(info, count):
    """Returns the masks in a vector environment's info, None without masks."""
    if not isinstance(info, dict) or info.get("action_mask") is None:
        return None
    return of_each(info["action_mask"], info.get("_action_mask"), count)
