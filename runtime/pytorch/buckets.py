"""The buckets of DistributedDataParallel in a recorded step.

  wrapped = wrapped_by_ddp(layers, plan, device)
  buckets = Buckets([[3, 2], [1, 0]], layers, recorder, key)        of each bucket its tensors, by registration
  buckets.microbatch = 7                                            whose gradients are exchanged in the backward to come
  loss.backward()
  buckets.exchanged()
  buckets.add_spans(groups, spans)                                  key("bucket_copy_in", 7, part), key("all_reduce", ...), ...

A mark stands where the last gradient of a bucket has come (a hook of its parameter, called before the Reducer's): the
first kernel behind it copies into the bucket, the others are the next part of the backward; behind the last bucket they
are the copies back. The n-th all-reduce of NCCL is the n-th bucket's. On the CPU all-reduces are not seen: they are said
to last until the backward returns.
"""

import weakref

from torch.nn.parallel import DistributedDataParallel

from answering import Refused
from recording import span

FIRST_BUCKET_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20  # PyTorch's own


def wrapped_by_ddp(layers, plan, device, group=None):
    if plan["first_bucket_bytes"] == FIRST_BUCKET_BYTES and plan["bucket_bytes"] == BUCKET_BYTES:
        cap_mb = None
    elif plan["first_bucket_bytes"] == plan["bucket_bytes"]:
        cap_mb = plan["bucket_bytes"] / 2**20
    else:
        raise Refused("a first bucket of another size than the others, which are not of 25 MiB: with bucket_cap_mb "
                      "DistributedDataParallel makes all of one size")
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(layers, device_ids=ids, bucket_cap_mb=cap_mb, process_group=group,
                                   gradient_as_bucket_view=plan["bucket_views"])


class Buckets:
    def __init__(self, buckets, layers, recorder, key, reduces=True, recomputation=None):
        """`key`: of a task, from kind, micro-batch and part. `reduces`: not where a replica is alone. `recomputation`:
        where layers are run again the backward is cut at those."""
        self.buckets, self.recorder, self.key, self.reduces = buckets, recorder, key, reduces
        self.recomputation = recomputation if recomputation and recomputation.part_of_layer else None
        self.microbatch = None
        self.part_under_way = {}  # of the backward, when a bucket was full: by micro-batch and bucket
        parameters = list(layers.parameters())
        filled = weakref.WeakMethod(self.filled)  # hooks stay as long as their parameters: these would never go
        for part, tensors in enumerate(buckets):
            parameters[tensors[-1]].register_post_accumulate_grad_hook(lambda _, part=part: filled()(part))

    def filled(self, part):
        if self.microbatch is None or not self.recorder.on:
            return
        if self.recomputation:
            self.part_under_way[self.microbatch, part] = self.recomputation.part
        self.recorder.mark(self.key("filled", self.microbatch, part))
        if self.reduces:
            self.recorder.post([self.key("all_reduce", self.microbatch, part)])

    def exchanged(self):
        self.microbatch = None
        for posted in self.recorder.posted:
            if posted.is_all_reduce() and posted.end_ns is None:
                posted.waited()

    def add_spans(self, groups, spans):
        stage = self.key("filled", 0, 0)[1]
        for key in [key for key in groups.kernels if key[:2] == ("filled", stage)]:
            self.cut(key[2], key[3], groups.kernels[key], spans)

    def cut(self, microbatch, part, kernels, spans):
        copy, rest = kernels[0], kernels[1:]
        if copy[2] == "task":  # of the CPU, where kernels are not seen
            copy, rest = (copy[0], copy[0]), [copy]
        spans[self.key("bucket_copy_in", microbatch, part)] = [copy[:2]]
        nothing = [(copy[1], copy[1])]
        if part + 1 < len(self.buckets) and self.recomputation:  # what follows is of the part that is under way
            of_part = self.key("backward", microbatch, self.part_under_way[microbatch, part])
            start, end = spans[of_part][0]
            spans[of_part] = [(start, max([end] + [kernel[1] for kernel in rest]))]
            return
        if part + 1 < len(self.buckets):
            spans[self.key("backward", microbatch, part + 1)] = [span(rest)] if rest else nothing
            return
        for bucket, tensors in enumerate(self.buckets):  # copies back, tensor after tensor
            own, rest = rest[: len(tensors)], rest[len(tensors) :]
            end = [(kernels[-1][1], kernels[-1][1])]
            spans[self.key("bucket_copy_out", microbatch, bucket)] = [span(own)] if own else end
