"""Practical 9, part 4: options A, B and C with 2, 4 and 8 micro-batches: 3 x 3 step times, and the losses beside them.

  python3 p9_part4.py --device cpu --gpus 4

The three options compute the same: their losses are equal. What differs is the order, so the time and the memory.
"""

from course_model import read_microbatch_options, run_option
from p9_option_a_naive import option_a
from p9_option_b_gpipe import option_b
from p9_option_c import option_c

OPTIONS = (("option A (naive)", option_a), ("option B (GPipe)", option_b), ("option C", option_c))


def main():
    options = read_microbatch_options("Practical 9, part 4: all options")
    medians = {}
    for options.microbatches in (2, 4, 8):
        for name, passes in OPTIONS:
            medians[name, options.microbatches] = run_option(name, passes, options)
    for name, _ in OPTIONS:
        few, many = medians[name, 2], medians[name, 8]
        change = f"is {few / many:.2f} times as fast" if many < few else f"takes {many / few:.2f} times as long"
        print(f"{name}: a step with 8 micro-batches {change} as with 2")


if __name__ == "__main__":
    main()
