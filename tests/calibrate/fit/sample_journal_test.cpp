#include "calibrate/fit/sample_journal.hpp"

#include <limits>
#include <string>

#include "sim/io/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pdl {
namespace {

using nlohmann::json;
using Start = SampleJournal::Start;

const json kHost = {{"card", "H200"}, {"count", 2}, {"torch", "2.11.0"}, {"date", "2026-01-01T00:00:00Z"}};
const json kSettings = {{"gpus", 2}, {"dims", {1024, 4096}}};

Sample host_sample(double us) {
  Sample sample;
  sample.key.probe = Probe::host;
  sample.key.name = "launch_latency";
  sample.unit = "us";
  sample.warmup = 1;
  sample.values = {us, us / 3, 1e-7};
  return sample;
}

/// Two parts are complete, one is under way.
std::string interrupted(const TemporaryFolder& folder) {
  const std::string path = folder / "s.json.partial";
  SampleJournal journal(path, kHost, kSettings, Start::anew);
  journal.add("host", host_sample(3));
  journal.finish("host", 2.34);
  journal.add("transfers", host_sample(4));
  journal.add("transfers", host_sample(5));
  journal.finish("transfers", 1);
  journal.add("overlap", host_sample(6));
  return path;
}

std::vector<double> first_values(const Samples& samples) {
  std::vector<double> values;
  for (const Sample& sample : samples.samples) values.push_back(sample.values.front());
  return values;
}

TEST_CASE("an interrupted calibration goes on behind its last complete part") {
  const TemporaryFolder folder;
  const std::string path = interrupted(folder);
  json later = kHost;
  later["date"] = "2026-01-02T00:00:00Z";
  {
    SampleJournal journal(path, later, kSettings, Start::resume);
    CHECK(journal.has("host"));
    CHECK(journal.has("transfers"));
    CHECK_FALSE(journal.has("overlap"));
    CHECK(journal.seconds_before() == Approx(3.3));
    CHECK(first_values(journal.samples()) == std::vector<double>{3, 4, 5});
    CHECK(journal.samples().samples[0].values == host_sample(3).values);  // to the last digit
    journal.add("overlap", host_sample(7));
    journal.finish("overlap", 5);
    CHECK(first_values(journal.samples()) == std::vector<double>{3, 4, 5, 7});
    CHECK(journal.samples().environment["date"] == "2026-01-01T00:00:00Z");
    CHECK(journal.samples().environment["resumed"] == json{"2026-01-02T00:00:00Z"});
    CHECK(journal.samples().environment["probe_seconds"] == json{{"host", 2.3}, {"transfers", 1}, {"overlap", 5}});
  }
  const SampleJournal again(path, later, kSettings, Start::resume);
  CHECK(first_values(again.samples()) == std::vector<double>{3, 4, 5, 7});
}

TEST_CASE("whatever byte it was cut off at, complete parts are kept and no more") {
  const TemporaryFolder folder;
  const std::string whole = read_text(interrupted(folder));
  const std::size_t header = whole.find('\n') + 1, host = whole.find("2.3}") + 5, transfers = whole.find("1.0}") + 5;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::string path = folder.write("cut", whole.substr(0, length));
    const SampleJournal journal(path, kHost, kSettings, Start::resume);
    const std::size_t samples = length < host ? 0 : length < transfers ? 1 : 3;
    CHECK(journal.samples().samples.size() == samples);
    if (length >= header)
      CHECK(read_text(path) == whole.substr(0, length < host ? header : length < transfers ? host : transfers));
  }
}

TEST_CASE("another host or other settings are no continuation") {
  const TemporaryFolder folder;
  const std::string path = interrupted(folder), before = read_text(path);
  const auto refused = [&](const char* key, const json& value, bool of_host) {
    json host = kHost, settings = kSettings;
    (of_host ? host : settings)[key] = value;
    CHECK_THROWS_WITH(SampleJournal(path, host, settings, Start::resume),
                      ContainsSubstring(path + ":1: found " + key) && ContainsSubstring(value.dump() + ", as now"));
  };
  refused("card", "H100", true);
  refused("count", 4, true);
  refused("torch", "2.12.0", true);
  refused("driver", "580", true);
  refused("gpus", 1, false);
  refused("dims", json{1024}, false);
  CHECK(read_text(path) == before);
}

TEST_CASE("what is no journal is refused by line, and left as it is") {
  const TemporaryFolder folder;
  const std::string head =
      read_text(interrupted(folder)).substr(0, read_text(folder / "s.json.partial").find('\n') + 1);
  const auto refused = [&](const std::string& text, const std::string& place) {
    INFO(text);
    const std::string path = folder.write("x", text);
    CHECK_THROWS_WITH(SampleJournal(path, kHost, kSettings, Start::resume), ContainsSubstring(path + place));
    CHECK(read_text(path) == text);
  };
  refused("{\"format\": \"pdl-samples-1\"}\n", ":1: format: found \"pdl-samples-1\"");
  refused("[]\n", ":1: found a list of 0, expected an object");
  const std::string format = "{\"format\": \"pdl-calibration-1\", \"settings\": {}, \"environment\": ";
  refused(format + "3}\n", ":1: environment: found 3, expected an object");
  refused(format + std::string(200, '[') + std::string(200, ']') + "}\n", ":1: found values nested deeper than 100");
  json host = kHost;
  host["probe_seconds"] = 3;
  refused(json{{"format", "pdl-calibration-1"}, {"settings", kSettings}, {"environment", host}}.dump() + "\n",
          ":1: environment.probe_seconds: found 3, expected an object");
  refused(head + "{\"part\": \"host\", \"sample\": {\"probe\": \"hots\"}}\n", ":2: sample.probe");
  refused(head + "{\"part\": \"host\"}\n", ":2: ");
  refused(head + "nonsense\n{\"part\": \"host\", \"seconds\": 1}\n", ":2: found a file that is not whole JSON");
  CHECK_THROWS_AS(SampleJournal(folder / "none/x", kHost, kSettings, Start::anew), InputError);
  CHECK_THROWS_AS(SampleJournal(folder.path(), kHost, kSettings, Start::anew), InputError);
}

TEST_CASE("one calibration a journal, none without a file, no numbers that a file cannot hold") {
  const TemporaryFolder folder;
  const SampleJournal first(folder / "j", kHost, kSettings, Start::anew);
  CHECK_THROWS_WITH(SampleJournal(folder / "j", kHost, kSettings, Start::anew),
                    ContainsSubstring("another calibration is writing"));
  const std::string kept = interrupted(folder), before = read_text(kept);
  CHECK_THROWS_WITH(SampleJournal(kept, kHost, kSettings, Start::anew),
                    ContainsSubstring("expected --resume to go on with it"));
  CHECK(read_text(kept) == before);
  SampleJournal memory("", kHost, kSettings, Start::resume);
  memory.add("host", host_sample(3));
  memory.finish("host", 1);
  CHECK(memory.samples().samples.size() == 1);
  CHECK_THROWS_AS(memory.add("host", host_sample(std::numeric_limits<double>::infinity())), InputError);
}

}  // namespace
}  // namespace pdl
