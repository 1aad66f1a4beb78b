// Specs from one line of flags, as on the command line: spec("--gpus 4 --microbatches 8 --tf 1 --tb 2").
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "sim/cost/price.hpp"
#include "sim/engine/run.hpp"
#include "sim/plan/plan.hpp"
#include "sim/spec/run_spec.hpp"

namespace pdl {

/// A value goes on to the next "--": the path of a file may have spaces in it.
inline std::vector<SettingValue> setting_values(const std::string& flags) {
  std::istringstream words(flags);
  std::vector<SettingValue> values;
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      values.push_back({word.substr(2), "", word});
    } else {
      std::string& value = values.at(values.size() - 1).value;
      value += (value.empty() ? "" : " ") + word;
    }
  }
  return values;
}

inline RunSpec spec(const std::string& flags) {
  return parse_run_spec(setting_values(flags));
}

/// Start and end of every task of a spec with synthetic costs.
struct Simulated {
  Plan plan;
  std::vector<TaskTimes> times;
  Timeline timeline;
};

inline Simulated simulate(const std::string& flags) {
  Simulated s{make_plan(spec(flags)), {}, {}};
  s.times = run_graph(s.plan.graph, price_synthetic(s.plan, *s.plan.spec.synthetic));
  s.timeline = make_timeline(s.plan.graph, static_cast<std::int32_t>(s.plan.stages.size()), s.times);
  return s;
}

}  // namespace pdl
