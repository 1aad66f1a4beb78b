// Outputs of nccl-tests among other samples: what is kept of them in the environment, and whether they agree.
#include <algorithm>
#include <map>

#include "calibrate/fit/nccl_tests.hpp"
#include "sim/cost/environment.hpp"
#include "sim/cost/time_unit.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/printable_text.hpp"
#include "sim/io/statistics.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
constexpr const char* kDoubts = "nccl_tests_doubts";

std::vector<std::string> read_texts(const JsonPlace& list) {
  std::vector<std::string> texts;
  list.array();
  for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list.at(i).text());
  return texts;
}

NcclTestsNote read_note(const JsonPlace& place) {
  NcclTestsNote note;
  note.collective = place.at("collective").text();
  note.ranks = place.at("ranks").whole(2, kMostRanks);
  note.rows = place.at("rows").whole(0, kMostRows);
  if (place.has("doubts")) note.doubts = read_texts(place.at("doubts"));
  return note;
}

std::string about(const std::string& collective, std::int64_t ranks) {
  return "nccl-tests, " + collective + " of " + std::to_string(ranks) + " ranks: ";
}

double median_us(const Sample& sample) {
  const auto first = sample.values.begin() + static_cast<std::ptrdiff_t>(sample.warmup);
  return median({first, sample.values.end()}) * ns_per_unit(sample.unit) / 1e3;
}

/// Two outputs where they differ most.
struct Disagreement {
  std::int64_t bytes = 0;
  double known_us = 0, added_us = 0;

  double factor() const { return std::max(known_us / added_us, added_us / known_us); }
};

/// By the output that is among the samples already; empty: they are not from an output that was read now.
std::map<std::string, Disagreement> disagreements(const NcclTests& added, const Samples& samples) {
  std::map<std::string, Disagreement> by_output;
  for (const Sample& sample : added.samples) {
    for (const Sample& known : samples.samples) {
      if (known.key != sample.key) continue;
      const Disagreement here{sample.key.size, median_us(known), median_us(sample)};
      if (here.factor() <= kNcclTestsAgree) continue;
      Disagreement& worst = by_output[known.output];
      if (worst.bytes == 0 || here.factor() > worst.factor()) worst = here;
    }
  }
  return by_output;
}

/// The same whichever of the two was added first.
std::string disagreement_text(const std::string& known, const std::string& added, const Disagreement& worst) {
  std::pair one{known.empty() ? std::string("the other samples") : printable(known), worst.known_us};
  std::pair other{printable(added), worst.added_us};
  if (other < one) std::swap(one, other);
  return one.first + " and " + other.first + " contradict each other: " + std::to_string(worst.bytes) + " bytes took " +
         to_text(one.second) + " us and " + to_text(other.second) + " us (both are used)";
}

}  // namespace

std::vector<NcclTestsNote> read_nccl_tests_notes(const JsonPlace& environment) {
  std::vector<NcclTestsNote> notes;
  if (environment.has(kDoubts)) read_texts(environment.at(kDoubts));
  if (!environment.has("nccl_tests")) return notes;
  const JsonPlace list = environment.at("nccl_tests").array();
  for (std::size_t i = 0; i < list.size(); ++i) notes.push_back(read_note(list.at(i)));
  return notes;
}

void add_nccl_tests(const NcclTests& tests, const std::string& place, Samples& samples) {
  nlohmann::json& environment = samples.environment;
  const JsonPlace known(environment, "environment of the samples");
  const Environment host = read_environment(known);
  std::size_t rows = 0;
  for (const NcclTestsNote& note : read_nccl_tests_notes(known)) rows += static_cast<std::size_t>(note.rows);
  if (!tests.card.empty() && !host.card.empty() && host.card != tests.card) {
    throw InputError(place, "collectives of " + tests.card, "of " + host.card + ", as the other samples");
  }
  if (samples.samples.size() == rows) {  // of a machine of which there is nothing else
    environment["device"] = "cuda";
    environment["count"] = std::max(host.count, tests.ranks);
    if (!tests.card.empty()) environment["card"] = tests.card;
  }
  for (const auto& [output, worst] : disagreements(tests, samples)) {
    nlohmann::json& doubts = environment[kDoubts];
    doubts.push_back(about(tests.collective, tests.ranks) + disagreement_text(output, place, worst));
    std::sort(doubts.begin(), doubts.end());  // whatever the order of the files
  }
  nlohmann::json& read = environment["nccl_tests"];
  read.push_back({{"collective", tests.collective},
                  {"ranks", tests.ranks},
                  {"hosts", tests.hosts},
                  {"card", tests.card},
                  {"column", "in-place"},
                  {"rows", tests.samples.size()},
                  {"rows_without_bytes", tests.rows_without_bytes},
                  {"results_checked", tests.checked},
                  {"doubts", tests.doubts}});
  std::sort(read.begin(), read.end());
  for (const Sample& sample : tests.samples) {
    samples.samples.push_back(sample);
    samples.samples.back().output = place;
  }
}

std::vector<std::string> nccl_tests_doubts(const JsonPlace& environment) {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& text) {
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  };
  for (const NcclTestsNote& note : read_nccl_tests_notes(environment)) {
    for (const std::string& doubt : note.doubts) add(about(note.collective, note.ranks) + doubt);
  }
  if (environment.has(kDoubts)) {
    for (const std::string& doubt : read_texts(environment.at(kDoubts))) add(doubt);
  }
  return texts;
}

}  // namespace pdl
