#include "sim/course/questions.hpp"

#include <algorithm>
#include <set>

#include "tests/support/exercise_machine.hpp"

using namespace pdl;

namespace {

/// Every question of the sheets, in their order.
const std::vector<std::string> kSheets = {
    "HW1.1 E",   "HW1.1 Q1",  "HW1.1 Q2",  "HW1.2 E",  "HW1.2 Q1",    "HW1.2 Q2",    "HW1.2 Q3",    "HW1.3 E",
    "HW1.3 Q1",  "HW1.3 Q2",  "HW1.3 Q3",  "HW1.4 E",  "HW1.4 Q1",    "HW1.4 Q2",    "HW1.4 Q3",    "HW1.5A E",
    "HW1.5A Q1", "HW1.5A Q2", "HW1.5A Q3", "HW1.5B E", "HW1.5B Q1",   "HW1.5B Q2",   "HW1.5C E",    "HW1.5C Q1",
    "HW1.5C Q2", "HW2.1 C",   "HW2.2 E",   "HW2.3 Q1", "HW2.3 Q2",    "HW2.3 Q3",    "HW3.1 Q1",    "HW3.1 Q2",
    "HW3.2 E",   "HW3.2 Q",   "HW3.3 C",   "HW3.3 Q",  "HW3.4 E",     "HW3.4 Q",     "HW3.5 E",     "HW3.5 Q",
    "HW4.1 Q1",  "HW4.1 Q2",  "HW4.1 Q3",  "HW4.2 C",  "HW4.3 Q1",    "HW4.3 Q2",    "HW4.3 Q3",    "HW4.4 E",
    "HW4.4 Q1",  "HW4.4 Q2",  "HW4.4 Q3",  "P9.1 E",   "P9.1 Q1",     "P9.1 Q2",     "P9.2 E",      "P9.2 Q1",
    "P9.2 Q2",   "P9.2 Q3",   "P9.3 E",    "P9.3 Q1",  "P9.3 Q2",     "P9.3 Q3",     "P9.4 E",      "P9.4 Q1",
    "P9.4 Q2",   "P9.5 Q1",   "P9.5 Q2",   "P9.5 Q3",  "P9 final Q1", "P9 final Q2", "P9 final Q3", "P9 final Q4"};

}  // namespace

TEST_CASE("every question of the sheets is in the table, once, in their order") {
  std::vector<std::string> ids;
  for (const Question& question : questions()) ids.emplace_back(question.id);
  CHECK(ids == kSheets);
}

TEST_CASE("an exercise has the answers to its own questions") {
  const Tables tables =
      ExerciseMachine().tables("strong_scaling", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2]})");
  std::vector<std::string> ids;
  for (const KeyedAnswer& answer : answers_of("strong_scaling", tables)) ids.push_back(answer.id);
  CHECK(ids == std::vector<std::string>{"HW1.2 E", "HW1.2 Q1", "HW1.2 Q2", "HW1.2 Q3"});
  CHECK(answers_of("", tables).empty());
  CHECK(exercises().size() == 20);
  CHECK(exercises().front() == "reproducible_benchmark");
}

TEST_CASE("rows that a user has left without what a question needs say so") {
  const Tables tables = ExerciseMachine().tables("imbalance", R"("strategy": "ddp", "batch": 64)", R"({"gpus": 2})");
  for (const KeyedAnswer& answer : answers_of("imbalance", tables)) {
    INFO(answer.id);
    CHECK(answer.text == "The rows of this table do not say it.");
  }
}
