#include "sim/spec/schedule.hpp"

#include <algorithm>
#include <array>

#include "sim/spec/schedules/microbatch_groups.hpp"

namespace pdl {
namespace {

std::optional<ShapeRefusal> equal_groups(const ScheduleShape& shape) {
  const std::int32_t groups = microbatch_groups(shape);
  if (shape.microbatches % groups == 0) return std::nullopt;
  return ShapeRefusal{std::to_string(shape.microbatches) + " micro-batches on " + std::to_string(shape.workers) +
                          " GPUs, " + std::to_string(groups) + " groups",
                      "a multiple of the number of groups, which is M / P rounded down (equal groups go through a "
                      "chunk before the next chunk)"};
}

/// Weight gradients that come late keep a chunk's buffers. With groups of two more than the workers, a worker that
/// sends ahead waits for one of them, and the worker that is to free it waits for the sender (a buffer a live
/// micro-batch: sim/plan/plan.hpp; found by pdl-run for 3 to 8 workers, 2 to 4 chunks).
std::optional<ShapeRefusal> groups_that_buffers_allow(const ScheduleShape& shape) {
  if (std::optional<ShapeRefusal> refusal = equal_groups(shape)) return refusal;
  const std::int32_t group = microbatches_of_a_group(shape);
  if (shape.chunks == 1 || group <= shape.workers + 1) return std::nullopt;
  return ShapeRefusal{
      std::to_string(shape.microbatches) + " micro-batches on " + std::to_string(shape.workers) + " GPUs, groups of " +
          std::to_string(group),
      "groups of at most one micro-batch more than GPUs (larger ones would wait for their own buffers)"};
}

std::optional<ShapeRefusal> as_many_as_stages(const ScheduleShape& shape) {
  if (shape.microbatches >= shape.stages()) return std::nullopt;
  return ShapeRefusal{
      std::to_string(shape.microbatches) + " micro-batches for " + std::to_string(shape.stages()) + " stages",
      "at least as many micro-batches as stages"};
}

constexpr std::int32_t kManyChunks = 1024;

constexpr std::array kSchedules = {
    Schedule{.name = "naive",
             .source = "model parallelism without pipelining (practical 9, option A)",
             .summary = "each micro-batch forward, then backward, before the next one starts",
             .same_on_every_worker = true,
             .bubble = "M (P-1) (F+B+W)",
             .memory = "1",
             .order = naive_order},
    Schedule{.name = "gpipe",
             .source = "Huang et al., GPipe, NeurIPS 2019, arXiv:1811.06965",
             .summary = "all forwards, then all backwards",
             .pytorch_class = "GPipe",
             .same_on_every_worker = true,
             .bubble = "(P-1) (F+B+W)",
             .memory = "M",
             .order = gpipe_order},
    Schedule{.name = "1f1b",
             .source = "Narayanan et al., PipeDream, SOSP 2019; PipeDream-Flush, arXiv:2006.09503",
             .summary = "P-1-s warm-up forwards on stage s, then one forward and one backward in turn",
             .pytorch_class = "1F1B",
             .bubble = "(P-1) (F+B+W)",
             .memory = "min(M, P)",
             .order = one_f_one_b_order},
    Schedule{.name = "option-c",
             .source = "the course, practical 9, option C",
             .summary = "F0, then F_i B_(i-1), then the last B: the same on every GPU",
             .same_on_every_worker = true,
             .bubble = "max(M-1, 1) (P-1) (F+B+W)",
             .memory = "min(M, 2)",
             .order = option_c_order},
    Schedule{.name = "interleaved",
             .source = "Narayanan et al., Megatron-LM, SC21, arXiv:2104.04473",
             .summary = "1F1B over V chunks a GPU, groups of G micro-batches (P or somewhat more) through each in turn",
             .pytorch_class = "Interleaved1F1B",
             .least_chunks = 1,
             .most_chunks = kManyChunks,
             .default_chunks = 2,
             .bubble = "(P-1) (F+B+W) / V, M >= P",
             .memory = "min(M, G + (2P-1-G)/V)",
             .refuses = equal_groups,
             .order = interleaved_order},
    Schedule{
        .name = "interleaved-zb",
        .source =
            "Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241 (ZB1P); PyTorch's InterleavedZeroBubble",
        .summary = "interleaved, backwards split, weight gradients moved into the bubble",
        .pytorch_class = "InterleavedZeroBubble",
        .least_chunks = 1,
        .most_chunks = kManyChunks,
        .default_chunks = 2,
        .splits_backward = true,
        .bubble = "(P-1) (F+B-W) / V, M >= P, W <= F, B",
        .memory = "min(M, G + (P-G)/V)",
        .refuses = groups_that_buffers_allow,
        .order = interleaved_zero_bubble_order},
    Schedule{.name = "looped-bfs",
             .source = "Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023, arXiv:2211.05953",
             .summary = "all micro-batches through a chunk before the next chunk, forward and backward",
             .pytorch_class = "LoopedBFS",
             .least_chunks = 1,
             .most_chunks = kManyChunks,
             .default_chunks = 2,
             .bubble = "(P-1) (F+B+W) / V, M >= P",
             .memory = "M",
             .order = looped_bfs_order},
    Schedule{.name = "zb-h1",
             .source = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, arXiv:2401.10241, figure 2",
             .summary = "1F1B with split backwards; stage s starts its weight gradients s backwards late",
             .splits_backward = true,
             .bubble = "(P-1) (F+B-W), M >= P, W <= F, B",
             .memory = "min(M, P)",
             .order = zb_h1_order},
    Schedule{.name = "zb-h2",
             .source = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, arXiv:2401.10241, figure 3",
             .summary = "2(P-1-s) warm-up forwards on stage s, weight gradients 2s late, no barrier at the optimizer",
             .splits_backward = true,
             .steps_overlap = true,
             .bubble = "(P-1) (F+B-2W), M >= 2P-1, W <= F, B",
             .memory = "min(M, 2P-1)",
             .order = zb_h2_order},
    Schedule{.name = "zb-v",
             .source = "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024, arXiv:2405.15362; "
                       "arXiv:2401.10241, section 6",
             .summary = "two chunks a GPU, down and up again; split backwards fill the bubble",
             .pytorch_class = "ZBVZeroBubble",
             .least_chunks = 2,
             .most_chunks = 2,
             .default_chunks = 2,
             .placement = Placement::v,
             .splits_backward = true,
             .bubble = "(P-1) F / 2, the fill, if F = B = W, M >= 2P-1",
             .memory = "min(M, P)",
             .order = zb_v_order},
    Schedule{.name = "dualpipe-v",
             .source = "DeepSeek-AI, DualPipe and DualPipeV, arXiv:2412.19437",
             .summary = "two chunks a GPU, down and up again; a forward of one chunk with a backward of the other",
             .pytorch_class = "DualPipeV",
             .least_chunks = 2,
             .most_chunks = 2,
             .default_chunks = 2,
             .placement = Placement::v,
             .splits_backward = true,
             .bubble = "(P-1) F / 2 if F = B = W; (P-1) (F+2B-W) / 2 with pairs as one operation, B <= F",
             .memory = "P + 1/2",
             .refuses = as_many_as_stages,
             .order = dualpipe_v_order},
};

/// In lower case, without the characters between words: "zbvzerobubble" of "ZBV-ZeroBubble".
std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      kept += static_cast<char>(c - 'A' + 'a');
    } else if (c != '-' && c != '_') {
      kept += c;
    }
  }
  return kept;
}

}  // namespace

