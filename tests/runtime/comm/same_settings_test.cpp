#include "runtime/comm/same_settings.hpp"

#include <string>
#include <vector>

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"

using namespace pdl;

namespace {

using Settings = std::vector<SettingValue>;

std::string refusal(const std::vector<Settings>& of_workers) {
  try {
    refuse_different_settings(of_workers);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Settings that are not the same in all workers are named with their values and workers",
          "[runtime][data_parallel]") {
  const Settings ten = {{"seed", "0", ""}, {"batch", "10", ""}}, fourteen = {{"seed", "0", ""}, {"batch", "14", ""}};
  CHECK(refusal({ten, ten, ten}).empty());
  CHECK(refusal({ten}).empty());
  CHECK(refusal({ten, fourteen}) ==
        "--batch: found 10 in worker 0 and 14 in worker 1, expected the same in all workers");
  CHECK(refusal({ten, fourteen, ten, {{"seed", "0", ""}, {"batch", "3", ""}}}) ==
        "--batch: found 10 in workers 0, 2 and 14 in worker 1 and 3 in worker 3, expected the same in all workers");
  const Settings delayed = {{"seed", "0", ""}, {"batch", "10", ""}, {"delay-ms", "5", ""}};
  CHECK(refusal({delayed, ten}) ==
        "--delay-ms: found 5 in worker 0 and its default in worker 1, expected the same in all workers");
  CHECK(refusal({ten, delayed}) ==
        "--delay-ms: found its default in worker 0 and 5 in worker 1, expected the same in all workers");
}
