// The file of a profile: written with times in microseconds, read in whatever unit it says.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/product_json.hpp"
#include "sim/cost/time_unit.hpp"
#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/output_file.hpp"

namespace pdl {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "pdl-profile-1";
constexpr std::int64_t kLargestCount = std::int64_t{1} << 40;

/// The section of the file that holds the curves or constants of a probe.
constexpr std::array<const char*, kProbes> kSections = {"layers",    "losses",      "optimizers", "zero_grads",
                                                        "transfers", "collectives", "host",       "memory",
                                                        "buckets",   "overlaps",    "pauses",     "sustained"};

/// Sections that older profiles lack: written where there is something in them.
bool may_be_absent(Probe probe) {
  return probe == Probe::bucket || probe == Probe::overlap || probe == Probe::pause || probe == Probe::sustained;
}

const char* section(Probe probe) {
  return kSections[static_cast<std::size_t>(probe)];
}

constexpr std::array<std::string_view, 4> kHead = {"format", "name", "units", "environment"};
constexpr const char* kChecksum = "checksum";

bool is_curve(Probe probe) {
  return !size_name(probe).empty();
}

// ---- writing

/// Microseconds with at most six decimals: picoseconds.
double us(double ns) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", ns / 1e3);
  return std::strtod(text, nullptr);
}

/// Beside the median, written by itself.
void write_upper_quantiles(const HostSpread& spread, const std::string& before, ordered_json& json) {
  json[before + "p75"] = us(spread.p75_ns);
  json[before + "p90"] = us(spread.p90_ns);
  json[before + "p95"] = us(spread.p95_ns);
}

ordered_json point_json(const CurvePoint& point, const std::string& size) {
  ordered_json json;
  json[size] = point.size;
  json["time"] = us(point.time_ns);
  if (point.median_ns) json["median"] = us(*point.median_ns);
  json["p25"] = us(point.p25_ns);
  json["p75"] = us(point.p75_ns);
  json["count"] = point.count;
  json["warmup"] = point.warmup;
  if (point.issue_ns) {
    json["issue"] = us(point.issue_ns->median_ns);
    write_upper_quantiles(*point.issue_ns, "issue_", json);
  }
  if (!point.kernels.empty()) {
    json["kernels"] = ordered_json::array();
    for (const Kernel& kernel : point.kernels) {
      json["kernels"].push_back({{"name", kernel.name},
                                 {"time", us(kernel.time_ns)},
                                 {"blocks", kernel.blocks},
                                 {"blocks_per_multiprocessor", kernel.blocks_per_multiprocessor},
                                 {"count", kernel.count}});
    }
  }
  return json;
}

ordered_json curve_json(const MeasuredCurve& measured) {
  const std::string size(size_name(measured.key.probe));
  const Curve& curve = measured.curve;
  ordered_json json;
  write_key(measured.key, false, json);
  json["valid"][size] = {curve.least(), curve.largest()};
  if (curve.line) {
    json["line"] = {{"latency", us(curve.line->latency_ns)},
                    {size + "_per_s", curve.line->size_per_s},
                    {"median_residual", curve.line->median_residual},
                    {"max_residual", curve.line->max_residual}};
  }
  json["points"] = ordered_json::array();
  for (const CurvePoint& point : curve.points) json["points"].push_back(point_json(point, size));
  if (!curve.left_out.empty()) {
    json["left_out"] = ordered_json::array();
    for (const LeftOutPoint& point : curve.left_out) {
      json["left_out"].push_back({{size, point.size}, {"time", us(point.time_ns)}, {"reason", point.reason}});
    }
  }
  return json;
}

ordered_json host_json(const HostTime& host) {
  ordered_json json;
  write_key(host.key, false, json);
  json["time"] = us(host.time_ns.median_ns);
  json["p25"] = us(host.p25_ns);
  write_upper_quantiles(host.time_ns, "", json);
  json["count"] = host.count;
  json["warmup"] = host.warmup;
  return json;
}

ordered_json memory_json(const MemoryConstant& memory) {
  ordered_json json;
  write_key(memory.key, false, json);
  json["bytes"] = memory.bytes;
  json["count"] = memory.count;
  return json;
}

