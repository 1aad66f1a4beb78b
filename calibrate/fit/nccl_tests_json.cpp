// The JSON report that nccl-tests writes with -J, version 3 (src/util.cu, 2.19.6):
//
//   {"version": 3, "args": ["./all_reduce_perf", ...],
//    "config": {"nthreads": 1, "ngpus": 1, "warmup_iters": 1, "iterations": 20, "aggregated_iterations": 1, "graph": 0,
//               "blocking_collectives": "false",
//               "devices": [{"rank": 0, "group": 0, "hostname": "a", "device_hex": ...}]},
//    "results": [{"size": 1024, "count": 256, "type": "float", "redop": "sum",
//                 "in_place": {"time": 16.17, "alg_bw": 0.06, "bus_bw": 0.06, "nwrong": 0}}],
//    "out_of_bounds": {"count": 0, "okay": "true"}}
//
// Of each process only the first GPU is among the devices; the process has nthreads x ngpus of them. Times in us,
// whatever the keys say.
#include "calibrate/fit/nccl_tests_json.hpp"

#include "calibrate/fit/nccl_tests_builder.hpp"
#include "sim/io/json_place.hpp"

namespace pdl {
namespace {

constexpr std::int64_t kMillion = 1000000;
constexpr std::int64_t kLargestBytes = std::int64_t{1} << 60;
constexpr double kLongestUs = 1e12;

std::int64_t whole_or(const JsonPlace& object, const char* key, std::int64_t absent) {
  return object.has(key) ? object.at(key).whole(0, kMillion) : absent;
}

std::string text_or(const JsonPlace& object, const char* key) {
  return object.has(key) ? object.at(key).text() : "";
}

/// The file says "true" and "false" as text.
bool is_true(const JsonPlace& object, const char* key) {
  if (!object.has(key)) return false;
  return object.at(key).json().is_boolean() ? object.at(key).boolean() : object.at(key).text() == "true";
}

void read_devices(const JsonPlace& config, std::int64_t gpus_a_process, NcclTestsBuilder& builder) {
  const JsonPlace devices = config.at("devices").array();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const JsonPlace device = devices.at(d).object();
    NcclTestsRank rank;
    rank.place = device.name();
    rank.rank = device.at("rank").whole(0, kMillion);
    rank.group = whole_or(device, "group", 0);
    rank.host = text_or(device, "hostname");
    rank.gpu = text_or(device, "device_hex");
    rank.card = text_or(device, "device_info");
    for (std::int64_t i = 0; i < gpus_a_process; ++i) {
      builder.add_rank(rank);
      ++rank.rank;
      rank.gpu.clear();
    }
  }
}

NcclTestsBuilder read_config(const JsonPlace& config, NcclTestsOptions options, const std::string& place) {
  const std::int64_t gpus_a_process =
      std::max<std::int64_t>(1, whole_or(config, "nthreads", 1) * whole_or(config, "ngpus", 1));
  if (!config.has("devices") && options.ranks == 0) options.ranks = gpus_a_process;
  NcclTestsBuilder builder(place, options);
  if (config.has("devices")) read_devices(config, gpus_a_process, builder);
  const std::int64_t in_a_group = std::max<std::int64_t>(1, whole_or(config, "aggregated_iterations", 1));
  builder.calls(whole_or(config, "warmup_iters", 0), whole_or(config, "iterations", 1) * in_a_group);
  builder.called_in_groups(in_a_group);
  builder.launched_by_graph(whole_or(config, "graph", 0));
  if (is_true(config, "blocking_collectives")) builder.blocked();
  return builder;
}

void read_result(const JsonPlace& result, NcclTestsBuilder& builder) {
  NcclTestsRow row;
  row.place = result.name();
  row.bytes = result.at("size").whole(0, kLargestBytes);
  row.count = result.at("count").whole(0, kLargestBytes);
  row.type = result.at("type").text();
  row.redop = text_or(result, "redop");
  const JsonPlace in_place = result.at("in_place").object();
  if (in_place.has("cpu_time")) in_place.at("cpu_time").refuse("time: cpu_time is the time of the host's calls (-C)");
  row.time_us = in_place.at("time").number(0, kLongestUs);
  if (row.time_us <= 0) in_place.at("time").refuse("a positive, finite time");
  row.algorithm_gb_per_s = in_place.at("alg_bw").number(0, kLongestUs);
  row.bus_gb_per_s = in_place.at("bus_bw").number(0, kLongestUs);
  if (in_place.has("nwrong") && !in_place.at("nwrong").json().is_null()) {
    if (in_place.at("nwrong").number(0, 1e18) != 0) in_place.at("nwrong").refuse("0 wrong results");
    builder.results_were_checked();
  }
  builder.add_row(row);
}

void check_end(const JsonPlace& root) {
  if (root.has("out_of_bounds") && !is_true(root.at("out_of_bounds"), "okay"))
    root.at("out_of_bounds").refuse("a test whose results are right");
  if (!root.has("errors")) return;
  const JsonPlace errors = root.at("errors").array();
  for (std::size_t e = 0; e < errors.size(); ++e) {
    if (!errors.at(e).json().is_null() && !errors.at(e).text().empty())
      errors.at(e).refuse("a test that ended without an error");
  }
}

}  // namespace

NcclTests parse_nccl_tests_report(const std::string& text, const std::string& place, const NcclTestsOptions& options) {
  const nlohmann::json document = parse_json(text, place);
  const JsonPlace root(document, place);
  NcclTestsBuilder builder = read_config(root.object().at("config").object(), options, place);
  if (root.has("args") && root.at("args").array().size() > 0)
    builder.name_test(root.at("args").at(0).name(), root.at("args").at(0).text());
  const JsonPlace results = root.at("results").array();
  for (std::size_t r = 0; r < results.size(); ++r) read_result(results.at(r).object(), builder);
  check_end(root);
  return builder.finish();
}

}  // namespace pdl
