"""HW3.5: data transfer. How often .to(layer_device) is called in a forward pass, and how often it moves data.

  python3 hw3_5_data_transfer.py --device cpu --gpu-counts 2,5

It is called once a layer; it moves the activation where two neighbouring layers are on different GPUs: GPUs - 1 times.
"""

from course_model import SplitModel, devices_of, gpus_text, read_options, report, split_step, timed_steps


def more_options(parser):
    parser.add_argument("--gpu-counts", default="2,5", help="with commas between (default 2,5)")


def main():
    options = read_options("HW3.5: moves between GPUs", more_options, depth=20)
    for options.gpus in map(int, options.gpu_counts.split(",")):
        devices = devices_of(options)
        model = SplitModel(options.depth, options.dim, devices)
        times, _ = timed_steps(split_step(model, options), options, devices)
        report(gpus_text(options.gpus), times)
        activation = 4 * options.batch * options.dim
        print(f"  one forward pass: {model.calls} calls of .to(layer_device), {model.moves} moves of {activation} bytes, "
              f"{model.moves * activation} bytes in all; the backward pass moves as much the other way")


if __name__ == "__main__":
    main()