std::string dumped(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// An item a line, down to so many levels; without spaces.
void write_lines(const ordered_json& value, int levels, std::string& text) {
  if (levels == 0 || !value.is_structured() || value.empty()) {
    text += dumped(value);
    return;
  }
  text += value.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) text += ",\n";
    first = false;
    if (value.is_object()) text += dumped(item.key()) + ":";
    write_lines(item.value(), levels - 1, text);
  }
  text += value.is_object() ? '}' : ']';
}

/// Of bytes that were written by this program: 16 digits. Against accidents, not against people.
std::string checksum(std::string_view bytes) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio, odd
  std::uint64_t sum = bytes.size();
  const auto add = [&](std::uint64_t word) {
    sum = (sum ^ word) * kFactor;
    sum ^= sum >> 32;
  };
  const auto word_of = [&](std::size_t begin, std::size_t count) {  // the first byte is the lowest
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < count; ++i)
      word |= std::uint64_t{static_cast<unsigned char>(bytes[begin + i])} << (8 * i);
    return word;
  };
  const std::size_t whole = bytes.size() / 8 * 8;
  for (std::size_t begin = 0; begin < whole; begin += 8) add(word_of(begin, 8));  // one load to the compiler
  if (whole < bytes.size()) add(word_of(whole, bytes.size() - whole));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

// ---- reading

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Reads the times of one file, all in its unit.
class ProfileReader {
 public:
  explicit ProfileReader(double ns_per_unit) : ns_per_unit_(ns_per_unit) {}

  MeasuredCurve curve(Probe probe, const JsonPlace& place) const {
    const std::string size(size_name(probe));
    place.object_of(key_fields(probe, place) + Words{"valid", "line", "points", "left_out"});
    MeasuredCurve measured{read_key(probe, place, false), {}};
    Curve& curve = measured.curve;
    const JsonPlace points = place.at("points");
    points.array();
    if (points.size() == 0) points.refuse("at least one point");
    const Words known = {size,     "time",  "median",    "p25",       "p75",       "count",
                         "warmup", "issue", "issue_p75", "issue_p90", "issue_p95", "kernels"};
    for (std::size_t i = 0; i < points.size(); ++i) curve.points.push_back(point(points.at(i), size, known));
    std::sort(curve.points.begin(), curve.points.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
      if (curve.points[i].size == curve.points[i - 1].size) {
        throw InputError(points.name(), size + " " + std::to_string(curve.points[i].size) + " twice", "each once");
      }
    }
    if (place.has("left_out")) curve.left_out = left_out(place.at("left_out"), size);
    if (place.has("line")) curve.line = line(place.at("line"), size);
    check_valid(place.at("valid"), size, curve);
    if (probe == Probe::transfer || probe == Probe::collective) check_communication(points, size, curve);
    return measured;
  }

  HostTime host(const JsonPlace& place) const {
    place.object_of(key_fields(Probe::host, place) + Words{"time", "p25", "p75", "p90", "p95", "count", "warmup"});
    time(place.at("time"));
    return {read_key(Probe::host, place, false), spread(place, "time", ""), time(place.at("p25")),
            place.at("count").whole(1, kLargestCount), place.at("warmup").whole(0, kLargestCount)};
  }

  MemoryConstant memory(const JsonPlace& place) const {
    place.object_of(key_fields(Probe::memory, place) + Words{"bytes", "count"});
    return {read_key(Probe::memory, place, false), place.at("bytes").whole(0, std::int64_t{1} << 60),
            place.at("count").whole(1, kLargestCount)};
  }

