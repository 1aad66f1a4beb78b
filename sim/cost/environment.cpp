#include "sim/cost/environment.hpp"

#include "sim/io/json_place.hpp"

namespace pdl {

Environment read_environment(const JsonPlace& environment) {
  environment.object();
  Environment known;
  if (environment.has("device")) {
    known.device = environment.at("device").text();
    if (known.device != "cuda" && known.device != "cpu") environment.at("device").refuse("\"cuda\" or \"cpu\"");
  }
  if (environment.has("card")) known.card = environment.at("card").text();
  if (environment.has("date")) known.date = environment.at("date").text();
  if (environment.has("count")) known.count = environment.at("count").whole(1, 1000000);
  if (environment.has("multiprocessors")) known.multiprocessors = environment.at("multiprocessors").whole(1, 1000000);
  if (environment.has("memory_capacity_bytes")) {
    known.memory_capacity_bytes = environment.at("memory_capacity_bytes").whole(1, std::int64_t{1} << 60);
  }
  if (environment.has("peak_flops_per_s")) {
    const JsonPlace peaks = environment.at("peak_flops_per_s");
    peaks.object();
    for (const auto& [word, value] : peaks.json().items()) {
      const double peak = peaks.at(word).number(1, 1e24);
      if (const std::optional<Dtype> dtype = find_dtype(word)) known.peak_flops_per_s[*dtype] = peak;
    }
  }
  return known;
}

}  // namespace pdl
