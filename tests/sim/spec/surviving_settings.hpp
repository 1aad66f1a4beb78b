// Whether a spec is the same after it was written in its own words and read again.
//
//   check_that_settings_survive("--gpus 2 --optimizer adam --dtype tf32")
//
// Every word of the flags must be among the settings with its value, so these are written as to_settings writes them
// ("0.5", not ".5"), and the specs must be equal field by field.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sim/spec/run_spec.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/specs.hpp"

namespace pdl {

inline std::map<std::string, std::string> settings_of(const RunSpec& spec) {
  std::map<std::string, std::string> settings;
  for (const SettingValue& setting : to_settings(spec)) settings[setting.name] = setting.value;
  return settings;
}

inline std::map<std::string, std::string> words_of(const std::string& flags) {
  std::map<std::string, std::string> words;
  for (const SettingValue& setting : setting_values(flags)) words[setting.name] = setting.value;
  return words;
}

inline void check_equal(const RunSpec& a, const RunSpec& b) {
  CHECK(a.model_name == b.model_name);
  CHECK(a.depth == b.depth);
  CHECK(a.dim == b.dim);
  REQUIRE(a.model.layers.size() == b.model.layers.size());
  for (std::size_t l = 0; l < a.model.layers.size(); ++l) {
    CHECK(a.model.layers[l] == b.model.layers[l]);
  }
  CHECK(a.batch == b.batch);
  CHECK(a.microbatches == b.microbatches);
  CHECK(a.gpus == b.gpus);
  CHECK(a.dp == b.dp);
  CHECK(a.strategy == b.strategy);
  CHECK(a.schedule == b.schedule);
  CHECK(a.chunks == b.chunks);
  CHECK(a.recompute == b.recompute);
  CHECK(steps_overlap(a) == steps_overlap(b));
  CHECK(a.dtype == b.dtype);
  CHECK(a.optimizer == b.optimizer);
  CHECK(a.transport == b.transport);
  CHECK(a.p2p == b.p2p);
  CHECK(a.workers == b.workers);
  CHECK(a.accum == b.accum);
  CHECK(a.no_sync == b.no_sync);
  CHECK(a.bucket_bytes == b.bucket_bytes);
  CHECK(a.first_bucket_bytes == b.first_bucket_bytes);
  CHECK(a.bucket_views == b.bucket_views);
  CHECK(a.scale_grads == b.scale_grads);
  CHECK(a.delay_ms == b.delay_ms);
  REQUIRE(a.straggler.has_value() == b.straggler.has_value());
  if (a.straggler) {
    CHECK(a.straggler->rank == b.straggler->rank);
    CHECK(a.straggler->ms == b.straggler->ms);
  }
  CHECK(a.loss_scale == b.loss_scale);
  CHECK(a.hosts == b.hosts);
  CHECK(a.network_gb_per_s == b.network_gb_per_s);
  CHECK(a.network_latency_us == b.network_latency_us);
  REQUIRE(a.synthetic.has_value() == b.synthetic.has_value());
  if (!a.synthetic) return;
  CHECK(a.synthetic->tf_ms == b.synthetic->tf_ms);
  CHECK(a.synthetic->tb_ms == b.synthetic->tb_ms);
  CHECK(a.synthetic->tw_ms == b.synthetic->tw_ms);
  CHECK(a.synthetic->tcomm_ms == b.synthetic->tcomm_ms);
}

inline void check_that_settings_survive(const std::string& flags) {
  INFO(flags);
  const RunSpec once = spec(flags);
  const std::map<std::string, std::string> written = settings_of(once);
  for (const auto& [name, value] : words_of(flags)) {
    CAPTURE(name);
    CHECK((written.contains(name) ? written.at(name) : "not written") == value);
  }
  const RunSpec twice = parse_run_spec(to_settings(once));
  check_equal(once, twice);
  CHECK(settings_of(twice) == written);
  CHECK(describe(once) == describe(twice));
}

}  // namespace pdl