 private:
  /// The fit writes times of communication that never fall; more bytes in less time are from somewhere else. NCCL has
  /// 64 blocks at most (its channels).
  static void check_communication(const JsonPlace& points, const std::string& size, const Curve& curve) {
    constexpr std::int64_t kMostBlocks = 1024;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const CurvePoint& point = curve.points[i];
      if (i > 0 && point.time_ns < curve.points[i - 1].time_ns) {
        throw InputError(points.name(),
                         std::to_string(us(point.time_ns)) + " us for " + size + " " + std::to_string(point.size),
                         "at least the " + std::to_string(us(curve.points[i - 1].time_ns)) + " us of " +
                             std::to_string(curve.points[i - 1].size));
      }
      for (const Kernel& kernel : point.kernels) {
        if (kernel.blocks > kMostBlocks)
          throw InputError(points.name(), std::to_string(kernel.blocks) + " blocks of " + kernel.name,
                           "at most " + std::to_string(kMostBlocks));
      }
    }
  }

  /// A time that takes time.
  double time(const JsonPlace& place) const {
    const double ns = time_or_zero(place);
    if (ns <= 0) place.refuse("a positive time");
    return ns;
  }

  double time_or_zero(const JsonPlace& place) const {
    return to_picoseconds(place.number(0, kLongestTime_ns / ns_per_unit_) * ns_per_unit_);
  }

  CurvePoint point(const JsonPlace& place, const std::string& size, const Words& known) const {
    place.object_of(known);
    CurvePoint point;
    point.size = place.at(size).whole(1, std::int64_t{1} << 60);
    point.time_ns = time(place.at("time"));
    point.p25_ns = time(place.at("p25"));
    point.p75_ns = time(place.at("p75"));
    if (point.p75_ns < point.p25_ns) place.at("p75").refuse("at least p25");
    point.count = place.at("count").whole(1, kLargestCount);
    point.warmup = place.at("warmup").whole(0, kLargestCount);
    if (place.has("median")) point.median_ns = time(place.at("median"));
    if (place.has("issue")) point.issue_ns = spread(place, "issue", "issue_");
    if (!place.has("kernels")) return point;
    const JsonPlace kernels = place.at("kernels");
    kernels.array();
    for (std::size_t i = 0; i < kernels.size(); ++i) point.kernels.push_back(kernel(kernels.at(i)));
    return point;
  }

  /// Quantiles that a file does not have are the ones below.
  HostSpread spread(const JsonPlace& place, const std::string& median, const std::string& before) const {
    HostSpread spread(time_or_zero(place.at(median)));
    double* upper[] = {&spread.p75_ns, &spread.p90_ns, &spread.p95_ns};
    const char* names[] = {"p75", "p90", "p95"};
    double below_ns = spread.median_ns;
    for (std::size_t i = 0; i < std::size(upper); ++i) {
      const std::string name = before + names[i];
      *upper[i] = place.has(name) ? time_or_zero(place.at(name)) : below_ns;
      if (*upper[i] < below_ns) place.at(name).refuse("at least the quantile below it");
      below_ns = *upper[i];
    }
    return spread;
  }

  Kernel kernel(const JsonPlace& place) const {
    static const Words known = {"name", "time", "blocks", "blocks_per_multiprocessor", "count"};
    place.object_of(known);
    return {place.at("name").text(), time(place.at("time")), place.at("blocks").whole(0, kLargestCount),
            place.at("blocks_per_multiprocessor").whole(0, kLargestCount),
            place.at("count").whole(1, kMostKernelLaunches)};
  }

  std::vector<LeftOutPoint> left_out(const JsonPlace& places, const std::string& size) const {
    std::vector<LeftOutPoint> points;
    places.array();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const JsonPlace place = places.at(i);
      place.object_of(Words{size, "time", "reason"});
      points.push_back(
          {place.at(size).whole(1, std::int64_t{1} << 60), time(place.at("time")), place.at("reason").text()});
    }
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
    return points;
  }

  LineFit line(const JsonPlace& place, const std::string& size) const {
    place.object_of(Words{"latency", size + "_per_s", "median_residual", "max_residual"});
    return {time_or_zero(place.at("latency")), place.at(size + "_per_s").number(1e-9, 1e300),
            place.at("median_residual").number(0, 1e300), place.at("max_residual").number(0, 1e300)};
  }

  void check_valid(const JsonPlace& place, const std::string& size, const Curve& curve) const {
    place.object_of(Words{size});
    const JsonPlace range = place.at(size);
    range.array();
    if (range.json() != nlohmann::json::array({curve.least(), curve.largest()})) {
      throw InputError(range.name(), range.json().dump(),
                       "the least and the largest " + size + " of the points, [" + std::to_string(curve.least()) + "," +
                           std::to_string(curve.largest()) + "]");
    }
  }

  double ns_per_unit_;
};

