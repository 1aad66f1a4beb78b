"""HW3.3: the layers spread over all GPUs that are found. The rule from the index of a layer to its GPU.

  python3 hw3_3_all_gpus.py --device cuda --depth 20
  python3 hw3_3_all_gpus.py --device cpu --depth 20 --gpus 3

With q, r = divmod(depth, GPUs) the first r GPUs hold q + 1 layers and the others q: layer i is on GPU i // (q + 1) if
i < r (q + 1), else on GPU r + (i - r (q + 1)) // q. That is gpu_of_layer() in course_model.py.
"""

import torch

from course_model import SplitModel, devices_of, gpu_of_layer, gpus_text, read_options, report, split_step, timed_steps


def main():
    options = read_options("HW3.3: all GPUs", depth=20)
    if options.device == "cuda":
        options.gpus = torch.cuda.device_count()
    devices = devices_of(options)
    model = SplitModel(options.depth, options.dim, devices)
    print(f"{options.depth} layers on {gpus_text(options.gpus)}")
    for gpu in range(options.gpus):
        print(f"GPU {gpu}: layers", *[i for i in range(options.depth) if gpu_of_layer(i, options.depth, options.gpus) == gpu])
    times, _ = timed_steps(split_step(model, options), options, devices)
    report(gpus_text(options.gpus), times)


if __name__ == "__main__":
    main()