std::int32_t worker_of_stage(Placement placement, std::int32_t workers, std::int32_t stage) {
  const std::int32_t place = stage % workers;
  const bool upwards = placement == Placement::v && (stage / workers) % 2 == 1;
  return upwards ? workers - 1 - place : place;
}

std::int32_t stage_of_chunk(Placement placement, std::int32_t workers, std::int32_t worker, std::int32_t chunk) {
  const bool upwards = placement == Placement::v && chunk % 2 == 1;
  return chunk * workers + (upwards ? workers - 1 - worker : worker);
}

std::span<const Schedule> schedules() {
  return kSchedules;
}

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule& schedule : kSchedules) {
    if (schedule.name == name) return &schedule;
  }
  return nullptr;
}

const Schedule* schedule_meant_by(std::string_view spelling) {
  std::string letters = letters_and_digits(spelling);
  constexpr std::string_view kPrefix = "schedule";
  if (letters.starts_with(kPrefix)) letters.erase(0, kPrefix.size());
  for (const Schedule& schedule : kSchedules) {
    const bool is_class = !schedule.pytorch_class.empty() && letters_and_digits(schedule.pytorch_class) == letters;
    if (is_class || letters_and_digits(schedule.name) == letters) return &schedule;
  }
  return nullptr;
}

const Schedule* schedule_of_pytorch(std::string_view spelling) {
  const Schedule* meant = schedule_meant_by(spelling);
  return meant && !meant->pytorch_class.empty() ? meant : nullptr;
}

PipelineOrder make_order(const Schedule& schedule, const ScheduleShape& shape) {
  PipelineOrder order{schedule.placement, shape, {}};
  for (std::int32_t worker = 0; worker < shape.workers; ++worker)
    order.workers.push_back(schedule.order(shape, worker));
  return order;
}

std::string action_name(OperationKind kind, std::int32_t stage, std::int32_t microbatch) {
  const auto type =
      std::find_if(kActionTypes.begin(), kActionTypes.end(), [&](const ActionType& t) { return t.kind == kind; });
  return std::to_string(stage) + std::string(type->name) + std::to_string(microbatch);
}

}  // namespace pdl
