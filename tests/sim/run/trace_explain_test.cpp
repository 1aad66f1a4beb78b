// Where a traced step goes, its critical path, and the step without a part, of traces drawn with exact times.
#include "sim/run/trace_explain.hpp"

#include "sim/io/error.hpp"
#include "sim/report/trace_explain_document.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drawn_trace.hpp"

using namespace pdl;

namespace {

std::vector<TracedStep> steps_of_traces(const std::vector<DrawnTrace>& drawn) {
  std::vector<TracedStep> steps;
  for (const DrawnTrace& trace : drawn) steps.push_back(traced_step(read(trace), std::nullopt));
  return steps;
}

/// "forward 10.0, host 2.0": the parts that are not 0, microseconds.
std::string text_of(const TraceCosts& costs) {
  std::string text;
  for (std::size_t p = 0; p < kTraceCosts; ++p) {
    if (costs.ns[p] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(kTraceCostNames[p]) + " " + std::to_string(costs.ns[p] / 1000);
    CHECK(costs.ns[p] % 1000 == 0);
  }
  return text;
}

std::string text_of_path(const TraceExplanation& explanation) {
  std::string text;
  std::int64_t end_ns = 0;
  for (const TracePathSegment& segment : explanation.critical_path) {
    CHECK(segment.start_ns == end_ns);
    end_ns = segment.end_ns;
    text += (text.empty() ? "" : ", ") + std::to_string(segment.rank) + " " +
            kTraceCostNames[static_cast<std::size_t>(segment.part)] + " " + std::to_string(segment.start_ns / 1000) +
            "-" + std::to_string(segment.end_ns / 1000);
  }
  CHECK(end_ns == explanation.step_ns);
  CHECK(explanation.path.sum_ns() == explanation.step_ns);
  return text;
}

std::int64_t without_us(const TraceExplanation& explanation, TraceCost part) {
  for (const TraceWithout& without : explanation.without) {
    if (without.part == part) return without.step_ns / 1000;
  }
  return -1;
}

}  // namespace

TEST_CASE("a traced step explained: parts, the critical path over the host, and the step without each") {
  const std::vector<TracedStep> steps = steps_of_traces({one_step()});
  const TraceExplanation why = explain_trace(steps);
  CHECK(text_of(why.ranks[0]) == "forward 10, backward 10, optimizer 3, collectives 7, host 24, waiting 3");
  CHECK(why.step_ns == 57'000);
  CHECK_FALSE(why.peers_known);
  // The optimizer's launch returns at 152, after that of the all-reduce, and so on: nothing but the host is waited for.
  CHECK(text_of_path(why) == "0 host 0-51, 0 waiting 51-54, 0 optimizer 54-57");
  // [forward 101-111][backward 111-121] beside [all-reduce 101-113], then the optimizer 121-124.
  CHECK(without_us(why, TraceCost::host) == 23);
  CHECK(without_us(why, TraceCost::collectives) == 57);
  CHECK(without_us(why, TraceCost::optimizer) == 54);
  CHECK(without_us(why, TraceCost::imbalance) == -1);
  // One kernel of its name ran alone, which is too few to know contention.
  CHECK(why.contention[0].all == 1);
  CHECK(why.contention[0].known == 0);
}

TEST_CASE("two ranks: waiting for the last one is imbalance, and the critical path goes over to it") {
  // The backward of rank 1 ends 9 us after that of rank 0; both all-reduces end at 60.
  const std::vector<TracedStep> steps = steps_of_traces({ddp_step(0, 41), ddp_step(1, 50)});
  const TraceExplanation why = explain_trace(steps);
  CHECK(why.peers_known);
  CHECK_FALSE(why.clocks_guessed);
  // Copies: one into the bucket, two out of it. 60 to 61: the copies were launched long before.
  CHECK(text_of(why.ranks[0]) ==
        "forward 11, backward 20, optimizer 4, imbalance 9, collectives 9, copies 3, waiting 1");
  CHECK(text_of(why.ranks[1]) == "forward 11, backward 29, optimizer 4, collectives 9, copies 3, waiting 1");
  CHECK(text_of_path(why) ==
        "1 forward 0-11, 1 backward 11-40, 1 copies 40-41, 1 collectives 41-50, 1 waiting 50-51, 1 copies 51-53, "
        "1 optimizer 53-57");
  CHECK(without_us(why, TraceCost::collectives) == 48);
  CHECK(without_us(why, TraceCost::imbalance) == 57);  // rank 1 is no faster by it
  CHECK(without_us(why, TraceCost::host) == 57);       // the host is far ahead
  CHECK(without_us(why, TraceCost::copies) == 54);
}

TEST_CASE("clocks that differ are moved so that collectives end together, which is said to be a guess") {
  DrawnTrace late = ddp_step(1, 50);
  for (nlohmann::json& event : late.events) event["ts"] = event["ts"].get<double>() + 1000;
  const std::vector<TracedStep> steps = steps_of_traces({ddp_step(0, 41), late});
  const TraceExplanation why = explain_trace(steps);
  CHECK(why.clocks_guessed);
  CHECK(why.step_ns == 57'000);
  CHECK(why.ranks[0][TraceCost::imbalance] == 9'000);
  CHECK_THAT(to_terminal(trace_explain_document(steps, why), {.width = 400}),
             ContainsSubstring("the clocks of all but the first"));
}

TEST_CASE("contention: what a kernel takes beyond the median of its like alone") {
  DrawnTrace drawn;
  drawn.gpu("kernel", "gemm", 7, 10, 20, 1, 0);
  drawn.gpu("kernel", "gemm", 7, 20, 30, 1, 1);
  drawn.gpu("kernel", "gemm", 7, 30, 43, 1, 2);
  drawn.gpu("kernel", kAllReduceKernel, 9, 35, 40, 1, 3);
  drawn.gpu("kernel", "other", 7, 43, 50, 1, 4);
  drawn.gpu("kernel", kAllReduceKernel, 9, 45, 50, 1, 5);
  const TraceExplanation why = explain_trace(steps_of_traces({drawn}));
  CHECK(text_of(why.ranks[0]) == "forward 37, contention 3");
  CHECK(why.contention[0].known == 1);
  CHECK(why.contention[0].all == 2);
  CHECK(without_us(why, TraceCost::contention) == 37);
}

TEST_CASE("a pipeline's rank: messages before its first kernel are fill, after its last one drain") {
  DrawnTrace drawn;
  drawn.gpu("kernel", kMessageKernel, 9, 10, 20, 1, 0);
  drawn.gpu("kernel", "gemm", 7, 20, 25, 1, 1);
  drawn.gpu("kernel", kMessageKernel, 9, 25, 35, 1, 2);
  drawn.call("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, 3, 3.5);
  drawn.gpu("kernel", "gemm", 7, 35, 45, 2, 3);
  drawn.gpu("kernel", kMessageKernel, 9, 45, 48, 1, 4);
  drawn.call("user_annotation", "Optimizer.step#SGD.step", 1, 5, 6);
  drawn.gpu("kernel", "sgd", 7, 48, 50, 1, 5);
  const TraceExplanation why = explain_trace(steps_of_traces({drawn}));
  CHECK(text_of(why.ranks[0]) == "forward 5, backward 10, optimizer 2, fill 10, drain 3, transfers 10");
  // What starts when a message has ended, later than its stream explains, waited for it.
  CHECK(text_of_path(why) ==
        "0 transfers 0-10, 0 forward 10-15, 0 transfers 15-25, 0 backward 25-35, 0 transfers 35-38, 0 optimizer 38-40");
  CHECK(without_us(why, TraceCost::transfers) == 17);
}

TEST_CASE("a call that waits for the GPU holds the host up only as long as the GPU takes") {
  DrawnTrace drawn;
  drawn.gpu("kernel", kMessageKernel, 9, 10, 30, 1, 0);
  drawn.call("cuda_runtime", "cudaStreamSynchronize", 1, 2, 32);
  drawn.gpu("kernel", "gemm", 7, 40, 45, 1, 35);
  const TraceExplanation why = explain_trace(steps_of_traces({drawn}));
  CHECK(text_of_path(why) == "0 transfers 0-20, 0 host 20-26, 0 waiting 26-30, 0 forward 30-35");
  CHECK(without_us(why, TraceCost::transfers) == 15);
}

TEST_CASE("ranks of another step, or of another model, are refused with file, found and expected") {
  DrawnTrace without = ddp_step(1, 50);
  without.erase(11, 2);  // its all-reduce
  CHECK_THROWS_WITH(explain_trace(steps_of_traces({ddp_step(0, 41), without})),
                    ContainsSubstring("trace.json: found 0 AllReduce of NCCL, expected 1, as trace.json"));
  CHECK_THROWS_WITH(explain_trace(steps_of_traces({ddp_step(0, 41), ddp_step(1, 50, 21)})),
                    ContainsSubstring("found 84 bytes in collective 0 of the step, expected 80"));
}

TEST_CASE("an explained trace as a page of text and as JSON") {
  const std::vector<TracedStep> steps = steps_of_traces({ddp_step(0, 41), ddp_step(1, 50)});
  const TraceExplanation why = explain_trace(steps);
  const std::string text = to_terminal(trace_explain_document(steps, why), {.width = 120});
  CHECK_THAT(text, ContainsSubstring("imbalance") && ContainsSubstring("The critical path"));
  const nlohmann::ordered_json json = trace_explain_json(steps, why);
  CHECK(json["step_ms"] == 0.057);
  CHECK(json["ranks"][0]["imbalance_ms"] == 0.009);
  CHECK(json["critical_path"]["segments"].size() == 7);
}
