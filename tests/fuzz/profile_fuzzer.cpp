// Profiles: what is read is written and read back as the same bytes, and a small run is predicted from it or refused.
#include "sim/cost/cost_profile.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/json_text.hpp"
#include "sim/predict/predict.hpp"
#include "tests/fuzz/fuzzing.hpp"
#include "tests/fuzz/prediction_invariants.hpp"
#include "tests/support/specs.hpp"

using namespace pdl;

namespace {

CostProfile read_profile(const std::string& text) {
  const CostProfile profile = profile_from_text(text, "profile.json");
  if (profile.products) static_cast<void>(*profile.products);  // read when asked for
  return profile;
}

/// Small plans that the profiles among the seeds have costs for: what a profile says that no plan can have must be
/// refused, not predicted.
void predict_from(const CostProfile& profile) {
  for (const char* flags : {"--gpus 2 --depth 4 --dim 64 --batch 64 --microbatches 2 --schedule 1f1b",
                            "--gpus 2 --depth 2 --dim 64 --batch 64 --strategy ddp",
                            "--gpus 1 --depth 2 --dim 1024 --batch 96 --optimizer adam",
                            "--gpus 2 --depth 2 --dim 64 --batch 100 --strategy dp"}) {
    const auto run = unless_refused([&] { return predict(spec(flags), &profile); });
    if (run) check_prediction(*run);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto profile = unless_refused([&] { return read_profile(text_of(data, size)); });
  if (!profile) return 0;
  const std::string written = json_text(to_json(*profile));
  require_equal(written, json_text(to_json(read_profile(written))), "a profile and what it is read back as");
  predict_from(*profile);
  return 0;
}
