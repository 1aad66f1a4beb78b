"""The processes in which PyTorch trains, one a rank, started once for many questions.

  with Ranks("cuda", 2, wait_limit_s=60) as ranks:
      first, second = ranks.run(train, plan)        # train(rank, device, plan, barrier) in each of them

They meet in one process group: NCCL, on the CPU Gloo; a single process has none unless it is asked for. What a rank
returns comes back; what goes wrong in one of them ends them all, and Failed says why.
"""

import ends_with_parent  # noqa: F401

import datetime
import gc
import os
import sys
import time
import traceback
from multiprocessing.connection import wait as any_answer

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from answering import Failed, Refused


def told(error):
    """"RuntimeError: ... (train.py, line 12)": the error, where it was raised, and in which line here it came."""
    kind, value, trace = error
    frames = traceback.extract_tb(trace)
    folder = os.path.dirname(os.path.abspath(__file__))
    own = [frame for frame in frames if os.path.dirname(os.path.abspath(frame.filename)) == folder][-1]
    raised = frames[-1]
    places = [f"{os.path.basename(frame.filename)}, line {frame.lineno}" for frame in (raised, own)]
    return f"{kind.__name__}: {' '.join(str(value).split())[:500]} ({'; '.join(dict.fromkeys(places))})"


MOST_LEFT_BYTES = 256 << 20  # of workspaces of libraries, which stay


def release_memory(device):
    """True if all of it went: what stays would be counted with what comes next."""
    gc.collect()
    if device.type != "cuda":
        return True
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()  # those of threads that the next program may not have
    devices = range(torch.cuda.device_count())
    for _ in range(20):  # NCCL's watchdog holds what was exchanged last until it looks again, each 0.1 s
        torch.cuda.empty_cache()
        if all(torch.cuda.memory_allocated(each) < MOST_LEFT_BYTES for each in devices):
            return True
        time.sleep(0.05)
    return False


def serve(rank, device_type, count, wait_limit_s, meets, port, connection, barrier):
    cuda = device_type == "cuda"
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    try:
        if cuda:
            torch.cuda.set_device(rank)
        else:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
        if meets:
            limit = datetime.timedelta(seconds=wait_limit_s)
            dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=count, timeout=limit,
                                    store=dist.TCPStore("127.0.0.1", port, is_master=False, timeout=limit),
                                    **({"device_id": device} if cuda else {}))
        print(f"rank {rank} of {count} is there", flush=True)
        while True:
            function, asked = connection.recv()
            try:
                answer = ("done", function(rank, device, asked, barrier))
            except Refused as problem:
                answer = ("refused", str(problem))
            connection.send((*answer, release_memory(device)))
    except EOFError:  # nothing more is asked
        pass
    except Exception:  # noqa: BLE001  the parent says it
        connection.send(("broken", told(sys.exc_info()), False))
    os._exit(0)  # no destroy_process_group: it can wait for a peer that has already gone


class Ranks:
    def __init__(self, device_type, count, wait_limit_s, meets=True):
        self.key = (device_type, count, wait_limit_s, meets)
        limit = datetime.timedelta(seconds=wait_limit_s)
        # Where they meet: in this process, at a port that the system picks.
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=limit)
        context = multiprocessing.get_context("spawn")
        self.barrier = context.Barrier(count, timeout=wait_limit_s)  # kept: its semaphores go with it
        self.connections, self.processes = [], []
        for rank in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, daemon=True,
                                      args=(rank, *self.key, self.store.port, theirs, self.barrier))
            process.start()
            theirs.close()
            self.connections.append(ours)
            self.processes.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def run(self, function, asked):
        """What each rank returns, in their order. Throws Refused if one of them does, and Failed. After that, and where a
        rank could not release its memory, there are no ranks any more (`processes` is empty)."""
        for rank, connection in enumerate(self.connections):
            try:
                connection.send((function, asked))
            except OSError:
                self.fail(f"rank {rank} of PyTorch died")
        answers = [None] * len(self.connections)
        released = True
        waiting = {connection: rank for rank, connection in enumerate(self.connections)}
        refused = None
        while waiting:
            for connection in any_answer(list(waiting)):
                rank = waiting.pop(connection)
                try:
                    state, answers[rank], of_rank = connection.recv()
                    released = released and of_rank
                except (EOFError, OSError):
                    self.fail(f"rank {rank} of PyTorch died")
                if state == "broken":
                    self.fail(f"rank {rank} of PyTorch failed: {answers[rank]}")
                if state == "refused":
                    refused = answers[rank]
        if not released:
            self.end()
        if refused is not None:
            raise Refused(refused)
        return answers

    def fail(self, why):
        self.end()
        raise Failed(why)

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        self.processes = []
