#include "sim/cost/environment.hpp"

#include "sim/io/json_place.hpp"

namespace pdl {

namespace {

/// Of entries of other forms nothing is known.
std::string other_machine_of_python(const nlohmann::json& own) {
  const auto added = own.find("added");
  if (added == own.end()) return "";
  std::string machine;
  for (const nlohmann::json& entry : *added) {
    if (!entry.is_object() || !entry.contains("python")) continue;
    const auto of_entry = [&](const char* key) { return entry.value(key, own.value(key, nlohmann::json())); };
    const nlohmann::json card = of_entry("card"), count = of_entry("count");
    const bool is_own = card == own.value("card", nlohmann::json()) && count == own.value("count", nlohmann::json());
    machine = is_own ? "" : count.dump() + " x " + (card.is_string() ? card.get<std::string>() : card.dump());
  }
  return machine;
}

}  // namespace

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
  known.other_machine_of_python = other_machine_of_python(environment.json());
  return known;
}

}  // namespace pdl
