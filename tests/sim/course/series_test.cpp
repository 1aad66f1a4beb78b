#include "sim/course/series.hpp"

#include "tests/support/exercise_machine.hpp"

using namespace pdl;

namespace {

const std::string kDdp = "--strategy ddp --batch 64 --gpus ";

/// "1 2 4 measured".
std::string drawn(const Series& series) {
  std::string text;
  for (const ScenarioRow* row : series.rows) text += std::to_string(row->spec.gpus) + " ";
  return text + source_of(series);
}

Tables on_gpus(const ExerciseMachine& machine) {
  return machine.tables("strong_scaling", R"("strategy": "ddp", "batch": 64)", R"({"gpus": [1, 2, 4]})");
}

}  // namespace

TEST_CASE("a series is of what was measured, if two rows were, else all of it as predicted", "[data_parallel]") {
  const ExerciseMachine machine;
  const Tables none = on_gpus(machine);
  CHECK(drawn(series_over(none, {"gpus"}).front()) == "1 2 4 predicted");
  machine.measure(kDdp + "4", 3);
  const Tables one = on_gpus(machine);
  CHECK(drawn(series_over(one, {"gpus"}).front()) == "1 2 4 predicted");
  machine.measure(kDdp + "2", 5);
  const Tables two = on_gpus(machine);
  CHECK(drawn(series_over(two, {"gpus"}).front()) == "2 4 measured");
  machine.measure(kDdp + "1", 9);
  const Tables all = on_gpus(machine), bound = host_bound(all);
  CHECK(drawn(series_over(all, {"gpus"}).front()) == "1 2 4 measured");
  CHECK(drawn(series_over(bound, {"gpus"}).front()) == "1 2 4 measured, host-bound");
}

TEST_CASE("rows that differ in another setting are another series", "[data_parallel]") {
  const Tables tables =
      ExerciseMachine().tables("strong_scaling", R"("strategy": "ddp")", R"({"batch": [64, 128], "gpus": [1, 2]})");
  const std::vector<Series> all = series_over(tables, {"gpus"});
  REQUIRE(all.size() == 2);
  CHECK(all[0].rows.front()->spec.batch == 64);
  CHECK(all[1].rows.front()->spec.batch == 128);
  CHECK(series_over(tables, {"gpus", "batch"}).size() == 1);
  CHECK(series_of_all(tables).rows.size() == 4);
}

TEST_CASE("of a series that two machines have, the one that measured more of it", "[data_parallel]") {
  const ExerciseMachine first, second;
  first.measure(kDdp + "1", 9);
  first.measure(kDdp + "2", 5);
  for (const char* gpus : {"1", "2", "4"}) second.measure(kDdp + gpus, 7);
  Tables tables = {on_gpus(first).front(), on_gpus(second).front()};
  tables[1].of_further_machine = true;
  tables[1].profile_name = "other";
  CHECK(drawn(series_over(tables, {"gpus"}).front()) == "1 2 4 measured on other");
  tables.pop_back();
  CHECK(drawn(series_over(tables, {"gpus"}).front()) == "1 2 measured");
}
