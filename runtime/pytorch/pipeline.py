"""A pipeline of torch.distributed.pipelining: a process a GPU, as a script would write it; or replicas of it, each stage
wrapped by DistributedDataParallel over the processes that have this stage.

Losses are divided by the micro-batches, so that PyTorch need not divide gradients; with plan["scale_grads"] it does,
after the last micro-batch. Outputs are not gathered (return_outputs off). Mixed precision: one autocast around each
schedule.step(), so that a weight is cast once a round of accumulation; amp-fp16: a GradScaler a process, as PyTorch has
none for pipelines.

A recorded step has a task for each action of the schedule, and each batch of messages is one kernel of NCCL. Stages are
counted on from replica to replica.
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

from answering import Refused
from buckets import Buckets, wrapped_by_ddp
from recording import Recorder, span
from training import Precision, inputs_of, layers_of, loss_of, modules_of, optimizer_of, targets_of


class Messages:
    """In the place of two functions of torch.distributed.pipelining.schedules: each batch of messages, and the wait for
    it, tell the recorder of the program that runs."""

    def __init__(self):
        self.begin(None)
        self.post, self.wait = schedules._batch_p2p, schedules._wait_batch_p2p
        schedules._batch_p2p, schedules._wait_batch_p2p = self.recorded_post, self.recorded_wait

    def begin(self, recorder):
        self.recorder, self.waits = recorder, {}

    def recorded_post(self, operations, desc=None):
        posted = self.recorder.post([operation.pdl for operation in operations if hasattr(operation, "pdl")])
        works = self.post(operations, desc)
        for work in works if posted else ():
            self.waits[id(work)] = (work, posted)
        return works

    def recorded_wait(self, works):
        self.wait(works)
        for work in works if self.waits else ():
            _, posted = self.waits.pop(id(work), (None, None))
            if posted:
                posted.waited()


messages = Messages()


class RecordedStage(PipelineStage):
    """A stage that tells the recorder what it is asked to do."""

    recorder = None
    offset = 0  # micro-batches of the rounds of accumulation before
    first_stage = 0  # of its replica
    buckets = None

    def key(self, kind, microbatch):
        return self.key_of_part(kind, microbatch + self.offset, 0)

    def key_of_part(self, kind, microbatch, part):
        return kind, self.first_stage + self.stage_index, microbatch, part

    def named(self, kind, microbatch, operations):
        for operation in operations:
            operation.pdl = self.key(kind, microbatch)
        return operations

    def get_fwd_recv_ops(self, fwd_chunk_id):
        return self.named("receive_forward", fwd_chunk_id, super().get_fwd_recv_ops(fwd_chunk_id))

    def get_fwd_send_ops(self, fwd_chunk_id):
        return self.named("send_forward", fwd_chunk_id, super().get_fwd_send_ops(fwd_chunk_id))

    def get_bwd_recv_ops(self, bwd_chunk_id):
        return self.named("receive_backward", bwd_chunk_id, super().get_bwd_recv_ops(bwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id):
        return self.named("send_backward", bwd_chunk_id, super().get_bwd_send_ops(bwd_chunk_id))

    def forward_one_chunk(self, fwd_chunk_id, *arguments, **keywords):
        self.recorder.mark(self.key("forward", fwd_chunk_id))
        output = super().forward_one_chunk(fwd_chunk_id, *arguments, **keywords)
        self.recorder.ended()
        return output

    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        # The first stage of the model has no gradient of its input: PyTorch does nothing then.
        if full_backward or not self.is_first:
            self.recorder.mark(self.key("backward" if full_backward else "backward_input", bwd_chunk_id))
        if self.buckets and last_backward:
            self.buckets.microbatch = bwd_chunk_id + self.offset
        super().backward_one_chunk(bwd_chunk_id, loss=loss, full_backward=full_backward, last_backward=last_backward)
        self.recorder.ended()
        if self.buckets:
            self.buckets.exchanged()

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        self.recorder.mark(self.key("backward" if self.is_first else "backward_weight", bwd_chunk_id))
        super().backward_weight_one_chunk(bwd_chunk_id, last_backward=last_backward)
        self.recorder.ended()

    def scale_grads(self, grad_scale_factor):
        if grad_scale_factor != 1:
            self.recorder.mark(self.key_of_part("scale_gradients", -1, 0))
        super().scale_grads(grad_scale_factor)
        self.recorder.ended()


class Mesh:
    """Processes by replica and by place in their pipeline, and their groups: made once for all plans of these processes,
    as every process takes part in making each of them. One replica has no need of any."""

    made = {}

    def __init__(self, plan):
        self.replicas = len(plan["replica_rows"][0])
        workers = list(dict.fromkeys(stage["worker"] for stage in plan["stages"]))
        self.processes = len(workers) // self.replicas
        if self.replicas > 1 and self.replicas not in self.made:
            by_replica = [workers[r * self.processes : (r + 1) * self.processes] for r in range(self.replicas)]
            self.made[self.replicas] = ([dist.new_group(ranks) for ranks in by_replica],
                                        [dist.new_group(ranks) for ranks in zip(*by_replica)])

    def pipeline_of(self, rank):
        return self.made[self.replicas][0][rank // self.processes] if self.replicas > 1 else None

    def replicas_of(self, rank):
        return self.made[self.replicas][1][rank % self.processes]


class Pipeline:
    """The stages of one process, and a step of training."""

    def __init__(self, plan, rank, device):
        self.plan, self.rank, self.mesh = plan, rank, Mesh(plan)
        self.precision = Precision(plan, device)
        self.recorder = Recorder([device])
        messages.begin(self.recorder)
        self.replica = rank // self.mesh.processes
        self.rows = plan["microbatch_rows"][0]
        self.microbatches = len(plan["microbatch_rows"]) // plan["accum"]
        torch.manual_seed(plan["seed"])
        count = len(plan["stages"]) // self.mesh.replicas
        self.first_stage = self.replica * count
        own = plan["stages"][self.first_stage : self.first_stage + count]
        self.stages = [self.stage(index, own, device) for index in range(count) if own[index]["worker"] == rank]
        of_microbatch = self.rows * self.mesh.replicas / plan["batch"]  # DDP divides by the replicas
        self.weight = (1 if plan["scale_grads"] else of_microbatch) / plan["accum"]
        self.schedule = self.make_schedule()
        self.optimizer = optimizer_of(plan, (p for stage in self.stages for p in stage.submod.parameters()))
        self.data = self.rows_of(inputs_of(plan, device)) if own[0]["worker"] == rank else None
        self.target = self.rows_of(targets_of(plan, device)) if own[-1]["worker"] == rank else None

    def stage(self, index, of_replica, device):
        stage = of_replica[index]
        into, out = (torch.empty(self.rows, stage[end], device="meta", dtype=self.numbers_of(stage[f"{end}_number_bytes"]))
                     for end in ("in", "out"))
        layers = modules_of(layers_of(self.plan, stage), device)
        wrapped = layers
        if self.mesh.replicas > 1:
            wrapped = wrapped_by_ddp(layers, self.plan, device, self.mesh.replicas_of(self.rank))
        made = RecordedStage(wrapped, index, len(of_replica), device, input_args=into, output_args=out,
                             group=self.mesh.pipeline_of(self.rank))
        made.recorder, made.first_stage = self.recorder, self.first_stage
        if self.mesh.replicas > 1:
            made.buckets = Buckets(stage["buckets"], layers, self.recorder, made.key_of_part)
        return made

    def rows_of(self, batch):
        """Those of this replica."""
        before = sum(sum(of_replicas[: self.replica]) for of_replicas in self.plan["replica_rows"])
        own = batch[before : before + self.rows * self.microbatches]
        return own if len(own) == len(batch) else own.clone()

    def numbers_of(self, number_bytes):
        return {8: torch.int64, 4: torch.float32}.get(number_bytes, self.precision.half)

    def make_schedule(self):
        def loss(output, target):
            own = loss_of(output, target, self.weight)
            self.losses.append(own.detach())
            return self.precision.scaled(own)

        name = self.plan["pytorch_class"]
        made = schedules.get_schedule_class(name) if name else schedules._PipelineScheduleRuntime
        several = issubclass(made, schedules.PipelineScheduleMulti)
        try:
            schedule = made(self.stages if several else self.stages[0], self.microbatches, loss_fn=loss,
                            scale_grads=self.plan["scale_grads"])
        except ValueError as problem:
            raise Refused(" ".join(str(problem).split())) from None
        if not name:
            with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
                file.write(self.plan["schedule_csv"])
                file.flush()
                schedule._load_csv(file.name, format="compute_only")
        return schedule

    def step(self):
        self.optimizer.zero_grad()
        self.losses = []
        arguments = () if self.data is None else (self.data,)
        for round_ in range(self.plan["accum"]):
            for stage in self.stages:
                stage.offset = round_ * self.microbatches
            with self.precision.autocast():
                self.schedule.step(*arguments, target=self.target, losses=[], return_outputs=False)
        if self.precision.scaler and self.target is None:
            self.precision.scaled(torch.zeros((), device=self.recorder.devices[0]))  # else step() knows no scale
        self.recorder.mark(("optimizer", self.rank))
        self.precision.step(self.optimizer)
        self.recorder.ended()

    def loss(self):
        """Those of replicas add up to that of the batch."""
        if self.target is None:
            return None
        parts = self.mesh.replicas * (self.microbatches if self.plan["scale_grads"] else 1)
        return float(sum(loss.item() for loss in self.losses)) / parts

    def spans(self, groups):
        spans = {key: [span(kernels)] for key, kernels in groups.kernels.items() if key[0] != "filled"}
        for stage in self.stages:
            if stage.buckets:
                stage.buckets.add_spans(groups, spans)
        return spans | groups.spans_of_posted(self.recorder.posted)
