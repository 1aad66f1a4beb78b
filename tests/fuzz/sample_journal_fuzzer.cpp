// The journal of an interrupted calibration: what is complete in it is taken, and taken again by the next resumption.
#include "calibrate/fit/sample_journal.hpp"
#include "calibrate/fit/samples.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

namespace {

/// Without the dates of resumptions.
nlohmann::json resumed_samples(const std::string& path) {
  const nlohmann::json environment = {{"card", "Test GPU"}, {"count", 2}, {"device", "cuda"}};
  const SampleJournal journal(path, environment, {{"gpus", 2}}, SampleJournal::Start::resume);
  Samples samples = journal.samples();
  samples.environment.erase("resumed");
  return to_json(samples);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = as_file("samples.json.partial", text_of(data, size));
  const auto first = unless_refused([&] { return resumed_samples(path); });
  if (!first) return 0;
  require(resumed_samples(path) == *first, "a journal is taken twice as the same samples");
  return 0;
}
