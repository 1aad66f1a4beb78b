#include "sim/course/answers.hpp"

#include <algorithm>
#include <array>

#include "sim/course/exercises.hpp"
#include "sim/study/scenario_table.hpp"

namespace pdl {
namespace {

const std::array kAnswers = {
    Answer{"reproducible_benchmark", reproducible_benchmark, Compares::nothing},
    Answer{"strong_scaling", strong_scaling},
    Answer{"communication_computation", communication_computation},
    Answer{"dataparallel_ddp", dataparallel_ddp},
    Answer{"artificial_delay", artificial_delay},
    Answer{"batch_size", batch_size},
    Answer{"imbalance", imbalance},
    Answer{"amp_accumulation", amp_accumulation},
    Answer{"three_codes", three_codes},
    Answer{"accumulation_sweep", accumulation_sweep},
    Answer{"current_behaviour", current_behaviour},
    Answer{"model_size", model_size, Compares::all_rows},
    Answer{"all_gpus", all_gpus, Compares::nothing},
    Answer{"more_gpus", more_gpus},
    Answer{"data_transfer", data_transfer, Compares::nothing},
    Answer{"option_a_naive", option_a_naive},
    Answer{"option_b_gpipe", option_b_gpipe},
    Answer{"option_c", option_c},
    Answer{"options_by_microbatches", options_by_microbatches},
    Answer{"pipeline_schedules", pipeline_schedules},
};

bool is_measured(const ScenarioRow& row) {
  return row.measured.has_value();
}

/// The rows that were not measured, and those of the same model (or all): without their measurements.
ScenarioTable predicted_rows(ScenarioTable table, Compares compares) {
  const auto has_part_of = [](const RunSpec& spec, const std::vector<RunSpec>& models) {
    return std::any_of(models.begin(), models.end(), [&](const RunSpec& other) {
      return other.model_name == spec.model_name && other.depth == spec.depth && other.dim == spec.dim;
    });
  };
  std::vector<RunSpec> lacking;
  for (const ScenarioRow& row : table.rows) {
    if (!is_measured(row)) lacking.push_back(row.spec);
  }
  if (compares == Compares::rows_of_a_model) {
    std::erase_if(table.rows, [&](const ScenarioRow& row) { return !has_part_of(row.spec, lacking); });
  }
  for (ScenarioRow& row : table.rows) row.measured.reset();
  return table;
}

bool is_head(const std::string& sentence) {
  return sentence.ends_with(':');
}

/// Without heads that nothing follows.
std::vector<std::string> without_idle_heads(const std::vector<std::string>& sentences) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const bool idle = is_head(sentences[i]) && (i + 1 == sentences.size() || is_head(sentences[i + 1]));
    if (!idle) left.push_back(sentences[i]);
  }
  return left;
}

/// "Not measured: row 4, 8. As predicted, with the rows that they are compared with:"
std::string not_measured_text(const ScenarioTable& table) {
  std::string rows;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (!is_measured(table.rows[r])) rows += (rows.empty() ? "row " : ", ") + std::to_string(r + 1);
  }
  return "Not measured: " + rows + ". As predicted, with the rows that they are compared with:";
}

}  // namespace

std::span<const Answer> answers() {
  return kAnswers;
}

const Answer* find_answer(const std::string& name) {
  const auto found =
      std::find_if(kAnswers.begin(), kAnswers.end(), [&](const Answer& answer) { return answer.name == name; });
  return found == kAnswers.end() ? nullptr : &*found;
}

std::vector<std::string> answer_sentences(const ScenarioTable& table) {
  if (table.scenario.answer.empty()) return {};
  const Answer& answer = *find_answer(table.scenario.answer);
  const auto measured = std::count_if(table.rows.begin(), table.rows.end(), is_measured);
  if (answer.compares == Compares::nothing || measured == 0 || measured == std::ssize(table.rows)) {
    return without_idle_heads(answer.sentences(table));
  }
  std::vector<std::string> sentences = without_idle_heads(answer.sentences(measured_rows(table)));
  std::vector<std::string> others = answer.sentences(predicted_rows(table, answer.compares));
  std::erase_if(others, [&](const std::string& text) {
    return !is_head(text) && std::find(sentences.begin(), sentences.end(), text) != sentences.end();
  });
  others = without_idle_heads(others);
  if (!others.empty()) sentences.push_back(not_measured_text(table));
  sentences.insert(sentences.end(), others.begin(), others.end());
  return sentences;
}

}  // namespace pdl
