// Samples: what is read is written and read back as the same bytes, and is fitted or refused; the profile that the fit
// gives is read back as well.
#include "calibrate/fit/fit.hpp"
#include "calibrate/fit/samples.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/json_text.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

namespace {

Samples read_samples(const std::string& text) {
  return samples_from_json(parse_json(text, "samples.json"), "samples.json");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto samples = unless_refused([&] { return read_samples(text_of(data, size)); });
  if (!samples) return 0;
  const std::string written = json_text(to_json(*samples));
  require_equal(written, json_text(to_json(read_samples(written))), "samples and what they are read back as");
  const auto profile = unless_refused([&] { return fit_profile(*samples); });
  if (!profile) return 0;
  const std::string fitted = json_text(to_json(*profile));
  require_equal(fitted, json_text(to_json(profile_from_json(parse_json(fitted, "p.json"), "p.json"))),
                "a fitted profile and what it is read back as");
  return 0;
}
