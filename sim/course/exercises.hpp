// The functions that answer the questions of the sheets: one each, in the file of its homework.
//
// Adding one: a function there, a line here and one in questions.cpp.
#pragma once

#include <string>
#include <vector>

#include "sim/course/questions.hpp"

namespace pdl {

// Homework 1.1 (answers_benchmark.cpp)
std::string hw1_1_experiment(const Tables& tables);
std::string hw1_1_why_warm_up(const Tables& tables);
std::string hw1_1_why_seeds(const Tables& tables);

// Homework 1.2 and 1.3 (answers_scaling.cpp)
std::string hw1_2_experiment(const Tables& tables);
std::string hw1_2_is_it_linear(const Tables& tables);
std::string hw1_2_where_it_drops(const Tables& tables);
std::string hw1_2_why(const Tables& tables);
std::string hw1_3_experiment(const Tables& tables);
std::string hw1_3_which_is_more_efficient(const Tables& tables);
std::string hw1_3_why_they_differ(const Tables& tables);
std::string hw1_3_when_communication_limits(const Tables& tables);

// Homework 1.4 (answers_data_parallel.cpp)
std::string hw1_4_experiment(const Tables& tables);
std::string hw1_4_why_gpu_0(const Tables& tables);
std::string hw1_4_why_ddp_scales(const Tables& tables);
std::string hw1_4_when_acceptable(const Tables& tables);

// Homework 1.5 (answers_delay.cpp, answers_batch_size.cpp, answers_straggler.cpp)
std::string hw1_5a_experiment(const Tables& tables);
std::string hw1_5a_speedup(const Tables& tables);
std::string hw1_5a_is_it_linear(const Tables& tables);
std::string hw1_5a_amdahl(const Tables& tables);
std::string hw1_5b_experiment(const Tables& tables);
std::string hw1_5b_do_they_scale_better(const Tables& tables);
std::string hw1_5b_when_it_saturates(const Tables& tables);
std::string hw1_5c_experiment(const Tables& tables);
std::string hw1_5c_what_happens(const Tables& tables);
std::string hw1_5c_synchronisation(const Tables& tables);

// Homework 2 (answers_accumulation.cpp)
std::string hw2_1_code(const Tables& tables);
std::string hw2_2_experiment(const Tables& tables);
std::string hw2_3_time(const Tables& tables);
std::string hw2_3_memory(const Tables& tables);
std::string hw2_3_effective_batch(const Tables& tables);

// Homework 3 (answers_model_parallel.cpp)
std::vector<std::string> current_behaviour(const ScenarioTable& table);
std::vector<std::string> model_size(const ScenarioTable& table);
std::vector<std::string> all_gpus(const ScenarioTable& table);
std::vector<std::string> more_gpus(const ScenarioTable& table);
std::vector<std::string> data_transfer(const ScenarioTable& table);

// Practical 9 and homework 4 (answers_pipeline.cpp)
std::vector<std::string> option_a_naive(const ScenarioTable& table);
std::vector<std::string> option_b_gpipe(const ScenarioTable& table);
std::vector<std::string> option_c(const ScenarioTable& table);
std::vector<std::string> options_by_microbatches(const ScenarioTable& table);
std::vector<std::string> pipeline_schedules(const ScenarioTable& table);

}  // namespace pdl
