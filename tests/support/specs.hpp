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

inline RunSpec spec(const std::string& flags) {
  std::istringstream words(flags);
  std::vector<SettingValue> values;
  for (std::string flag, value; words >> flag >> value;) values.push_back({flag.substr(2), value, flag});
  return parse_run_spec(values);
}

/// Start and end of every task of a spec with synthetic costs.
struct Simulated {
  Plan plan;
  std::vector<TaskTimes> times;
  Timeline timeline;
};

inline Simulated simulate(const std::string& flags) {
  Simulated s{make_plan(spec(flags)), {}, {}};
  s.times = run(s.plan.graph, price_synthetic(s.plan, *s.plan.spec.synthetic));
  s.timeline = make_timeline(s.plan.graph, static_cast<std::int32_t>(s.plan.stages.size()), s.times);
  return s;
}

}  // namespace pdl