/// Sorts by key; a key given twice is refused.
template <class Entry>
void sort_by_key(std::vector<Entry>& entries, const std::string& place) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].key == entries[i - 1].key) throw InputError(place, describe(entries[i].key) + " twice", "each once");
  }
}

std::vector<std::string> read_texts(const JsonPlace& list) {
  std::vector<std::string> texts;
  list.array();
  for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list.at(i).text());
  return texts;
}

std::vector<LayerError> read_layer_errors(const JsonPlace& list) {
  std::vector<LayerError> errors;
  list.array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace place = list.at(i);
    place.object_of(Words{"implementation", "dtype", "asked", "from", "half_width_90", "probes"});
    const std::optional<Dtype> dtype = find_dtype(place.at("dtype").text());
    if (!dtype) place.at("dtype").refuse("a data type");
    errors.push_back({place.at("implementation").text(), *dtype, place.at("asked").boolean(),
                      1e3 * place.at("from").number(0, 1e9), place.at("half_width_90").number(0, 100),
                      place.at("probes").whole(1, kLargestCount)});
  }
  return errors;
}

double read_units(const JsonPlace& units) {
  units.object_of(Words{"time", "size"});
  if (units.at("size").text() != "bytes") units.at("size").refuse("\"bytes\"");
  const double factor = ns_per_unit(units.at("time").text());
  if (factor == 0) units.at("time").refuse("\"ns\", \"us\", \"ms\" or \"s\"");
  return factor;
}

void check_format(const JsonPlace& format) {
  if (format.text() == kFormat) return;
  std::string expected = std::string("\"") + kFormat + "\"";
  if (format.text() == "pdl-samples-1") expected += " (these are samples: pdl-calibrate --from fits them)";
  format.refuse(expected);
}

/// The first line of a file that has its checksum; null if it has not.
nlohmann::json checked_head(const std::string& text) {
  const std::size_t line = text.find('\n');
  if (line == std::string::npos || line == 0 || text[line - 1] != ',') return nullptr;
  nlohmann::json head = nlohmann::json::parse(text.substr(0, line - 1) + "}", nullptr, false);
  if (!head.is_object() || !head.contains(kChecksum)) return nullptr;
  if (head[kChecksum] != checksum(std::string_view(text).substr(line + 1))) return nullptr;
  return head;
}

/// Takes the products out of a file as profile_text() writes it, and gives them as a document of their own. Empty if it
/// has none.
std::string cut_products(std::string& text) {
  constexpr std::string_view kBegin = "\n\"products\":{\n", kBehind[] = {",\n\"layer_errors\":", ",\n\"warnings\":"};
  const std::size_t begin = text.find(kBegin);
  if (begin == text.npos) return "";
  const std::size_t end = std::min(text.find(kBehind[0], begin), text.find(kBehind[1], begin));
  if (end == text.npos) return "";
  std::string products = "{" + text.substr(begin, end - begin) + "}";
  text.erase(begin, end + 1 - begin);  // with the comma behind it
  return products;
}

/// Of a GPU with as many multiprocessors as that of the profile, where both are known.
ProductModel read_products(const JsonPlace& place, std::int64_t multiprocessors) {
  ProductModel model = product_model_from_json(place);
  if (multiprocessors > 0 && model.multiprocessors != multiprocessors)
    place.at("multiprocessors").refuse(std::to_string(multiprocessors) + ", as the environment has");
  return model;
}

}  // namespace

ordered_json to_json(const CostProfile& profile) {
  ordered_json json;
  json["format"] = kFormat;
  json["name"] = profile.name;
  json["units"] = {{"time", "us"}, {"size", "bytes"}};
  json["environment"] = profile.environment;
  for (int i = 0; i < kProbes; ++i) {
    const auto probe = static_cast<Probe>(i);
    if (!may_be_absent(probe) || !profile.of(probe).empty()) json[section(probe)] = ordered_json::array();
  }
  for (const MeasuredCurve& curve : profile.curves) json[section(curve.key.probe)].push_back(curve_json(curve));
  for (const HostTime& host : profile.host) json[section(Probe::host)].push_back(host_json(host));
  for (const MemoryConstant& memory : profile.memory) json[section(Probe::memory)].push_back(memory_json(memory));
  if (profile.products) json["products"] = to_json(*profile.products);
  if (!profile.layer_errors.empty()) json["layer_errors"] = ordered_json::array();
  for (const LayerError& error : profile.layer_errors) {
    json["layer_errors"].push_back({{"implementation", error.implementation},
                                    {"dtype", to_string(error.dtype)},
                                    {"asked", error.asked},
                                    {"from", error.from_ns / 1e3},
                                    {"half_width_90", error.half_width},
                                    {"probes", error.probes}});
  }
  json["warnings"] = profile.warnings;
  json["notes"] = profile.notes;
  return json;
}

