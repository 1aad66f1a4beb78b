#include "sim/report/answers.hpp"

#include <algorithm>
#include <array>

#include "sim/report/exercises.hpp"

namespace pdl {
namespace {

const std::array kAnswers = {
    Answer{"reproducible_benchmark", reproducible_benchmark},
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
    Answer{"model_size", model_size},
    Answer{"all_gpus", all_gpus},
    Answer{"more_gpus", more_gpus},
    Answer{"data_transfer", data_transfer},
    Answer{"option_a_naive", option_a_naive},
    Answer{"option_b_gpipe", option_b_gpipe},
    Answer{"option_c", option_c},
    Answer{"options_by_microbatches", options_by_microbatches},
    Answer{"pipeline_schedules", pipeline_schedules},
};

}  // namespace

std::span<const Answer> answers() {
  return kAnswers;
}

const Answer* find_answer(const std::string& name) {
  const auto found =
      std::find_if(kAnswers.begin(), kAnswers.end(), [&](const Answer& answer) { return answer.name == name; });
  return found == kAnswers.end() ? nullptr : &*found;
}

}  // namespace pdl
