"""HW3.4: more GPUs for the same model. 20 layers on 2 and on 5 GPUs: step time and memory of each GPU.

  python3 hw3_4_more_gpus.py --device cpu --gpu-counts 2,5

With one batch at a time one GPU works and the others wait for it, so more GPUs save memory and no time.
"""

from course_model import (
    SplitModel, devices_of, gpus_text, peak_memory_mib, read_options, report, reset_peak_memory, split_step, timed_steps,
)


def more_options(parser):
    parser.add_argument("--gpu-counts", default="2,5", help="with commas between (default 2,5)")


def main():
    options = read_options("HW3.4: 2 and 5 GPUs", more_options, depth=20)
    for options.gpus in map(int, options.gpu_counts.split(",")):
        devices = devices_of(options)
        reset_peak_memory(devices)
        model = SplitModel(options.depth, options.dim, devices)
        times, losses = timed_steps(split_step(model, options), options, devices)
        report(gpus_text(options.gpus), times)
        layers = [model.gpu_of.count(gpu) for gpu in range(options.gpus)]
        parameters_mib = [4 * count * (options.dim + 1) * options.dim / 2**20 for count in layers]
        print("  layers by GPU:", *layers, "; MiB of parameters by GPU:", " ".join(f"{mib:.3f}" for mib in parameters_mib))
        print("  peak memory in MiB by GPU:",
              " ".join(f"{mib:.0f}" for mib in peak_memory_mib(devices)) or "not counted on the CPU")
        print(f"  loss of the last step {losses[-1]:.7f}")


if __name__ == "__main__":
    main()
