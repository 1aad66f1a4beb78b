"""When the tasks of a recorded step ran.

  recorder.mark(("forward", stage, microbatch, 0))    before its kernels are issued, on the thread that issues them
  recorder.post([("send_forward", 0, 3, 0)])          a kernel of NCCL that is all of these tasks
  interval, groups = recorder.record(step)
  groups.kernels[task]                                 [(start, end, name)] of its device, until the next mark there
  groups.spans_of_posted(recorder.posted)              {task: [(start, end)]} of what was posted

On GPUs a marker, a kernel of some hundred nanoseconds, stands before each task of a compute stream, and torch.profiler
says when every kernel ran: the kernels between two markers of a GPU are a task, the n-th all-reduce of NCCL is the n-th
that was posted, and the n-th of its other kernels the n-th batch of messages. On the CPU a task lasts from its mark to the next one of its thread, what is posted until its wait ends.

Units: nanoseconds of the clock of the day (time.time_ns), which all processes of a host share.
"""

import threading
import time

import torch

MARKER = "spin_kernel"  # of torch.cuda._sleep
ALL_REDUCE = "AllReduce"  # in the name of its kernels


def now_ns():
    return time.time_ns()


class Posted:
    """One call that moves data: a batch of messages, an all-reduce. It lasts until it has been waited for."""

    def __init__(self, tasks):
        self.tasks, self.start_ns, self.end_ns = tasks, now_ns(), None

    def waited(self):
        self.end_ns = now_ns()

    def is_all_reduce(self):
        return self.tasks[0][0] == "all_reduce"


class Groups:
    """Of each task, by its key, the kernels that are its own: (start, end, name), by start; and those of NCCL."""

    def __init__(self):
        self.kernels, self.nccl = {}, []

    def spans_of_posted(self, posted):
        """Groups of processes have streams of their own: all-reduces and messages keep their order each."""
        spans = {}
        for reduces in (True, False):
            kernels = [kernel[:2] for kernel in self.nccl if (ALL_REDUCE in kernel[2]) == reduces]
            own = [each for each in posted if each.is_all_reduce() == reduces]
            for each, kernel in zip(own, kernels):
                spans |= {task: [kernel] for task in each.tasks}
        return spans


class Recorder:
    def __init__(self, devices):
        self.devices, self.on = devices, False
        self.begin()

    def begin(self):
        self.marks = {device: [] for device in self.devices}  # by device: [key, start, end, thread]
        self.posted = []
        self.slept = {}

    def sleep(self, key, ns):
        """The host does nothing meanwhile, recorded or not."""
        begin = now_ns()
        time.sleep(ns * 1e-9)
        self.slept[key] = (begin, now_ns())

    def mark(self, key, device=None):
        if not self.on:
            return
        device = self.devices[0] if device is None else device
        if device.type == "cuda":
            self.marks[device].append([key, None, None, None])
            with torch.cuda.device(device):
                torch.cuda._sleep(1)
            return
        self.ended()
        self.marks[device].append([key, now_ns(), None, threading.get_ident()])

    def ended(self):
        """The CPU's last task of this thread has ended, where there is none after it."""
        if not self.on or self.devices[0].type == "cuda":
            return
        thread = threading.get_ident()
        for marks in self.marks.values():
            for mark in reversed(marks):
                if mark[3] == thread:
                    mark[2] = mark[2] or now_ns()
                    break

    def post(self, tasks):
        if not self.on or not tasks:
            return None
        self.posted.append(Posted(tasks))
        return self.posted[-1]

    def record(self, step):
        """`step()` returns its (begin, end)."""
        self.begin()
        self.on = True
        if self.devices[0].type == "cuda":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
                interval = step()
            self.on = False
            return interval, self.groups_on_gpus(profiler)
        interval = step()
        self.on = False
        return interval, self.groups_on_cpu(interval[1])

    def groups_on_cpu(self, end_ns):
        groups = Groups()
        for marks in self.marks.values():
            for key, start, end, _ in marks:
                groups.kernels.setdefault(key, []).append((start, end or end_ns, "task"))
        groups.nccl = [(posted.start_ns, posted.end_ns or end_ns, ALL_REDUCE if posted.is_all_reduce() else "")
                       for posted in self.posted]
        return groups

    def groups_on_gpus(self, profiler):
        groups = Groups()
        kernels = kernels_of(profiler)
        for device, marks in self.marks.items():
            own = [kernel for kernel in kernels if kernel[4] == device.index]
            markers = [kernel for kernel in own if MARKER in kernel[2]]
            if len(markers) != len(marks):
                raise RuntimeError(f"the profiler saw {len(markers)} of {len(marks)} tasks on GPU {device.index}")
            stream = markers[0][3] if markers else None
            rest = [k for k in own if k[3] == stream and MARKER not in k[2]]
            place = 0
            for index, (key, *_) in enumerate(marks):
                until = markers[index + 1][0] if index + 1 < len(markers) else float("inf")
                found = groups.kernels.setdefault(key, [])
                while place < len(rest) and rest[place][0] < markers[index][1]:
                    place += 1
                while place < len(rest) and rest[place][0] < until:
                    found.append(rest[place][:3])
                    place += 1
                if not found:
                    found.append((markers[index][1], markers[index][1], MARKER))
        groups.nccl = [kernel[:3] for kernel in kernels if kernel[2].startswith("nccl") and "Dev" in kernel[2]]
        if self.posted and len(groups.nccl) != len(self.posted):
            raise RuntimeError(f"the profiler saw {len(groups.nccl)} of {len(self.posted)} kernels of NCCL")
        return groups


def kernels_of(profiler):
    """(start, end, name, stream, GPU) of what ran on GPUs, in the order of starts."""
    found = []
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0:
            start = event.start_ns()
            found.append((start, start + event.duration_ns(), event.name(), event.device_resource_id(),
                          event.device_index()))
    return sorted(found)


def span(kernels):
    return kernels[0][0], max(kernel[1] for kernel in kernels)
