// docs/settings.md is the table of settings (sim/spec/settings.hpp), written: what is committed must be what comes out.
// A mismatch writes docs/settings.md.new beside it: look at it, and rename it if it is right.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "sim/io/words.hpp"
#include "sim/spec/settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

using namespace pdl;

namespace {

constexpr const char* kHead = R"(# Settings

Written from the table of settings (`sim/spec/settings/`); a test fails when it no longer says what the table says.

`pdl-sim`, `pdl-run` and scenario files take the same settings: `--gpus 4` on a command line is `"gpus": 4` in a
scenario and in the `config` of a run's JSON ([formats-run.md](formats-run.md)). In a sweep each takes a list (`4,8`),
many a range too (`2:8`, `2:8:2`, `1024:8192:x2`). Settings that are in the name of a run tell the files of measured
runs apart.

)";

/// A pipe would end the cell.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

/// "1000000", "1e+30"
std::string number(double value) {
  const bool whole = value < 1e16 && value == std::floor(value);
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : to_text(value);
}

std::string range_text(const SettingRow& setting) {
  if (!is_number(setting)) return "";
  const std::string least = setting.range.above_least ? "above 0" : number(setting.range.least);
  return setting.range.largest > 1e300 ? "from " + least : least + " to " + number(setting.range.largest);
}

std::string default_text(const SettingRow& setting) {
  const std::string words = setting.usual_words.empty() ? setting.usual : setting.usual_words;
  if (words.starts_with("default: ")) return words.substr(std::string("default: ").size());
  return words.starts_with("default ") ? words.substr(std::string("default ").size()) : words;
}

std::string config_text(const SettingRow& setting) {
  if (!setting.written_if_usual) return "unless the default";
  return setting.write(RunSpec()) ? "always" : "where there is one";
}

std::string document() {
  std::string text = kHead;
  text += "| setting | | range | default | means something | in `config` | sweep | in a run's name |\n";
  text += "|:---|:---|:---|:---|:---|:---|:---|:---|\n";
  for (const SettingRow& setting : all_settings()) {
    const bool ranges = setting.values == Values::whole || is_synthetic_cost(setting);
    text += "| `--" + setting.name + " " + cell(setting.value_name) + "` | " + cell(setting.help) + " | " +
            range_text(setting) + " | " + default_text(setting) + " | " + setting.meaningful + " | " +
            config_text(setting) + " | " + (ranges ? "list, range" : "list") + " | " +
            (setting.in_run_name ? "yes" : "") + " |\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the document of the settings is the table of settings") {
  const std::string path = PDL_SOURCE_DIR "/docs/settings.md", expected = read_text(path), actual = document();
  if (actual != expected) std::ofstream(path + ".new", std::ios::binary) << actual;
  if (actual == expected) std::filesystem::remove(path + ".new");
  INFO(path << " (what came out is beside it, .new)");
  CHECK(actual == expected);
}
