"""The torch side of the benchmark `peers`: batches from replay, packed by another process and copied by this one.

Rows lie in one tensor in shared memory. For each tick a process of its own draws rows and selects them into one of two shared
slots; a thread here copies the slot to the learner's tensor, while the learner works on the other one. Requests and answers
go through queues, one tick ahead.

Reads one JSON line: {"rows", "floats", "capacity"}. The first line it prints says what runs. Then, for every line
'<way> <threads> <ticks>', prints the mean of a tick in microseconds; 0 threads are torch's own choice. Ways: 'pipeline' as above;
'turn': selected and copied by this process alone, one after the other.
"""
import json
import sys
import threading
import time

import torch
import torch.multiprocessing as processes

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


def main():
    processes.set_start_method("spawn")
    default = torch.get_num_threads()
    learner = Learner(json.loads(sys.stdin.readline()))
    learner.pipeline(3)
    print(json.dumps({"torch": torch.__version__, "threads": default}), flush=True)
    for line in sys.stdin:
        way, threads, ticks = line.split()
        learner.set_threads(int(threads) or default)
        begin = time.perf_counter()
        getattr(learner, way)(int(ticks))
        print((time.perf_counter() - begin) / int(ticks) * 1e6, flush=True)
    learner.requests.put(("end", 0))
    learner.packer.join()


if __name__ == "__main__":
    main()
