#include "sim/spec/setting_words.hpp"

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

/// Words of the field that a user may well try.
struct NotModelled {
  const char* setting;
  const char* word;
  const char* text;
};
constexpr const char* kTensorParallel = "tensor parallelism is not modelled yet";
constexpr const char* kFullySharded = "fully sharded data parallelism is not modelled yet";
constexpr const char* kSequenceParallel = "sequence and context parallelism are not modelled yet";
constexpr const char* kExpertParallel = "expert parallelism is not modelled yet";
constexpr std::array kNotModelled = {
    NotModelled{"strategy", "tp", kTensorParallel},
    NotModelled{"strategy", "fsdp", kFullySharded},
    NotModelled{"strategy", "fsdp2", kFullySharded},
    NotModelled{"strategy", "hsdp", kFullySharded},
    NotModelled{"strategy", "zero", kFullySharded},
    NotModelled{"strategy", "cp", kSequenceParallel},
    NotModelled{"strategy", "sp", kSequenceParallel},
    NotModelled{"strategy", "ep", kExpertParallel},
    NotModelled{"dtype", "bf16", "bf16 weights are not modelled; amp-bf16 is autocast"},
    NotModelled{"dtype", "fp16", "fp16 weights are not modelled; amp-fp16 is autocast"},
    NotModelled{"dtype", "fp8", "fp8 is not modelled yet"},
    NotModelled{"dtype", "fp64", "fp64 is not modelled yet"},
    NotModelled{"transport", "mpi", "MPI's messages are not modelled yet"},
    NotModelled{"schedule", "dualpipe",
                "DualPipe keeps two copies of the parameters, which is not modelled yet; dualpipe-v keeps one"},
};

}  // namespace

std::string not_modelled(const std::string& setting, const std::string& word) {
  const auto known = std::find_if(kNotModelled.begin(), kNotModelled.end(),
                                  [&](const NotModelled& n) { return setting == n.setting && word == n.word; });
  return known == kNotModelled.end() ? "" : known->text;
}

std::string to_string(Strategy value) {
  return setting_words::text_of(setting_words::kStrategies, value);
}
std::string to_string(Dtype value) {
  return setting_words::text_of(setting_words::kDtypes, value);
}
std::string to_string(Optimizer value) {
  return setting_words::text_of(setting_words::kOptimizers, value);
}
std::string to_string(Transport value) {
  return setting_words::text_of(setting_words::kTransports, value);
}
std::string to_string(PointToPoint value) {
  return setting_words::text_of(setting_words::kPointToPoint, value);
}
std::string to_string(Workers value) {
  return setting_words::text_of(setting_words::kWorkers, value);
}
std::string to_string(ProgramOf value) {
  return setting_words::text_of(setting_words::kProgramsOf, value);
}

namespace setting_words {

void refuse_word(const SettingValue& setting, std::span<const std::string> known, std::string_view meant) {
  const std::string missing = not_modelled(setting.name, setting.value);
  const std::string nearest = meant.empty() ? nearest_word(setting.value, known) : std::string(meant);
  const std::string hint = !missing.empty() ? missing : !nearest.empty() ? "did you mean " + nearest + "?" : "";
  throw InputError(setting.place, setting.value.empty() ? "nothing" : setting.value,
                   list_words(known) + (hint.empty() ? "" : " (" + hint + ")"));
}

}  // namespace setting_words
}  // namespace pdl
