#include "sim/run/kineto_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"

namespace pdl {
namespace {

constexpr double kLongestTrace_us = 2e15;  // times are microseconds since 1970 or since the host started: to 2033

constexpr double kLongestEvent_us = 1e11;  // a day
constexpr std::size_t kMostActivities = 20'000'000;

std::int64_t to_ns(double us) {
  return std::llround(us * 1e3);
}

struct Launch {
  std::int64_t thread = -1, start_ns = -1, end_ns = -1;
};

std::optional<std::int64_t> whole_argument(const nlohmann::json& event, const char* key) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return std::nullopt;
  const auto value = arguments->find(key);
  if (value == arguments->end() || !value->is_number_integer()) return std::nullopt;
  return value->get<std::int64_t>();
}

std::optional<GpuActivityKind> gpu_kind(const std::string& category) {
  if (category == "kernel") return GpuActivityKind::kernel;
  if (category == "gpu_memcpy") return GpuActivityKind::copy;
  if (category == "gpu_memset") return GpuActivityKind::fill;
  return std::nullopt;
}

/// Of a beginning and a length; others mark moments, flows and names.
bool is_whole_event(const nlohmann::json& event) {
  const auto phase = event.find("ph");
  return phase != event.end() && *phase == "X";
}

bool is_launch(const std::string& category) {
  return category == "cuda_runtime" || category == "cuda_driver";
}

bool is_wait(const nlohmann::json& event) {
  const auto name = event.find("name");
  if (name == event.end() || !name->is_string()) return false;
  const std::string& word = name->get_ref<const std::string&>();
  return word == "cudaStreamSynchronize" || word == "cudaDeviceSynchronize" || word == "cudaEventSynchronize";
}

std::string grid_of(const nlohmann::json& event) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return "";
  const auto grid = arguments->find("grid");
  return grid == arguments->end() || !grid->is_array() ? "" : grid->dump(-1, ' ', true);
}

std::string text_argument(const nlohmann::json& event, const char* key) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return "";
  const auto text = arguments->find(key);
  return text == arguments->end() || !text->is_string() ? "" : text->get<std::string>();
}

