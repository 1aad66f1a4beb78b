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
std::string hw3_1_layers(const Tables& tables);
std::string hw3_1_where_data_moves(const Tables& tables);
std::string hw3_2_experiment(const Tables& tables);
std::string hw3_2_is_more_faster(const Tables& tables);
std::string hw3_3_code(const Tables& tables);
std::string hw3_3_rule(const Tables& tables);
std::string hw3_4_experiment(const Tables& tables);
std::string hw3_4_are_all_used(const Tables& tables);
std::string hw3_5_experiment(const Tables& tables);
std::string hw3_5_growth(const Tables& tables);

// Homework 4.1 (answers_pipeline.cpp)
std::string hw4_1_options(const Tables& tables);
std::string hw4_1_bubble(const Tables& tables);
std::string hw4_1_why_1f1b(const Tables& tables);

// Homework 4.2 to 4.4, practical 9.3 and 9.5 (answers_option_c.cpp)
std::string hw4_2_code(const Tables& tables);
std::string hw4_3_why_delayed(const Tables& tables);
std::string hw4_3_without_condition(const Tables& tables);
std::string hw4_3_overlap(const Tables& tables);
std::string hw4_4_experiment(const Tables& tables);
std::string hw4_4_sequence(const Tables& tables);
std::string hw4_4_first_overlap(const Tables& tables);
std::string hw4_4_why_more_efficient(const Tables& tables);
std::string p9_3_experiment(const Tables& tables);
std::string p9_3_when_backward_starts(const Tables& tables);
std::string p9_3_what_differs(const Tables& tables);
std::string p9_3_why_efficient(const Tables& tables);
std::string p9_5_why_delayed(const Tables& tables);
std::string p9_5_without_condition(const Tables& tables);
std::string p9_5_overlap(const Tables& tables);

// Practical 9.1, 9.2, 9.4 and its final questions (answers_options.cpp)
std::string p9_1_experiment(const Tables& tables);
std::string p9_1_in_parallel(const Tables& tables);
std::string p9_1_where_idle(const Tables& tables);
std::string p9_2_experiment(const Tables& tables);
std::string p9_2_what_changed(const Tables& tables);
std::string p9_2_why_separated(const Tables& tables);
std::string p9_2_are_bubbles_removed(const Tables& tables);
std::string p9_4_experiment(const Tables& tables);
std::string p9_4_do_more_help(const Tables& tables);
std::string p9_4_which_benefits(const Tables& tables);
std::string p9_final_why_no_pipeline(const Tables& tables);
std::string p9_final_limitation(const Tables& tables);
std::string p9_final_what_reduces_bubbles(const Tables& tables);
std::string p9_final_which_for_large(const Tables& tables);

}  // namespace pdl
