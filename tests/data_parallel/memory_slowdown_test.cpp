// By how much kernels slow an all-reduce beside them, because both want the memory: from the probe of all-reduces beside copies.
#include "sim/cost/price.hpp"
#include "tests/sim/cost/profile_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

using Points = ProfileBuilder::Points;

/// A layer of 64 and 16 rows. Forward: 24,576 bytes in 24.576 us, 1 byte a ns, nothing is faster. Backward: 40,960 bytes in
/// 140.48 us, with its gradients copied into the bucket, 2 x 16,640 bytes in 8 us: 74,240 bytes in 148.48 us, half of that.
/// An all-reduce of 1 MB takes 20 us, of 16 MB 170 us.
ProfileBuilder builder() {
  ProfileBuilder b;
  b.profile.host_description.multiprocessors = 132;
  b.quiet_host();
  for (const char* name : {"reducer_hook", "collective_issue"}) b.host(name, 0);
  MeasuredKey layer = ProfileBuilder::layer_key("forward", 64, 64);
  layer.implementation = "autograd";
  b.add(layer, {{16, 24.576}});
  layer.operation = "backward";
  for (const bool input_gradient : {false, true}) {
    layer.input_gradient = input_gradient;
    b.add(layer, {{16, 140.48}});
  }
  MeasuredKey other;
  other.implementation = "autograd";
  other.probe = Probe::loss;
  other.dtype = "fp32";
  b.add(other, {{1024, 3}});
  other.dtype.clear();
  other.probe = Probe::optimizer;
  other.optimizer = "sgd";
  b.add(other, {{1, 20}, {1 << 20, 20}});
  for (const char* operation : {"copy_in", "copy_out"}) {
    MeasuredKey bucket;
    bucket.probe = Probe::bucket;
    bucket.operation = operation;
    b.add(bucket, {{1, 8}, {1 << 20, 8}});
  }
  for (const std::int64_t ranks : {2, 4}) {
    MeasuredKey collective;
    collective.probe = Probe::collective;
    collective.operation = "all_reduce";
    collective.transport = "nccl";
    collective.ranks = ranks;
    b.add(collective, {{1, 10}, {1'000'000, 20}, {16'000'000, 170}});
  }
  return b;
}

void beside_copies(ProfileBuilder& b, std::int64_t ranks, const Points& points, const char* name = "communication",
                   const char* operation = kAllReduceBesideCopies) {
  MeasuredKey key;
  key.probe = Probe::overlap;
  key.name = name;
  key.operation = operation;
  key.transport = "nccl";
  key.dtype = "fp32";
  key.ranks = ranks;
  key.in = key.out = 4096;
  key.rows = 1;
  b.add(key, points);
}

/// Of a copy into a bucket, of the backward of the last layer and of the forward.
struct Slowdown {
  double copy = -1, backward = -1, forward = -1;
};

Slowdown slowdown(ProfileBuilder b, const std::string& gpus) {
  const CostProfile profile = b.done();
  const Plan plan = make_plan(spec("--strategy ddp --depth 2 --dim 64 --bucket-mb 0.01 --first-bucket-mb 0.01 --gpus " + gpus + " --batch " + std::to_string(16 * std::stoi(gpus))));
  const PricedWork priced = price(plan, profile);
  Slowdown slowdown;
  for (std::size_t w = 0; w < plan.graph.works.size(); ++w) {
    if (priced.shared.kernels.at(w).empty()) continue;
    const double by = priced.shared.kernels[w].back().slows_collectives;
    const TaskKind kind = plan.graph.works[w].kind;
    if (kind == TaskKind::bucket_copy_in) slowdown.copy = by;
    if (kind == TaskKind::backward && plan.graph.works[w].first_layer == 1) slowdown.backward = by;
    if (kind == TaskKind::forward) slowdown.forward = by;
  }
  return slowdown;
}

}  // namespace

TEST_CASE("beside copies an all-reduce takes longer by what its time grows faster with its bytes", "[data_parallel]") {
  // From 1 MB to 16 MB: 225 us against 150. That the smallest one takes 80 us instead of 20 does not count.
  ProfileBuilder b = builder();
  beside_copies(b, 2, {{1'000'000, 80}, {16'000'000, 305}});
  CHECK(slowdown(b, "2").copy == Approx(.5));
  CHECK(slowdown(b, "2").forward == 0);
  // Less than alone: nothing.
  ProfileBuilder faster = builder();
  beside_copies(faster, 2, {{1'000'000, 80}, {16'000'000, 180}});
  CHECK(slowdown(faster, "2").copy == 0);
}

TEST_CASE("the slowdown is that of the nearest number of GPUs, with two sizes or more, of communication beside copies", "[data_parallel]") {
  ProfileBuilder b = builder();
  beside_copies(b, 2, {{1'000'000, 80}, {16'000'000, 305}});
  beside_copies(b, 4, {{1'000'000, 80}, {16'000'000, 380}});
  beside_copies(b, 3, {{16'000'000, 1000}});
  beside_copies(b, 8, {{1'000'000, 80}, {16'000'000, 980}}, "compute");
  beside_copies(b, 8, {{1'000'000, 80}, {16'000'000, 980}}, "communication", "all_reduce");
  CHECK(slowdown(b, "2").copy == Approx(.5));
  CHECK(slowdown(b, "3").copy == Approx(.5));
  CHECK(slowdown(b, "4").copy == Approx(1));
  CHECK(slowdown(b, "8").copy == Approx(1));
  CHECK(slowdown(builder(), "2").copy == 0);
}

TEST_CASE("a backward slows an all-reduce as often as one GPU of the ring is at its memory: 1 - (1 - s)^n", "[data_parallel]") {
  ProfileBuilder b = builder();
  beside_copies(b, 2, {{1'000'000, 80}, {16'000'000, 305}});
  CHECK(slowdown(b, "2").backward == Approx(.5 * .75));
  CHECK(slowdown(b, "4").backward == Approx(.5 * 15 / 16));
}
