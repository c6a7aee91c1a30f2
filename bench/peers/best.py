"""What the torch programs share: the device they run on, and torch's best settings for it.

On a GPU, a step is replayed as a CUDA graph, Adam is fused and capturable, and _foreach_lerp_ updates the targets. Without a GPU,
the same program runs on the CPU and calls each step.
"""
import time

import torch


class Place:
    def __init__(self, case):
        self.gpu = bool(case.get("accelerator")) and torch.cuda.is_available()
        self.device = torch.device("cuda" if self.gpu else "cpu")
        torch.backends.cuda.matmul.allow_tf32 = bool(case.get("tf32"))

    def says(self):
        name = torch.cuda.get_device_name() if self.gpu else "processor"
        return {"torch": torch.__version__, "threads": torch.get_num_threads(), "place": name, "graphs": self.gpu}

    def adam(self, parameters, rate):
        return torch.optim.Adam(parameters, lr=rate, **({"fused": True, "capturable": True} if self.gpu else {}))

    def wait(self):
        if self.gpu:
            torch.cuda.synchronize()

    def ready(self, step):
        """Returns the step as a function: on a GPU, the replay of its graph."""
        if not self.gpu:
            return step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay

    def mean(self, step, rounds):
        """Returns the mean microseconds of a step, until all steps are done."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(rounds):
            step()
        self.wait()
        return (time.perf_counter() - begin) / rounds * 1e6


def follow(targets, sources, part):
    targets, sources = list(targets), list(sources)
    if hasattr(torch, "_foreach_lerp_"):
        torch._foreach_lerp_(targets, sources, part)
    else:
        for to, of in zip(targets, sources):
            to.lerp_(of, part)
