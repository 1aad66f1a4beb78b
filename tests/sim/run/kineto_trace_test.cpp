// Traces of torch.profiler: what is read of them, their steps, and where a step goes.
#include "sim/run/kineto_trace.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>

#include "sim/io/error.hpp"
#include "sim/report/trace_document.hpp"
#include "sim/run/trace_step.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_trace.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace pdl;

namespace {

/// As a terminal shows it.
std::string text_of(const DrawnTrace& drawn) {
  return to_terminal(trace_document({traced_step(read(drawn), std::nullopt)}), {.width = 120});
}

std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  try {
    read_kineto_trace(folder.write("trace.json", text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::int64_t part(const std::vector<std::int64_t>& parts, TracePart which) {
  return parts[static_cast<std::size_t>(which)];
}

}  // namespace

TEST_CASE("a trace: everything that ran on the GPU, with the call that launched it") {
  const KinetoTrace trace = read(one_step());
  CHECK(trace.rank == 1);
  CHECK(trace.world_size == 2);
  CHECK(trace.gpu == "Drawn GPU");
  CHECK(trace.nccl == "2.28.9");
  REQUIRE(trace.activities.size() == 4);
  CHECK(trace.activities[0].start_ns == 1000);  // from the first launch
  CHECK(trace.activities[0].launch_start_ns == 0);
  CHECK(trace.activities[1].launch_thread == 2);
  CHECK(nccl_operation(trace.activities[2]) == "AllReduce");
  CHECK(nccl_operation(trace.activities[0]).empty());
  CHECK(short_name(trace.activities[3]) == "multi_tensor_apply_kernel");
}

TEST_CASE("the parts of a step add up to it, to the nanosecond") {
  const KinetoTrace trace = read(one_step());
  const std::vector<TraceStep> steps = steps_of(trace);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].duration_ns() == 57'000);
  const std::vector<std::int64_t> parts = parts_of(trace, steps[0]);
  CHECK(part(parts, TracePart::forward) == 10'000);
  CHECK(part(parts, TracePart::backward) == 10'000);
  CHECK(part(parts, TracePart::collectives) == 7'000);  // 5 of its 12 us are beside the backward
  CHECK(part(parts, TracePart::optimizer) == 3'000);
  CHECK(part(parts, TracePart::host) == 2'000 + 22'000);
  CHECK(part(parts, TracePart::waiting) == 3'000);
  std::int64_t sum = 0;
  for (const std::int64_t ns : parts) sum += ns;
  CHECK(sum == steps[0].duration_ns());
  const std::vector<TraceGap> gaps = largest_gaps(trace, steps[0], 1);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].duration_ns == 25'000);
  CHECK(gaps[0].host_ns == 22'000);
}

TEST_CASE("steps end with their optimizer, a barrier between them is of none, and profiler.step() goes before both") {
  DrawnTrace drawn;
  for (const double at : {0.0, 1000.0}) {
    drawn.gpu("kernel", "gemm", 7, at + 110, at + 120, 1, at + 100);
    drawn.call("user_annotation", "Optimizer.step#Adam.step", 1, at + 130, at + 150);
    drawn.gpu("kernel", "adam", 7, at + 140, at + 145, 1, at + 131);
    drawn.call("cpu_op", "c10d::barrier", 1, at + 199, at + 220);
    drawn.call("user_annotation", "nccl:all_reduce_barrier", 1, at + 200, at + 220);
    drawn.gpu("kernel", "ncclDevKernel_AllReduce_Sum", 7, at + 210, at + 900, 1, at + 201);
  }
  const std::vector<TraceStep> steps = steps_of(read(drawn));
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].name == "step 1");
  CHECK(steps[1].duration_ns() == 35'000);
  CHECK(steps[1].activities.size() == 2);
  CHECK(outside_of_steps(read(drawn), steps) == std::vector<std::size_t>{2, 5});
  drawn.call("user_annotation", "ProfilerStep#7", 1, 1000, 1999);
  const std::vector<TraceStep> named = steps_of(read(drawn));
  REQUIRE(named.size() == 1);
  CHECK(named[0].name == "ProfilerStep#7");
  CHECK(traced_step(read(drawn), 7).step().name == "ProfilerStep#7");
  CHECK_THROWS_WITH(traced_step(read(drawn), 1), ContainsSubstring("expected 7, which it has"));
  CHECK(named[0].duration_ns() == 35'000);
  // Without either, all is one step.
  DrawnTrace plain;
  plain.gpu("kernel", "gemm", 7, 10, 20, 1, 5);
  plain.gpu("gpu_memcpy", "Memcpy DtoD", 7, 20, 30, 1, 6);
  const KinetoTrace trace = read(plain);
  const std::vector<TraceStep> one = steps_of(trace);
  CHECK(one.size() == 1);
  CHECK(part(parts_of(trace, one[0]), TracePart::copies) == 10'000);
}

TEST_CASE("what is no trace of one GPU is refused with its file and the reason") {
  const std::string whole = one_step().text();
  CHECK_THAT(error_of("{}"), ContainsSubstring("trace.json: found no traceEvents"));
  CHECK_THAT(error_of("[1]"), ContainsSubstring("found no traceEvents"));
  CHECK_THAT(error_of(whole.substr(0, whole.size() / 2)), ContainsSubstring("trace.json"));
  CHECK_THAT(error_of("\x1f\x8b compressed"), ContainsSubstring("gunzip it first"));
  DrawnTrace host;
  host.call("cpu_op", "aten::add", 1, 1, 2);
  CHECK_THAT(error_of(host.text()), ContainsSubstring("nothing that ran on a GPU"));
  DrawnTrace two = one_step();
  two.gpu("kernel", "gemm", 7, 200, 210, 1, 199, /*device=*/1);
  CHECK_THAT(error_of(two.text()), ContainsSubstring("activities of 2 GPUs"));
  DrawnTrace untimed = one_step();
  untimed.events[1].erase("dur");
  CHECK_THAT(error_of(untimed.text()), ContainsSubstring("traceEvents[1]: found no key \"dur\""));
  DrawnTrace unnamed = one_step();
  unnamed.events[1]["name"] = nullptr;
  CHECK_THAT(error_of(unnamed.text()), ContainsSubstring("traceEvents[1].name: found null"));
  nlohmann::json ranked = nlohmann::json::parse(whole);
  ranked["distributedInfo"]["rank"] = nullptr;
  CHECK_THAT(error_of(ranked.dump()), ContainsSubstring("distributedInfo.rank: found null"));
  ranked["distributedInfo"]["rank"] = 2;
  CHECK_THAT(error_of(ranked.dump()), ContainsSubstring("expected a rank of 2"));
  CHECK_THROWS_WITH(traced_step(read(one_step()), 2),
                    ContainsSubstring("--step: found 2") && ContainsSubstring("expected 1, which it has"));
}

TEST_CASE("two steps of DDP on 4 x H200: nothing is lost (measured sums)") {
  const TemporaryFolder folder;
  const std::string packed =
      std::string(PDL_SOURCE_DIR) + "/tests/golden/torch_profiler_ddp_4096x6_b256_4gpus_rank0.json.gz";
  REQUIRE(std::system(("gunzip -c '" + packed + "' > '" + folder / "trace.json" + "'").c_str()) == 0);
  const KinetoTrace trace = read_kineto_trace(folder / "trace.json");
  std::map<std::string, std::pair<int, double>> sums;
  for (const GpuActivity& activity : trace.activities) {
    const std::string kind = activity.kind != GpuActivityKind::kernel ? "copies and memsets"
                             : !nccl_operation(activity).empty()      ? "nccl " + std::to_string(activity.stream)
                             : activity.name.find("gemm") != std::string::npos ? "gemm"
                                                                               : "others";
    ++sums[kind].first;
    sums[kind].second += static_cast<double>(activity.duration_ns()) / 1e3;
    CHECK(activity.is_launch_known());
  }
  const auto check = [&](const std::string& kind, int count, double us) {
    CAPTURE(kind);
    CHECK(sums[kind].first == count);
    CHECK(std::abs(sums[kind].second - us) < 0.1);
  };
  check("gemm", 44, 2898.5);
  check("nccl 19", 12, 5558.4);
  check("nccl 7", 2, 491.8);
  check("copies and memsets", 38, 504.1);
  check("others", 82, 1209.3);
  std::int64_t last_ns = 0;
  for (const GpuActivity& activity : trace.activities) last_ns = std::max(last_ns, activity.end_ns);
  CHECK(std::abs(static_cast<double>(last_ns - trace.activities.front().start_ns) / 1e3 - 13873.7) < 0.1);
  const std::vector<TraceStep> steps = steps_of(trace);
  REQUIRE(steps.size() == 2);
  for (const TraceStep& step : steps) {
    std::int64_t sum = 0;
    for (const std::int64_t ns : parts_of(trace, step)) sum += ns;
    CHECK(sum == step.duration_ns());
  }
  // Two barriers of a fill and an all-reduce each, 0.001 + 0.492 ms.
  CHECK(steps[0].activities.size() + steps[1].activities.size() + outside_of_steps(trace, steps).size() == 178);
  CHECK(outside_of_steps(trace, steps).size() == 4);
}

TEST_CASE("a barrier amid a step, and what a program calls one, are of the step") {
  DrawnTrace drawn = one_step();
  drawn.call("user_annotation", "my barrier-free block", 1, 100, 110);
  drawn.call("user_annotation", "nccl:all_reduce_barrier", 2, 116, 117);
  const KinetoTrace trace = read(drawn);
  const std::vector<TraceStep> steps = steps_of(trace);
  CHECK(steps.at(0).activities.size() == 4);
  CHECK(outside_of_steps(trace, steps).empty());
}

TEST_CASE("kernels of one name for two purposes have a row each, and rows that are left out are summed up") {
  DrawnTrace drawn = one_step();
  drawn.gpu("kernel", "gemm", 7, 155, 156, 1, 152);  // of the optimizer
  drawn.gpu("kernel", "gemm", 7, 170, 171, 1, 165);  // after the last step
  for (int i = 0; i < 14; ++i) drawn.gpu("kernel", "k" + std::to_string(i), 7, 125, 126, 2, 113);
  const std::string text = text_of(drawn);
  CHECK(std::regex_search(text, std::regex("gemm +forward +1 ")));
  CHECK(std::regex_search(text, std::regex("gemm +backward +1 ")));
  CHECK_THAT(text, ContainsSubstring("4 others"));
  CHECK_THAT(text, ContainsSubstring("1 activities of the GPU, 0.001 ms in all, are in no step"));
}

TEST_CASE("without calls of autograd nothing tells a backward from a forward, which is said") {
  DrawnTrace drawn = one_step();
  CHECK_THAT(text_of(drawn), !ContainsSubstring("no call of autograd"));
  drawn.events.erase(3);
  CHECK_THAT(text_of(drawn), ContainsSubstring("no call of autograd"));
}

TEST_CASE("what was launched by a call that is not in the trace is said") {
  DrawnTrace drawn = one_step();
  drawn.events.erase(2);  // the launch of the first kernel
  const std::string text = text_of(drawn);
  CHECK_THAT(text, ContainsSubstring("1 of 4 activities of the step have no call that launched them"));
}