CostProfile profile_from_json(const nlohmann::json& document, const std::string& place) {
  const JsonPlace root(document, place);
  Words known = {"format", "name", "units", "environment", "products", "layer_errors", "warnings", "notes", kChecksum};
  known.insert(known.end(), kSections.begin(), kSections.end());
  check_format(root.at("format"));
  root.object_of(known);
  CostProfile profile;
  profile.name = root.at("name").text();
  profile.host_description = read_environment(root.at("environment"));
  profile.environment = root.at("environment").json();
  const ProfileReader reader(read_units(root.at("units")));
  for (int i = 0; i < kProbes; ++i) {
    const auto probe = static_cast<Probe>(i);
    if (may_be_absent(probe) && !root.has(section(probe))) continue;
    const JsonPlace entries = root.at(section(probe));
    entries.array();
    for (std::size_t e = 0; e < entries.size(); ++e) {
      if (is_curve(probe)) profile.curves.push_back(reader.curve(probe, entries.at(e)));
      if (probe == Probe::host) profile.host.push_back(reader.host(entries.at(e)));
      if (probe == Probe::memory) profile.memory.push_back(reader.memory(entries.at(e)));
    }
  }
  if (root.has("products"))
    profile.products = read_products(root.at("products"), profile.host_description.multiprocessors);
  if (root.has("layer_errors")) profile.layer_errors = read_layer_errors(root.at("layer_errors"));
  if (profile.curves.empty()) throw InputError(place, "a profile without any curve", "at least one");
  sort_by_key(profile.curves, place);
  sort_by_key(profile.host, place);
  sort_by_key(profile.memory, place);
  profile.warnings = read_texts(root.at("warnings"));
  profile.notes = read_texts(root.at("notes"));
  return profile;
}

std::string profile_text(const CostProfile& profile) {
  const ordered_json json = to_json(profile);
  ordered_json head;
  std::string rest;
  for (const auto& [key, value] : json.items()) {
    if (std::find(kHead.begin(), kHead.end(), key) != kHead.end()) {
      head[key] = value;
      continue;
    }
    rest += (rest.empty() ? "" : ",\n") + dumped(key) + ":";
    write_lines(value, key == "products" ? 2 : 1, rest);
  }
  rest += "}\n";
  head[kChecksum] = checksum(rest);
  std::string text = dumped(head);
  text.back() = ',';  // of the '}' of the head alone
  return text + "\n" + rest;
}

std::optional<Environment> checked_environment(const std::string& text, const std::string& place) {
  const nlohmann::json head = checked_head(text);
  if (!head.contains("environment")) return std::nullopt;
  return read_environment(JsonPlace(head, place).at("environment"));
}

CostProfile profile_from_text(std::string text, const std::string& place) {
  std::string products = checked_head(text).is_null() ? "" : cut_products(text);
  CostProfile profile = profile_from_json(parse_json(text, place), place);
  if (!products.empty()) {
    const std::int64_t multiprocessors = profile.host_description.multiprocessors;
    profile.products = ProductsOfProfile([products = std::move(products), place, multiprocessors] {
      try {
        const nlohmann::json document = parse_json(products, place);
        return read_products(JsonPlace(document, place).at("products"), multiprocessors);
      } catch (const InputError& error) {
        throw BrokenFile(error);
      }
    });
  }
  return profile;
}

void save_profile(const CostProfile& profile, const std::string& path) {
  const std::string text = profile_text(profile);
  write_output(path, [&](std::ostream& out) { out << text; });
}

}  // namespace pdl
