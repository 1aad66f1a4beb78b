// Outputs of nccl-tests, tables and JSON reports: what is read becomes samples that can be written, read and fitted.
#include "calibrate/fit/fit.hpp"
#include "calibrate/fit/nccl_tests.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/json_text.hpp"
#include "tests/fuzz/fuzzing.hpp"

using namespace pdl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = text_of(data, size);
  for (const NcclTestsOptions& options : {NcclTestsOptions{}, NcclTestsOptions{"all_reduce", 8, 2}}) {
    const auto tests = unless_refused([&] { return parse_nccl_tests(text, "output.txt", options); });
    if (!tests) continue;
    Samples samples;
    add_nccl_tests(*tests, "output.txt", samples);
    const std::string written = json_text(to_json(samples));
    // Sizes may be too few for a curve, times below a picosecond: refused, but never written in another way.
    const auto again = unless_refused([&] { return samples_from_json(parse_json(written, "s.json"), "s.json"); });
    if (again) require_equal(written, json_text(to_json(*again)), "samples and what they are read back as");
    unless_refused([&] { return fit_profile(samples); });
  }
  return 0;
}
