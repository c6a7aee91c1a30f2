"""The torch side of the benchmark `peers`: makes batches the way a torch learner does.

Reads one JSON line: {"rows", "floats", "capacity", "accelerator"}, and prints what it runs on. For every further line,
'<way> <threads> <ticks>', it prints the mean of a tick in microseconds. With 0 threads, torch chooses their number. An update reads
one row of its batch. Ways for a learner on the CPU:

pipeline  The rows are in one tensor in shared memory. A second process draws rows for each tick and selects them into one of two
          shared slots. A thread of this process copies the slot to a tensor of the learner, while the learner uses its other
          tensor. Requests and answers go through queues, one tick ahead.
turn      This process selects, copies and updates in turn.

Ways for a learner on a GPU, with pinned slots and asynchronous copies. Without a GPU they run on the CPU:

turn      The learner's thread selects, copies and updates in turn.
ahead     A second thread of this process selects and copies, one tick ahead.
copy      Only the copy.
"""
import json
import queue
import sys
import threading
import time

import torch
import torch.multiprocessing as processes

from best import Place

DEPTH = 2


def select(storage, seed, slot):
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(0, storage.shape[0], (slot.shape[0],), generator=generator)
    torch.index_select(storage, 0, chosen, out=slot)


def pack(storage, slots, requests, answers):
    while True:
        kind, number = requests.get()
        if kind == "end":
            return
        if kind == "threads":
            torch.set_num_threads(number)
            continue
        select(storage, number, slots[number % DEPTH])
        answers.put(number)


class Learner:
    def __init__(self, case):
        shape = (case["rows"], case["floats"])
        self.storage = torch.empty(case["capacity"], case["floats"]).share_memory_()
        for part in self.storage.split(65_536):
            part.uniform_()
        self.slots = [torch.zeros(shape).share_memory_() for _ in range(DEPTH)]
        self.device = [torch.zeros(shape) for _ in range(DEPTH)]
        self.seen = torch.zeros(case["floats"])
        self.requests, self.answers = processes.Queue(), processes.Queue()
        parts = (self.storage, self.slots, self.requests, self.answers)
        self.packer = processes.Process(target=pack, args=parts, daemon=True)
        self.packer.start()
        self.ready, self.newest, self.at = threading.Condition(), -1, 0
        threading.Thread(target=self.copy, daemon=True).start()

    def copy(self):
        while True:
            tick = self.answers.get()
            self.device[tick % DEPTH].copy_(self.slots[tick % DEPTH])
            with self.ready:
                self.newest = tick
                self.ready.notify_all()

    def update(self, batch):
        self.seen.copy_(batch[0])

    def set_threads(self, threads):
        torch.set_num_threads(threads)
        self.requests.put(("threads", threads))

    def pipeline(self, ticks):
        first, self.at = self.at, self.at + ticks
        self.requests.put(("tick", first))
        for tick in range(first, self.at):
            with self.ready:
                self.ready.wait_for(lambda: self.newest >= tick)
            if tick + 1 < self.at:
                self.requests.put(("tick", tick + 1))
            self.update(self.device[tick % DEPTH])

    def turn(self, ticks):
        first, self.at = self.at, self.at + ticks
        for tick in range(first, self.at):
            slot = tick % DEPTH
            select(self.storage, tick, self.slots[slot])
            self.device[slot].copy_(self.slots[slot])
            self.update(self.device[slot])


    def close(self):
        self.requests.put(("end", 0))
        self.packer.join()

    def wait(self):
        pass


class PinnedLearner:
    """Packs into slots, which are pinned on a GPU. Events record when a slot was copied and when its batch was used."""

    def __init__(self, case, place):
        shape = (case["rows"], case["floats"])
        self.place = place
        self.storage = torch.empty(case["capacity"], case["floats"])
        for part in self.storage.split(65_536):
            part.uniform_()
        pinned = lambda: torch.zeros(shape, pin_memory=place.gpu)
        self.slots = [pinned() for _ in range(DEPTH)]
        self.device = [torch.zeros(shape, device=place.device) for _ in range(DEPTH)]
        self.seen = torch.zeros(case["floats"], device=place.device)
        if place.gpu:
            self.stream = torch.cuda.Stream()
            self.copied, self.used = ([torch.cuda.Event() for _ in range(DEPTH)] for _ in range(2))
        self.threads = torch.get_num_threads()
        self.wanted, self.ready = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.serve, daemon=True).start()

    def wait(self):
        self.place.wait()

    def fill(self, tick):
        """Packs and copies a batch. On a GPU the copy runs on a second stream, after the batch before last was used."""
        slot = tick % DEPTH
        if not self.place.gpu:
            select(self.storage, tick, self.slots[slot])
            self.device[slot].copy_(self.slots[slot])
            return
        self.copied[slot].synchronize()
        select(self.storage, tick, self.slots[slot])
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[slot])
            self.device[slot].copy_(self.slots[slot], non_blocking=True)
            self.copied[slot].record()

    def update(self, tick):
        slot = tick % DEPTH
        if self.place.gpu:
            torch.cuda.current_stream().wait_event(self.copied[slot])
        self.seen.copy_(self.device[slot][0])
        if self.place.gpu:
            self.used[slot].record()

    def serve(self):
        while True:
            tick = self.wanted.get()
            # torch's number of threads belongs to the calling thread, so this thread sets it too.
            torch.set_num_threads(self.threads)
            self.fill(tick)
            self.ready.put(tick)

    def turn(self, ticks):
        for tick in range(ticks):
            self.fill(tick)
            self.update(tick)

    def ahead(self, ticks):
        self.wanted.put(0)
        for tick in range(ticks):
            self.ready.get()
            if tick + 1 < ticks:
                self.wanted.put(tick + 1)
            self.update(tick)

    def copy(self, ticks):
        for _ in range(ticks):
            self.device[0].copy_(self.slots[0], non_blocking=self.place.gpu)

    def set_threads(self, threads):
        self.threads = threads
        torch.set_num_threads(threads)

    def close(self):
        pass


def main():
    processes.set_start_method("spawn")
    case = json.loads(sys.stdin.readline())
    place = Place(case)
    default = torch.get_num_threads()
    learner = PinnedLearner(case, place) if case.get("accelerator") else Learner(case)
    learner.turn(3)
    print(json.dumps(place.says()), flush=True)
    for line in sys.stdin:
        way, threads, ticks = line.split()
        learner.set_threads(int(threads) or default)
        learner.wait()
        begin = time.perf_counter()
        getattr(learner, way)(int(ticks))
        learner.wait()
        print((time.perf_counter() - begin) / int(ticks) * 1e6, flush=True)
    learner.close()


if __name__ == "__main__":
    main()
