#include "sim/course/questions.hpp"

#include <algorithm>
#include <array>

#include "sim/course/exercises.hpp"

namespace pdl {
namespace {

const std::array kQuestions = {
    // Homework 1
    Question{"HW1.1 E", "reproducible_benchmark",
             "With fixed seeds: each step's time on rank 0, at least 30 of them, the first 5 left out?",
             hw1_1_experiment},
    Question{"HW1.1 Q1", "reproducible_benchmark", "Why warm up before measuring?", hw1_1_why_warm_up},
    Question{"HW1.1 Q2", "reproducible_benchmark", "Why control randomness?", hw1_1_why_seeds},
    Question{"HW1.2 E", "strong_scaling", "Step time, speed-up and efficiency on 1, 2 and 4 GPUs?", hw1_2_experiment},
    Question{"HW1.2 Q1", "strong_scaling", "Is the speed-up linear?", hw1_2_is_it_linear},
    Question{"HW1.2 Q2", "strong_scaling", "Where does the efficiency drop?", hw1_2_where_it_drops},
    Question{"HW1.2 Q3", "strong_scaling", "What explains it?", hw1_2_why},
    Question{"HW1.3 E", "communication_computation", "Small and large model on 1, 2 and 4 GPUs?", hw1_3_experiment},
    Question{"HW1.3 Q1", "communication_computation", "In which case is DDP more efficient?",
             hw1_3_which_is_more_efficient},
    Question{"HW1.3 Q2", "communication_computation", "Why do the cases differ?", hw1_3_why_they_differ},
    Question{"HW1.3 Q3", "communication_computation", "When does communication become the bottleneck?",
             hw1_3_when_communication_limits},
    Question{"HW1.4 E", "dataparallel_ddp", "DataParallel and DDP: utilisation, variance of the step time, memory?",
             hw1_4_experiment},
    Question{"HW1.4 Q1", "dataparallel_ddp", "Why is GPU 0 the bottleneck of DataParallel?", hw1_4_why_gpu_0},
    Question{"HW1.4 Q2", "dataparallel_ddp", "Why does the architecture of DDP scale better?", hw1_4_why_ddp_scales},
    Question{"HW1.4 Q3", "dataparallel_ddp", "When is DataParallel still acceptable?", hw1_4_when_acceptable},
    Question{"HW1.5A E", "artificial_delay", "A delay before the backward: what does it do to scaling?",
             hw1_5a_experiment},
    Question{"HW1.5A Q1", "artificial_delay", "What happens to the speed-up?", hw1_5a_speedup},
    Question{"HW1.5A Q2", "artificial_delay", "Does it degrade linearly in the delay?", hw1_5a_is_it_linear},
    Question{"HW1.5A Q3", "artificial_delay", "How does it relate to Amdahl's law?", hw1_5a_amdahl},
    Question{"HW1.5B E", "batch_size", "4 GPUs, batch 32 to 256: step time and speed-up?", hw1_5b_experiment},
    Question{"HW1.5B Q1", "batch_size", "Do larger batches scale better?", hw1_5b_do_they_scale_better},
    Question{"HW1.5B Q2", "batch_size", "When does scaling saturate?", hw1_5b_when_it_saturates},
    Question{"HW1.5C E", "imbalance", "Rank 0 sleeps 20 ms in every step: step time?", hw1_5c_experiment},
    Question{"HW1.5C Q1", "imbalance", "What happens to the step time of all GPUs?", hw1_5c_what_happens},
    Question{"HW1.5C Q2", "imbalance", "What does that say about synchronisation?", hw1_5c_synchronisation},
    // Homework 2
    Question{"HW2.1 C", "amp_accumulation", "Gradient accumulation with mixed precision inside it?", hw2_1_code},
    Question{"HW2.2 E", "three_codes",
             "Code 1 (DDP + accumulation), code 2 (DDP + AMP), code 3 (both): time, memory, stability?",
             hw2_2_experiment},
    Question{"HW2.3 Q1", "accumulation_sweep",
             "Time: what do the synchronisation of gradients and the precision change?", hw2_3_time},
    Question{"HW2.3 Q2", "accumulation_sweep", "Memory: what do accumulation and precision change?", hw2_3_memory},
    Question{"HW2.3 Q3", "accumulation_sweep",
             "What is the effective batch size, and why is the loss divided by ACCUM_STEPS?", hw2_3_effective_batch},
    // Homework 3
    Question{"HW3.1 Q1", "current_behaviour", "Which layers are on GPU 0, which on GPU 1?", hw3_1_layers},
    Question{"HW3.1 Q2", "current_behaviour", "Where in forward() does the data move?", hw3_1_where_data_moves},
    Question{"HW3.2 E", "model_size", "Step time with 6, 12 and 24 layers?", hw3_2_experiment},
    Question{"HW3.2 Q", "model_size", "Do more layers make it faster, and why not?", hw3_2_is_more_faster},
    Question{"HW3.3 C", "all_gpus", "Layers spread over all GPUs that are there?", hw3_3_code},
    Question{"HW3.3 Q", "all_gpus", "Which rule maps the index of a layer to its GPU?", hw3_3_rule},
    Question{"HW3.4 E", "more_gpus", "20 layers on 2 and on 5 GPUs: step time and memory?", hw3_4_experiment},
    Question{"HW3.4 Q", "more_gpus", "Are all GPUs utilised, and does it get faster?", hw3_4_are_all_used},
    Question{"HW3.5 E", "data_transfer",
             "How often is .to(layer_device) called in a forward pass, and how often does it move data?",
             hw3_5_experiment},
    Question{"HW3.5 Q", "data_transfer", "How does communication grow with the number of GPUs?", hw3_5_growth},
    // Homework 4
    Question{"HW4.1 Q1", "pipeline_schedules", "Options A, B and C: order of execution, GPU utilisation, efficiency?",
             hw4_1_options},
    Question{"HW4.1 Q2", "pipeline_schedules", "What is a pipeline bubble, when does it occur, what does it cost?",
             hw4_1_bubble},
    Question{"HW4.1 Q3", "pipeline_schedules", "Why is 1F1B held to be more efficient than GPipe?", hw4_1_why_1f1b},
    Question{"HW4.2 C", "option_c", "Option C completed: target to the device, forward, early and final backward?",
             hw4_2_code},
    Question{"HW4.3 Q1", "option_c", "Why the backward of micro-batch i - 1 and not of i?", hw4_3_why_delayed},
    Question{"HW4.3 Q2", "option_c", "What happens without the condition i > 0?", hw4_3_without_condition},
    Question{"HW4.3 Q3", "option_c", "What happens to overlap and efficiency?", hw4_3_overlap},
    Question{"HW4.4 E", "option_c", "NUM_MICROBATCHES 4: the sequence of forwards and backwards?", hw4_4_experiment},
    Question{"HW4.4 Q1", "option_c", "Which sequence is executed?", hw4_4_sequence},
    Question{"HW4.4 Q2", "option_c", "When does a backward first overlap a forward?", hw4_4_first_overlap},
    Question{"HW4.4 Q3", "option_c", "Why would that be more efficient than GPipe?", hw4_4_why_more_efficient},
    // Practical 9
    Question{"P9.1 E", "option_a_naive", "Option A: step time and utilisation?", p9_1_experiment},
    Question{"P9.1 Q1", "option_a_naive", "Do the GPUs work in parallel?", p9_1_in_parallel},
    Question{"P9.1 Q2", "option_a_naive", "Where is idle time expected: before, between or after?", p9_1_where_idle},
    Question{"P9.2 E", "option_b_gpipe", "Option B against A: time and loss?", p9_2_experiment},
    Question{"P9.2 Q1", "option_b_gpipe", "What changed in the order of execution?", p9_2_what_changed},
    Question{"P9.2 Q2", "option_b_gpipe", "Why are forward and backward separated?", p9_2_why_separated},
    Question{"P9.2 Q3", "option_b_gpipe", "Are bubbles removed?", p9_2_are_bubbles_removed},
    Question{"P9.3 E", "option_c", "Option C against A and B: time and loss?", p9_3_experiment},
    Question{"P9.3 Q1", "option_c", "When does a backward start?", p9_3_when_backward_starts},
    Question{"P9.3 Q2", "option_c", "What differs from GPipe?", p9_3_what_differs},
    Question{"P9.3 Q3", "option_c", "Why is it more efficient, or why not?", p9_3_why_efficient},
    Question{"P9.4 E", "options_by_microbatches", "Options A, B and C with 2, 4 and 8 micro-batches?", p9_4_experiment},
    Question{"P9.4 Q1", "options_by_microbatches", "Do more micro-batches always help?", p9_4_do_more_help},
    Question{"P9.4 Q2", "options_by_microbatches", "Which option benefits most?", p9_4_which_benefits},
    Question{"P9.5 Q1", "option_c", "Why i - 1 and not i?", p9_5_why_delayed},
    Question{"P9.5 Q2", "option_c", "What happens without i > 0?", p9_5_without_condition},
    Question{"P9.5 Q3", "option_c", "What happens to overlap and efficiency?", p9_5_overlap},
    Question{"P9 final Q1", "options_by_microbatches", "Why is option A no pipeline parallelism?",
             p9_final_why_no_pipeline},
    Question{"P9 final Q2", "options_by_microbatches", "What is the main limitation of GPipe?", p9_final_limitation},
    Question{"P9 final Q3", "options_by_microbatches", "How does 1F1B reduce bubbles, and what really does?",
             p9_final_what_reduces_bubbles},
    Question{"P9 final Q4", "options_by_microbatches", "Which option for large systems?", p9_final_which_for_large},
};

}  // namespace

std::span<const Question> questions() {
  return kQuestions;
}

std::vector<std::string> exercises() {
  std::vector<std::string> names;
  for (const Question& question : kQuestions) {
    if (std::find(names.begin(), names.end(), question.exercise) == names.end()) names.emplace_back(question.exercise);
  }
  return names;
}

std::vector<KeyedAnswer> answers_of(const std::string& exercise, const Tables& tables) {
  std::vector<KeyedAnswer> answers;
  for (const Question& question : kQuestions) {
    if (exercise != question.exercise || !question.answer) continue;
    const std::string text = question.answer(tables);
    answers.push_back({question.id, question.wording, text.empty() ? "The rows of this table do not say it." : text});
  }
  return answers;
}

}  // namespace pdl