/// What a rank gives to a collective: "In msg nelems" of "dtype".
std::int64_t bytes_of(const nlohmann::json& event) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
  const auto elements = whole_argument(event, "In msg nelems");
  if (!elements || *elements < 0 || *elements > kMostElements) return -1;
  const std::string word = text_argument(event, "dtype");
  const std::int64_t each = word == "Float" || word == "Int"       ? 4
                            : word == "Half" || word == "BFloat16" ? 2
                            : word == "Double" || word == "Long"   ? 8
                            : word == "Byte" || word == "Char"     ? 1
                                                                   : 0;
  return each == 0 ? -1 : *elements * each;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  KinetoTrace read(const nlohmann::json& document) {
    const JsonPlace root(document, path_);
    if (!is_kineto_trace(document)) {
      throw InputError(path_, "no traceEvents", "a trace that torch.profiler's export_chrome_trace() has written");
    }
    const JsonPlace events = root.at("traceEvents").array();
    for (std::size_t i = 0; i < events.size(); ++i) take(events.at(i));
    if (trace_.activities.empty()) {
      throw InputError(path_, "nothing that ran on a GPU",
                       "a trace of ProfilerActivity.CUDA, of a process that has used its GPU");
    }
    if (devices_.size() > 1)
      throw InputError(path_, "activities of " + std::to_string(devices_.size()) + " GPUs",
                       "those of one: a file a process");
    describe(root);
    join_launches();
    count_from_first();
    return std::move(trace_);
  }

 private:
  void take(const JsonPlace& place) {
    const nlohmann::json& event = place.json();
    if (!event.is_object()) place.refuse("an event, an object");
    const auto category = event.find("cat");
    if (category == event.end() || !category->is_string() || !is_whole_event(event)) return;
    const std::string& word = category->get_ref<const std::string&>();
    const auto kind = gpu_kind(word);
    const bool call = word == "cpu_op" || word == "user_annotation";
    if (!kind && !call && !is_launch(word)) return;
    const double start_us = place.at("ts").number(0, kLongestTrace_us);
    const double end_us = start_us + place.at("dur").number(0, kLongestEvent_us);
    const std::int64_t start_ns = to_ns(start_us), end_ns = std::max(start_ns, to_ns(end_us));
    if (kind) return take_activity(place, *kind, start_ns, end_ns);
    const std::int64_t thread =
        event.contains("tid") && event["tid"].is_number_integer() ? event["tid"].get<std::int64_t>() : -1;
    if (call) {
      trace_.calls.push_back({place.at("name").text(), thread, start_ns, end_ns, word == "user_annotation"});
      return;
    }
    if (is_wait(event)) trace_.waits.push_back({start_ns, end_ns});
    if (const auto correlation = whole_argument(event, "correlation"))
      launches_[*correlation] = {thread, start_ns, end_ns};
  }

  void take_activity(const JsonPlace& place, GpuActivityKind kind, std::int64_t start_ns, std::int64_t end_ns) {
    const nlohmann::json& event = place.json();
    const std::int64_t stream = whole_argument(event, "stream").value_or(-1);
    GpuActivity activity{.name = place.at("name").text(),
                         .kind = kind,
                         .stream = stream,
                         .start_ns = start_ns,
                         .end_ns = end_ns,
                         .grid = grid_of(event),
                         .bytes = bytes_of(event),
                         .ranks = text_argument(event, "Process Group Ranks")};
    if (trace_.activities.size() == kMostActivities)
      throw InputError(path_, "more than " + std::to_string(kMostActivities) + " activities of the GPU",
                       "fewer: trace some steps");
    devices_.insert(whole_argument(event, "device").value_or(0));
    correlations_.push_back(whole_argument(event, "correlation").value_or(-1));
    trace_.activities.push_back(std::move(activity));
  }

  void describe(const JsonPlace& root) {
    constexpr std::int64_t kMostRanks = 1'000'000;
    trace_.path = path_;
    if (root.has("distributedInfo")) {
      const JsonPlace distributed = root.at("distributedInfo").object();
      if (distributed.has("rank")) trace_.rank = static_cast<int>(distributed.at("rank").whole(0, kMostRanks));
      if (distributed.has("world_size"))
        trace_.world_size = static_cast<int>(distributed.at("world_size").whole(1, kMostRanks));
      if (trace_.rank >= std::max(trace_.world_size, 1))
        distributed.at("rank").refuse("a rank of " + std::to_string(trace_.world_size));
      if (distributed.has("nccl_version")) trace_.nccl = distributed.at("nccl_version").text();
    }
    // Since 1970; without it, all ranks of a host count from the same moment.
    constexpr std::int64_t kLargestBase_ns = std::int64_t{1} << 62;
    if (root.has("baseTimeNanoseconds")) trace_.origin_ns = root.at("baseTimeNanoseconds").whole(0, kLargestBase_ns);
    if (!root.has("deviceProperties")) return;
    const JsonPlace devices = root.at("deviceProperties").array();
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const JsonPlace device = devices.at(d).object();
      const bool own = device.has("id") && device.at("id").whole(0, kMostRanks) == *devices_.begin();
      if (own && device.has("name")) trace_.gpu = device.at("name").text();
    }
  }

  void join_launches() {
    for (std::size_t a = 0; a < trace_.activities.size(); ++a) {
      const auto launch = launches_.find(correlations_[a]);
      if (launch == launches_.end()) continue;
      GpuActivity& activity = trace_.activities[a];
      activity.launch_thread = launch->second.thread;
      activity.launch_start_ns = launch->second.start_ns;
      activity.launch_end_ns = launch->second.end_ns;
    }
  }

  void count_from_first() {
    std::stable_sort(trace_.activities.begin(), trace_.activities.end(), [](const auto& a, const auto& b) {
      return std::tie(a.start_ns, a.stream) < std::tie(b.start_ns, b.stream);
    });
    std::stable_sort(trace_.calls.begin(), trace_.calls.end(),
                     [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
    std::stable_sort(trace_.waits.begin(), trace_.waits.end(),
                     [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    // From the first launch too, so that no time of a launch is below 0, which is_launch_known() would mistake.
    std::int64_t first_ns = trace_.activities.front().start_ns;
    for (const GpuActivity& activity : trace_.activities) {
      if (activity.launch_start_ns >= 0) first_ns = std::min(first_ns, activity.launch_start_ns);
    }
    for (GpuActivity& activity : trace_.activities) {
      activity.start_ns -= first_ns;
      activity.end_ns -= first_ns;
      if (activity.launch_start_ns < 0) continue;
      activity.launch_start_ns -= first_ns;
      activity.launch_end_ns -= first_ns;
    }
    for (HostCall& call : trace_.calls) {
      call.start_ns -= first_ns;
      call.end_ns -= first_ns;
    }
    for (HostWait& wait : trace_.waits) {
      wait.start_ns -= first_ns;
      wait.end_ns -= first_ns;
    }
    trace_.origin_ns += first_ns;
  }

  const std::string& path_;
  KinetoTrace trace_;
  std::vector<std::int64_t> correlations_;  // by activity, as they came
  std::map<std::int64_t, Launch> launches_;
  std::set<std::int64_t> devices_;
};

}  // namespace

KinetoTrace read_kineto_trace(const std::string& path) {
  return kineto_trace_from_json(parse_possible_trace(path), path);
}

KinetoTrace kineto_trace_from_json(const nlohmann::json& document, const std::string& path) {
  return Reader(path).read(document);
}

bool is_kineto_trace(const nlohmann::json& document) {
  return document.is_object() && document.contains("traceEvents");
}

nlohmann::json parse_possible_trace(const std::string& path) {
  const std::string text = read_json_text(path);
  if (text.starts_with("\x1f\x8b")) throw InputError(path, "a compressed file", "JSON: gunzip it first");
  return parse_json(text, path);
}

std::string nccl_operation(const GpuActivity& activity) {
  constexpr std::string_view kPrefix = "ncclDevKernel_";
  if (!activity.name.starts_with(kPrefix)) return "";
  const std::string rest = activity.name.substr(kPrefix.size());
  return rest.substr(0, rest.find_first_of("_("));
}

std::string short_name(const GpuActivity& activity) {
  std::string name = activity.name;
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const char* prefix : {"at::native::", "(anonymous namespace)::", "cutlass::"}) {
    for (std::size_t at = name.find(prefix); at != std::string::npos; at = name.find(prefix))
      name.erase(at, std::string(prefix).size());
  }
  // Kernel2<cutlass_80_simt_sgemm_...>(...): what is inside says more.
  if (name.starts_with("Kernel2<")) name = name.substr(8, name.find('>') - 8);
  const std::size_t end = name.find_first_of("<(");
  if (end > 0) name.resize(std::min(end, name.size()));
  for (const char* suffix : {"_execute_kernel__5x_cublas", "_execute_split_k_kernel__5x_cublas"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - std::string(suffix).size());
  }
  return name;
}

}  // namespace pdl
