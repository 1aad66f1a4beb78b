"""The loop of a Python program that pdl-run or pdl-calibrate has started: it is asked, and answers, until they end.

  python3 train.py QUESTION ANSWER      standard input: a line for each question, which then stands in the file QUESTION
                                        standard output: lines of progress; "answered" once ANSWER has the answer,
                                        "refused" or "failed" once standard error's last line says why

Files are JSON. Exit code 4: there is no PyTorch (standard error says why). Not here: what is asked.
"""

import json
import platform
import sys

import torch


class Refused(Exception):
    """PyTorch cannot run what is asked; the same on every rank. Everything is still in order."""


class Failed(Exception):
    """It was tried, and went wrong."""


def serve(answer_of):
    """`answer_of`: from what is asked to the answer, both what JSON has."""
    question, answer = sys.argv[1:3]
    for _ in sys.stdin:
        try:
            with open(question, encoding="utf-8") as file:
                asked = json.load(file)
            answered = answer_of(asked)
            with open(answer, "w", encoding="utf-8") as file:
                json.dump(answered, file)
            said = "answered"
        except Refused as problem:
            print(f"PyTorch refuses: {problem}", file=sys.stderr, flush=True)
            said = "refused"
        except Failed as problem:
            print(problem, file=sys.stderr, flush=True)
            said = "failed"
        print(said, flush=True)


def environment_of(device):
    facts = {"python": platform.python_version(), "torch": torch.__version__}
    if device == "cuda":
        facts["cuda"] = torch.version.cuda
        facts["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return facts
