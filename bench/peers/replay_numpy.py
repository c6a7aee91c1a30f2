"""The numpy side of the benchmark `peers`: makes a batch from one array per field, each indexed by the drawn rows.

Reads one JSON line: {"rows", "capacity", "obs", "actions"}, and prints numpy's version. For every further line, a number of calls,
it makes the calls and prints their median in microseconds.
"""
import json
import sys
import time

import numpy as np

case = json.loads(sys.stdin.readline())
rows, capacity = case["rows"], case["capacity"]
rng = np.random.default_rng(1)
# Arrays of steps × environments. Here there is one environment.
wide = lambda width: rng.random((capacity, 1, width), np.float32)
flat = lambda: np.zeros((capacity, 1), np.float32)
obs, next_obs, actions = wide(case["obs"]), wide(case["obs"]), wide(case["actions"])
rewards, dones, timeouts = flat(), flat(), flat()


def sample():
    step = np.random.randint(0, capacity, size=rows)
    environment = np.random.randint(0, 1, size=(rows,))
    return (
        obs[step, environment, :],
        actions[step, environment, :],
        next_obs[step, environment, :],
        (dones[step, environment] * (1 - timeouts[step, environment])).reshape(-1, 1),
        rewards[step, environment].reshape(-1, 1),
    )


print(json.dumps({"numpy": np.__version__}), flush=True)
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        begin = time.perf_counter()
        sample()
        times.append(time.perf_counter() - begin)
    print(sorted(times)[len(times) // 2] * 1e6, flush=True)
