#include "sim/run/describe_run.hpp"

#include "sim/io/words.hpp"

namespace pdl {
namespace {

std::string text_at(const nlohmann::json& object, const char* key, const std::string& otherwise) {
  if (!object.is_object() || !object.contains(key) || object[key].is_null()) return otherwise;
  return object[key].is_string() ? object[key].get<std::string>() : object[key].dump();
}

/// "1 ms", or "1, 1, 2, 1 ms (by stage)".
std::string describe_costs(const std::vector<double>& by_stage) {
  std::string text;
  for (const double ms : by_stage) text += (text.empty() ? "" : ", ") + to_text(ms);
  return text + (by_stage.size() > 1 ? " ms (by stage)" : " ms");
}

std::string describe_synthetic(const SyntheticCosts& costs) {
  const std::string backward = costs.tw_ms ? "input gradient " + describe_costs(costs.tb_ms) + ", weight gradient " +
                                                 describe_costs(*costs.tw_ms)
                                           : "backward " + describe_costs(costs.tb_ms);
  return "synthetic costs: forward " + describe_costs(costs.tf_ms) + ", " + backward + ", transfer " +
         to_text(costs.tcomm_ms) + " ms, for each stage and micro-batch; nothing else takes time";
}

std::string numbered_range(std::int64_t first, std::int64_t count) {
  return std::to_string(first) + (count > 1 ? "-" + std::to_string(first + count - 1) : "");
}

/// What stands before and behind the blocks has a name of its own; the rest are layers that follow each other.
std::string named_range(const Model& model, std::int64_t first, std::int64_t count) {
  const auto kind_of = [&](std::int64_t layer) { return model.layers[static_cast<std::size_t>(layer)].kind; };
  std::string text;
  for (std::int64_t begin = first; begin < first + count;) {
    std::int64_t end = begin + 1;
    while (end < first + count && kind_of(end) == kind_of(begin)) ++end;
    text += (text.empty() ? "" : ", ") + layer_name(model, begin);
    if (end - begin > 1) text += " to " + layer_name(model, end - 1);
    begin = end;
  }
  return text;
}

}  // namespace

std::string describe_source(const RunResult& run) {
  if (!run.measured && run.spec.synthetic) return describe_synthetic(*run.spec.synthetic);
  const nlohmann::json& environment = run.environment;
  const bool profiled = !run.measured && environment.is_object() && environment.contains("profile");
  const nlohmann::json& source = profiled ? environment["profile"] : environment;
  const std::string host = text_at(source, "count", "?") + " x " + text_at(source, "card", "unknown GPU");
  const std::string date = text_at(source, "date", "at an unknown date");
  if (!profiled) return "measured on " + host + ", " + date;
  const std::string chosen_as = text_at(source, "chosen_as", "");
  return "costs: profile " + text_at(source, "name", "?") + " (" + host + ", measured " + date + ")" +
         (chosen_as.empty() ? "" : "; by default: " + chosen_as + " (choose with --profile)");
}

std::string layer_range(const Model& model, std::int64_t first, std::int64_t count) {
  return has_blocks(model) ? named_range(model, first, count) : numbered_range(first, count);
}

std::vector<std::string> layer_ranges_of_gpus(const RunResult& run) {
  std::vector<std::string> ranges(static_cast<std::size_t>(run.spec.gpus));
  const bool named = has_blocks(run.spec.model);
  for (const Stage& stage : run.stages) {
    std::string& of_gpu = ranges.at(static_cast<std::size_t>(only_worker(stage)));
    of_gpu += (of_gpu.empty() ? "" : ", ") + (named ? named_range(run.spec.model, stage.first_layer, stage.layer_count)
                                                    : numbered_range(stage.first_layer, stage.layer_count));
  }
  return ranges;
}

std::vector<std::string> layers_of_gpus(const RunResult& run) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(run.spec.gpus), 0);
  for (const Stage& stage : run.stages) counts.at(static_cast<std::size_t>(only_worker(stage))) += stage.layer_count;
  std::vector<std::string> texts = layer_ranges_of_gpus(run);
  for (std::size_t g = 0; g < counts.size(); ++g) texts[g] = std::to_string(counts[g]) + " (" + texts[g] + ")";
  return texts;
}

std::string program_name(ProgramOf program) {
  return program == ProgramOf::pytorch ? "PyTorch" : "pdl-run";
}

}  // namespace pdl
