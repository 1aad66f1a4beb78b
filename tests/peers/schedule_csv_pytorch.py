#!/usr/bin/env python3
"""Schedules as CSV between this program and the installed PyTorch, both ways. Needs no GPU and no process group.

  tests/peers/schedule_csv_pytorch.py --pdl-sim build/all/pdl-sim

  written here, read there   pdl-sim --schedule zb-v ... --schedule-csv FILE, then _PipelineScheduleRuntime._load_csv:
                             every action is there in our order, PyTorch adds every message, and its own dry run ends
  PyTorch's program          pdl-sim --program pytorch: each rank's computation and messages, in the order in which the
                             class of the schedule issues them
  written there, read here   each class of torch.distributed.pipelining.schedules, as computation alone (compute_only)
                             and lowered with messages (compute_comms): pdl-sim --schedule FILE finishes and writes the
                             same actions again; the computation is that of our own schedule of the name

Exit code: 0 fine, 1 not, 77 (skipped) if there is no PyTorch 2.11 in Python. The schedules are no public part of PyTorch: other
versions have others.
Left out: running either order (pdl-run, of either program).
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from dataclasses import dataclass

SKIPPED = 77

try:
    import torch
    from torch.distributed.pipelining import schedules as pipelining
    from torch.distributed.pipelining.schedules import (
        Schedule1F1B,
        ScheduleDualPipeV,
        ScheduleGPipe,
        ScheduleInterleaved1F1B,
        ScheduleInterleavedZeroBubble,
        ScheduleLoopedBFS,
        ScheduleZBVZeroBubble,
    )
except (ImportError, OSError) as problem:  # OSError: it does not find a library of CUDA
    print(f"skipped: no PyTorch with all of its pipeline schedules here ({problem})")
    sys.exit(SKIPPED)
if not torch.__version__.startswith("2.11."):
    print(f"skipped: PyTorch {torch.__version__} here, not 2.11")
    sys.exit(SKIPPED)

PDL_SIM = ""


class Stage:
    """What a schedule asks of a stage before it runs: numbers alone."""

    submod = None
    is_first = is_last = False

    def __init__(self, gpus, stages):
        self.group_size, self.group_rank, self.num_stages = gpus, 0, stages


class RecordingStage(Stage):
    """Writes down what a schedule does with its stage, instead of doing it; its messages too if `messages`."""

    def __init__(self, index, stages, messages=False):
        super().__init__(stages, stages)
        self.stage_index, self.done, self.messages = index, [], messages
        self.is_first, self.is_last = index == 0, index == stages - 1

    def forward_one_chunk(self, microbatch, *_, **__):
        self.done.append(pipelining._Action(self.stage_index, pipelining.F, microbatch))

    def backward_one_chunk(self, microbatch, *_, **__):
        self.done.append(pipelining._Action(self.stage_index, pipelining.B, microbatch))

    def perform_reduce_grad(self, _):
        self.done.append(pipelining._Action(self.stage_index, pipelining.REDUCE_GRAD))

    def _prepare_forward_infra(self, *_):
        pass

    def message(self, kind, microbatch, is_there):
        return [Message(self, kind, microbatch)] if self.messages and is_there else []

    def get_fwd_recv_ops(self, microbatch):
        return self.message("RECV_F", microbatch, not self.is_first)

    def get_fwd_send_ops(self, microbatch):
        return self.message("SEND_F", microbatch, not self.is_last)

    def get_bwd_recv_ops(self, microbatch):
        return self.message("RECV_B", microbatch, not self.is_last)

    def get_bwd_send_ops(self, microbatch):
        return self.message("SEND_B", microbatch, not self.is_first)

    def _get_init_p2p_neighbors_ops(self):
        return []


class Message:
    """In the place of a P2POp."""

    peer = 0

    def __init__(self, stage, kind, microbatch):
        self.stage, self.text = stage, f"{stage.stage_index}{kind}{microbatch}"


def post(messages, desc=None):
    """In the place of _batch_p2p."""
    for message in messages:
        message.stage.done.append(message.text)
    return []


@dataclass(frozen=True)
class Peer:
    """A class of PyTorch, the name of our schedule of the same order, and the shapes (GPUs, chunks, micro-batches)."""

    schedule: type
    ours: str
    shapes: tuple


ONE_CHUNK = ((1, 1, 1), (1, 1, 3), (2, 1, 2), (2, 1, 5), (4, 1, 4), (4, 1, 8), (3, 1, 7))
CHUNKS = ((1, 2, 2), (2, 2, 2), (2, 2, 4), (2, 3, 6), (4, 2, 4), (4, 2, 8), (4, 3, 12), (3, 2, 6))
# Groups of more or fewer micro-batches than GPUs: M / P rounded down of them.
UNEVEN_GROUPS = ((2, 2, 3), (4, 2, 3), (4, 2, 6), (4, 2, 10), (4, 3, 15), (3, 2, 8), (6, 2, 3))
# With late weight gradients, groups of at most one micro-batch more than GPUs.
SMALL_UNEVEN_GROUPS = tuple(shape for shape in UNEVEN_GROUPS if shape[2] // max(1, shape[2] // shape[0]) <= shape[0] + 1)
TWO_CHUNKS = ((1, 2, 2), (1, 2, 4), (2, 2, 4), (2, 2, 7), (3, 2, 6), (4, 2, 8), (4, 2, 13))

PEERS = [
    Peer(ScheduleGPipe, "gpipe", ONE_CHUNK),
    Peer(Schedule1F1B, "1f1b", ONE_CHUNK),
    Peer(ScheduleInterleaved1F1B, "interleaved", CHUNKS + UNEVEN_GROUPS),
    Peer(ScheduleInterleavedZeroBubble, "interleaved-zb", CHUNKS + SMALL_UNEVEN_GROUPS),
    Peer(ScheduleLoopedBFS, "looped-bfs", CHUNKS),
    Peer(ScheduleZBVZeroBubble, "zb-v", TWO_CHUNKS),
    Peer(ScheduleDualPipeV, "dualpipe-v", TWO_CHUNKS),
]

# Every schedule of ours, and the shapes in which it is written.
OURS = {
    "naive": ONE_CHUNK,
    "gpipe": ONE_CHUNK + ((4, 1, 2),),
    "1f1b": ONE_CHUNK + ((4, 1, 2),),
    "option-c": ONE_CHUNK,
    "interleaved": CHUNKS + UNEVEN_GROUPS,
    "interleaved-zb": CHUNKS + SMALL_UNEVEN_GROUPS,
    "looped-bfs": CHUNKS + ((3, 2, 4),),
    "zb-h1": ONE_CHUNK,
    "zb-h2": ONE_CHUNK,
    "zb-v": TWO_CHUNKS + ((4, 2, 3),),
    "dualpipe-v": TWO_CHUNKS,
}


def pdl_sim(*words):
    return subprocess.run([PDL_SIM, *words], capture_output=True, text=True, timeout=60, check=False)


def read_rows(path):
    """The cells of a file that are not blank, a list a rank."""
    with open(path, newline="", encoding="utf-8") as file:
        return [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(file)]


def write_rows(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def runtime(gpus, chunks, microbatches):
    stages = [Stage(gpus, gpus * chunks) for _ in range(chunks)]
    return pipelining._PipelineScheduleRuntime(stages, microbatches)


def executed_order(schedule, gpus, microbatches):
    stages = [RecordingStage(rank, gpus) for rank in range(gpus)]
    for stage in stages:
        schedule(stage, microbatches)._step_microbatches()
    return {rank: stage.done for rank, stage in enumerate(stages)}


def issued_by_class(schedule, gpus, microbatches):
    """Computation, messages and REDUCE_GRAD of ScheduleGPipe and Schedule1F1B, by rank, as they are issued."""
    stages = [RecordingStage(rank, gpus, messages=True) for rank in range(gpus)]
    for stage in stages:
        with unittest.mock.patch.object(pipelining, "_batch_p2p", post):
            schedule(stage, microbatches)._step_microbatches()
    return [[str(action) for action in stage.done] for stage in stages]


def issued_by_runtime(peer, gpus, chunks, microbatches):
    """The same of the classes that _PipelineScheduleRuntime runs. The first stage has its whole backward at W."""
    stages = [Stage(gpus, gpus * chunks) for _ in range(chunks)]
    lowered = peer.schedule(stages, microbatches).pipeline_order_with_comms
    idle = (pipelining.UNSHARD, pipelining.RESHARD)
    rows = []
    for rank in range(gpus):
        actions = [str(action) for action in single_actions(lowered[rank]) if action.computation_type not in idle]
        actions = [action for action in actions if not action.startswith("0I")]
        rows.append([action.replace("0W", "0B") if action.startswith("0W") else action for action in actions])
    return rows


def peer_order(peer, gpus, chunks, microbatches):
    """What PyTorch's class does, by rank, idle steps as None; computation and REDUCE_GRAD.

    1F1B is written down as it is executed: the order that PyTorch 2.11 gives in words numbers the last rank's forwards
    from 1, see test_1f1b_as_pytorch_words_it.
    """
    if peer.schedule is Schedule1F1B:
        return executed_order(Schedule1F1B, gpus, microbatches)
    stages = [Stage(gpus, gpus * chunks) for _ in range(chunks)]
    if issubclass(peer.schedule, pipelining.PipelineScheduleSingle):
        return peer.schedule(stages[0], microbatches).pipeline_order
    return peer.schedule(stages, microbatches).pipeline_order


def single_actions(actions):
    """Pairs that run together, as the two that they are."""
    for action in actions:
        if action is not None:
            yield from action.sub_actions or (action,)


def is_compute(action):
    return action.computation_type in (pipelining.F, pipelining.I, pipelining.B, pipelining.W)


def messages_of(order, rank_of, stages):
    """The messages that a whole step needs: a send and a receive for each action whose neighbour is on another rank."""
    needed = set()
    for actions in order.values():
        for action in single_actions(actions):
            stage, kind, microbatch = action.stage_index, action.computation_type, action.microbatch_index
            if kind == pipelining.F and stage + 1 < stages and rank_of[stage + 1] != rank_of[stage]:
                needed |= {f"{stage}SEND_F{microbatch}", f"{stage + 1}RECV_F{microbatch}"}
            if kind in (pipelining.I, pipelining.B) and stage > 0 and rank_of[stage - 1] != rank_of[stage]:
                needed |= {f"{stage}SEND_B{microbatch}", f"{stage - 1}RECV_B{microbatch}"}
    return needed


class ScheduleCsvTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def accepted(self, *words):
        done = pdl_sim(*words)
        self.assertEqual(done.returncode, 0, f"pdl-sim {' '.join(words)}\n{done.stderr}")
        return done

    def exported(self, name, shape):
        gpus, chunks, microbatches = map(str, shape)
        path = self.path(f"{name}.csv")
        depth = str(shape[0] * shape[1])
        words = ["--schedule", name, "--gpus", gpus, "--microbatches", microbatches, "--depth", depth]
        if chunks != "1":
            words += ["--chunks", chunks]
        self.accepted(*words, "--tf", "1", "--tb", "2", "--schedule-csv", path)
        return path

    def imported_again(self, path, shape):
        """pdl-sim's own account of a file, after it has simulated a step of it."""
        out = path + ".again.csv"
        depth = str(shape[0] * shape[1])
        times = ("--tf", "1", "--tb", "1", "--tw", "1")
        self.accepted("--schedule", path, "--depth", depth, *times, "--schedule-csv", out)
        return read_rows(out)

    def test_what_we_write_loads_in_pytorch(self):
        for name, shapes in OURS.items():
            for shape in shapes:
                with self.subTest(schedule=name, shape=shape):
                    self.check_export(name, shape)

    def check_export(self, name, shape):
        gpus, chunks, microbatches = shape
        path = self.exported(name, shape)
        peer = runtime(*shape)
        peer._load_csv(path, format="compute_only")
        rows = read_rows(path)
        self.assertEqual(len(rows), gpus)
        self.assertEqual([[str(action) for action in peer.pipeline_order[rank]] for rank in range(gpus)], rows)

        lowered = {rank: list(single_actions(peer.pipeline_order_with_comms[rank])) for rank in range(gpus)}
        for rank in range(gpus):
            self.assertEqual([str(a) for a in lowered[rank] if is_compute(a)],
                             [str(a) for a in single_actions(peer.pipeline_order[rank])])
        idle = (pipelining.UNSHARD, pipelining.RESHARD, pipelining.REDUCE_GRAD)
        executed = {rank: [a for a in actions if a.computation_type not in idle] for rank, actions in lowered.items()}
        messages = [str(a) for actions in executed.values() for a in actions if not is_compute(a)]
        rank_of = peer.stage_index_to_group_rank
        needed = messages_of(peer.pipeline_order, rank_of, gpus * chunks)
        self.assertEqual(len(messages), len(set(messages)))
        self.assertEqual(set(messages), needed)
        pipelining._simulate_comms_compute(executed, lambda stage: rank_of[stage], gpus * chunks)

    def issued_here(self, name, shape):
        """By rank: the spans of a prediction of PyTorch's program, which are in the order in which they are issued. Where
        PyTorch says REDUCE_GRAD, it divides the gradients, by default."""
        gpus, chunks, microbatches = map(str, shape)
        words = ["--gpus", gpus, "--microbatches", microbatches, "--depth", str(shape[0] * shape[1])]
        words += ["--chunks", chunks] if chunks != "1" else []
        done = self.accepted("--program", "pytorch", "--schedule", name, *words, "--tf", "1", "--tb", "1", "--tw", "1",
                             "--scale-grads", "1", "--json", "-")
        kinds = {"forward": "F", "backward": "B", "backward_input": "I", "backward_weight": "W", "send_forward": "SEND_F",
                 "send_backward": "SEND_B", "receive_forward": "RECV_F", "receive_backward": "RECV_B"}
        rows = [[] for _ in range(shape[0])]
        for span in json.loads(done.stdout)["spans"]:
            if span["kind"] in kinds:
                rows[span["worker"]].append(f"{span['stage']}{kinds[span['kind']]}{span['microbatch']}")
            elif span["kind"] == "scale_gradients":
                rows[span["worker"]].append(f"{span['stage']}REDUCE_GRAD")
        return rows

    def test_what_pytorch_issues_is_what_is_predicted(self):
        for peer in PEERS:
            for shape in peer.shapes:
                if peer.schedule is Schedule1F1B and shape[2] < shape[0]:
                    continue  # refused by both
                with self.subTest(schedule=peer.schedule.__name__, shape=shape):
                    if issubclass(peer.schedule, pipelining.PipelineScheduleSingle):
                        expected = issued_by_class(peer.schedule, shape[0], shape[2])
                    else:
                        expected = issued_by_runtime(peer, *shape)
                    self.assertEqual(self.issued_here(peer.ours, shape), expected)

    def test_computation_that_pytorch_writes_loads_here_and_is_our_own(self):
        for peer in PEERS:
            for shape in peer.shapes:
                with self.subTest(schedule=peer.schedule.__name__, shape=shape):
                    order = peer_order(peer, *shape)
                    path = self.path("peer.csv")
                    write_rows(path, [order[rank] for rank in range(shape[0])])
                    self.assertEqual(self.imported_again(path, shape), read_rows(path))
                    computation = [[cell for cell in row if "REDUCE_GRAD" not in cell] for row in read_rows(path)]
                    self.assertEqual(read_rows(self.exported(peer.ours, shape)), computation)

    def test_messages_that_pytorch_writes_load_here(self):
        for peer in PEERS:
            for shape in peer.shapes:
                with self.subTest(schedule=peer.schedule.__name__, shape=shape):
                    order = peer_order(peer, *shape)
                    computation = self.path("computation.csv")
                    write_rows(computation, [list(single_or_pair(order[rank])) for rank in range(shape[0])])
                    lowered = runtime(*shape)
                    lowered._load_csv(computation, format="compute_only")
                    path = self.path("messages.csv")
                    lowered._dump_csv(path, format="compute_comms")
                    self.assertEqual(self.imported_again(path, shape), read_rows(path))

    def test_micro_batches_that_only_pytorch_takes_load_here(self):
        # Refused here by name, an order like any other as a file.
        for schedule, shape in ((ScheduleInterleavedZeroBubble, (4, 2, 6)), (ScheduleZBVZeroBubble, (4, 2, 3))):
            with self.subTest(schedule=schedule.__name__, shape=shape):
                order = peer_order(Peer(schedule, "", ()), *shape)
                path = self.path("peer.csv")
                write_rows(path, [order[rank] for rank in range(shape[0])])
                self.assertEqual(self.imported_again(path, shape), read_rows(path))

    def test_1f1b_as_pytorch_words_it(self):
        # PyTorch 2.11: 3F1 3B0 3F2 ... 3F4 3B3 on the last rank, which neither side takes. A later one may be right.
        for shape in ((1, 1, 3), (2, 1, 4), (4, 1, 4)):
            with self.subTest(shape=shape):
                gpus, chunks, microbatches = shape
                order = Schedule1F1B(Stage(gpus, gpus * chunks), microbatches).pipeline_order
                path = self.path("peer.csv")
                write_rows(path, [list(single_or_pair(order[rank])) for rank in range(gpus)])
                try:
                    runtime(*shape)._load_csv(path, format="compute_only")
                except (AssertionError, KeyError):
                    refused = pdl_sim("--schedule", path, "--depth", str(gpus), "--tf", "1", "--tb", "1")
                    self.assertEqual(refused.returncode, 2, refused.stderr)
                else:
                    self.imported_again(path, shape)

    def test_a_broken_file_is_refused_by_both(self):
        path = self.exported("1f1b", (2, 1, 4))
        rows = read_rows(path)
        rows[1].remove("1B3")
        write_rows(path, rows)
        with self.assertRaises(AssertionError):
            runtime(2, 1, 4)._load_csv(path, format="compute_only")
        refused = pdl_sim("--schedule", path, "--depth", "2", "--tf", "1", "--tb", "1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("rank 1, position 6, cell 1F3: found no backward of it", " ".join(refused.stderr.split()))


def single_or_pair(actions):
    """What the lowering takes: computation, pairs as they are."""
    for action in actions:
        if action is not None and (action.is_compute_op or action.sub_actions):
            yield action


def main():
    global PDL_SIM
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True)
    flags, rest = parser.parse_known_args()
    PDL_SIM = os.path.abspath(flags.pdl_sim)
    print(f"PyTorch {torch.__version__}")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
