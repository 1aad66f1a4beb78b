// One function an exercise of the course: the answer to its question, from the table of its scenario.
//
// Adding one: a function in the file of its homework, a line here and one in answers.cpp.
#pragma once

#include <string>
#include <vector>

namespace pdl {

struct ScenarioTable;

// Homework 1.1 to 1.3 (answers_scaling.cpp)
std::vector<std::string> reproducible_benchmark(const ScenarioTable& table);
std::vector<std::string> strong_scaling(const ScenarioTable& table);
std::vector<std::string> communication_computation(const ScenarioTable& table);

// Homework 1.4 and 1.5 (answers_data_parallel.cpp, answers_delay.cpp, answers_batch_size.cpp)
std::vector<std::string> dataparallel_ddp(const ScenarioTable& table);
std::vector<std::string> artificial_delay(const ScenarioTable& table);
std::vector<std::string> batch_size(const ScenarioTable& table);
std::vector<std::string> imbalance(const ScenarioTable& table);

// Homework 2 (answers_accumulation.cpp)
std::vector<std::string> amp_accumulation(const ScenarioTable& table);
std::vector<std::string> three_codes(const ScenarioTable& table);
std::vector<std::string> accumulation_sweep(const ScenarioTable& table);

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
