"""HW3.2: model size. More layers on the same two GPUs: the step time grows with them.

  python3 hw3_2_model_size.py --device cpu --depths 6,12,24
"""

from course_model import SplitModel, devices_of, read_options, report, split_step, timed_steps


def more_options(parser):
    parser.add_argument("--depths", default="6,12,24", help="with commas between (default 6,12,24)")


def main():
    options = read_options("HW3.2: more layers", more_options)
    devices = devices_of(options)
    for depth in map(int, options.depths.split(",")):
        model = SplitModel(depth, options.dim, devices)
        times, _ = timed_steps(split_step(model, options), options, devices)
        median = report(f"{depth} layers", times)
        print(f"  {median / depth:.3f} ms a layer")


if __name__ == "__main__":
    main()
