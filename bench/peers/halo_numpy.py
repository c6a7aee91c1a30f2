"""The numpy side of the benchmark `halo`: packs and unpacks the same regions.

Reads one JSON line: {"dims", "shape", "fortran", "pack": [[start, stop]…] per edge, "unpack", "rotations"}. For every further line,
'pack' or 'unpack', it does that 200 times and prints the median in microseconds.
"""
import json
import sys
import time

import numpy as np

case = json.loads(sys.stdin.readline())
dims = case["dims"]
array = np.zeros(case["shape"], order="F" if case["fortran"] else "C")
x, y = dims.index("i"), dims.index("j")
slices = {way: [tuple(slice(*r) for r in ranges) for ranges in case[way]] for way in ("pack", "unpack")}
buffer = np.zeros(sum(array[part].size for part in slices["pack"]))


def pack():
    at = 0
    for part, turns in zip(slices["pack"], case["rotations"]):
        view = array[part]
        if turns % 4:
            view = np.rot90(view, -turns, axes=(y, x))
        buffer[at : at + view.size] = view.ravel()
        at += view.size


def unpack():
    at = 0
    for part in slices["unpack"]:
        view = array[part]
        view[...] = buffer[at : at + view.size].reshape(view.shape)
        at += view.size


for line in sys.stdin:
    do = pack if line.strip() == "pack" else unpack
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        do()
        times.append(time.perf_counter() - begin)
    print(sorted(times)[100] * 1e6, flush=True)
