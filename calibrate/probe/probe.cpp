#include "calibrate/probe/probe.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/added_samples.hpp"
#include "calibrate/fit/sample_journal.hpp"
#include "calibrate/probe/collective_probe.hpp"
#include "calibrate/probe/compute_operations.hpp"
#include "calibrate/probe/data_parallel_host_probe.hpp"
#include "calibrate/probe/host_probe.hpp"
#include "calibrate/probe/layer_probe.hpp"
#include "calibrate/probe/overlap_probe.hpp"
#include "calibrate/probe/pace.hpp"
#include "calibrate/probe/pause_probe.hpp"
#include "calibrate/probe/probe_shapes.hpp"
#include "calibrate/probe/product_probe.hpp"
#include "calibrate/probe/python_probe.hpp"
#include "calibrate/probe/transfer_probe.hpp"
#include "runtime/comm/process_group.hpp"
#include "runtime/comm/waiting.hpp"
#include "runtime/measure/environment.hpp"
#include "runtime/trace/span_recorder.hpp"
#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/plan/plan.hpp"

namespace pdl {
namespace {

/// A plan's words and the lists of what is measured may not contradict.
void check_plan_beside_lists(const ProbeOptions& options) {
  const auto check = [&](const char* name, const std::string& list, const std::vector<std::string>& words) {
    const SettingValue* value = find_setting(options.plan, name);
    if (!value || words.empty() || std::count(words.begin(), words.end(), value->value) > 0) return;
    throw InputError(value->place, value->value + " beside " + list + " " + list_words(words),
                     "one that is measured, or no " + list);
  };
  std::vector<std::string> dtypes;
  for (const Dtype dtype : options.dtypes) dtypes.push_back(to_string(dtype));
  check("dtype", "--dtypes", dtypes);
  check("optimizer", "--optimizers", options.optimizers);
}

/// Fills in what the user left open, for this host.
ProbeOptions resolve(ProbeOptions options) {
  const bool cuda = options.device == "cuda";
  if (!cuda && options.device != "cpu") throw InputError("--device", options.device, "cuda or cpu");
  const std::int64_t found = cuda ? static_cast<std::int64_t>(torch::cuda::device_count()) : 64;
  if (cuda && found == 0)
    throw InputError("--device", "cuda on a host without a visible GPU", "cpu, or a host with GPUs");
  if (options.gpus == 0) options.gpus = cuda ? found : 2;
  if (options.gpus < 1 || options.gpus > found) {
    throw InputError("--gpus", std::to_string(options.gpus),
                     "1 to " + std::to_string(found) + (cuda ? ", the GPUs of this host" : ""));
  }
  const auto set = [](auto& list, auto values) {
    if (list.empty()) list = values;
  };
  using Numbers = std::vector<std::int64_t>;
  if (cuda && !options.beside && options.dims.empty() && options.rows.empty()) options.transformers = true;
  if (options.random_shapes < 0) options.random_shapes = cuda && options.dims.empty() && options.rows.empty() ? 24 : 0;
  if (options.tensor_core_dims.empty())
    options.tensor_core_dims = options.dims.empty() && cuda ? Numbers{1024, 4096, 8192} : options.dims;
  if (options.rows.empty() && cuda && options.least_pipeline_rows == 0) options.least_pipeline_rows = 32;
  set(options.dims, cuda ? Numbers{1024, 2048, 4096, 8192} : Numbers{64, 128, 256, 512});
  set(options.rows, cuda ? Numbers{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096} : Numbers{4, 8, 16, 32, 64});
  if (options.tensor_core_dims.empty()) options.tensor_core_dims = options.dims;
  check_plan_beside_lists(options);
  set(options.dtypes, cuda ? std::vector<Dtype>(kAllDtypes.begin(), kAllDtypes.end()) : std::vector{Dtype::fp32});
  set(options.optimizers, std::vector<std::string>{"sgd", "adam", "adamw", "adamw-fused"});
  set(options.transports, cuda ? std::vector<std::string>{"copy", "nccl"} : std::vector<std::string>{"copy", "gloo"});
  for (std::size_t i = 0; i < options.dtypes.size(); ++i) {
    if (options.dtypes[i] == Dtype::tf32 && !cuda)
      throw InputError("--dtypes", "tf32 on CPU", "fp32: TF32 is a format of GPUs");
    if (std::count(options.dtypes.begin(), options.dtypes.end(), options.dtypes[i]) > 1)
      throw InputError("--dtypes", to_string(options.dtypes[i]) + " twice", "each once");
  }
  for (const std::string& transport : options.transports) {
    if (transport != "copy" && transport != (cuda ? "nccl" : "gloo")) {
      throw InputError("--transports", transport, cuda ? "copy or nccl" : "copy or gloo");
    }
  }
  std::sort(options.dims.begin(), options.dims.end());
  std::sort(options.rows.begin(), options.rows.end());
  std::sort(options.tensor_core_dims.begin(), options.tensor_core_dims.end());
  return options;
}

/// The step whose words were given, with as many GPUs as are measured unless another number was said.
std::optional<RunSpec> plan_of(const ProbeOptions& options) {
  if (options.plan.empty() && options.plan_gpus > 0)
    throw InputError("--plan-gpus", "it without the words of a plan", "both or none");
  if (options.plan.empty()) return std::nullopt;
  std::vector<SettingValue> words = options.plan;
  const SettingValue* strategy = find_setting(words, "strategy");
  const bool says_itself = find_setting(words, "pp") || (strategy && strategy->value == "single");
  if (options.plan_gpus > 0) {
    words.push_back({"gpus", std::to_string(options.plan_gpus), "--plan-gpus"});
  } else if (!says_itself) {
    words.push_back({"gpus", std::to_string(options.gpus), "--gpus"});
  }
  // A searched order has the shapes of every other one.
  const SettingValue* schedule = find_setting(words, "schedule");
  if (schedule && schedule->value == kAutoSchedule)
    std::erase_if(words, [](const SettingValue& word) { return word.name == "schedule"; });
  RunSpec spec = parse_run_spec(words);
  if (spec.dtype == Dtype::tf32 && options.device != "cuda")
    throw InputError("--dtype", "tf32 on CPU", "fp32: TF32 is a format of GPUs");
  return spec;
}

nlohmann::json words_of(const std::optional<RunSpec>& plan) {
  nlohmann::json words = nlohmann::json::object();
  if (!plan) return words;
  for (const SettingValue& setting : to_settings(*plan)) words[setting.name] = setting.value;
  return words;
}

/// What must be as it was where a calibration goes on.
nlohmann::json settings_of(const ProbeOptions& options, const std::optional<RunSpec>& plan) {
  std::vector<std::string> dtypes;
  for (const Dtype dtype : options.dtypes) dtypes.push_back(to_string(dtype));
  return {{"gpus", options.gpus},
          {"dims", options.dims},
          {"rows", options.rows},
          {"dtypes", dtypes},
          {"tensor_core_dims", options.tensor_core_dims},
          {"least_pipeline_rows", options.least_pipeline_rows},
          {"optimizers", options.optimizers},
          {"transports", options.transports},
          {"random_shapes", options.random_shapes},
          {"transformers", options.transformers},
          {"plan", words_of(plan)},
          {"samples_beside", options.beside ? options.beside->samples.size() : 0},
          {"date_of_samples_beside", options.beside ? options.beside->environment.value("date", "") : ""},
          {"python", options.python},
          {"seed", options.seed}};
}

/// How far the probes are, and how much time they have.
class TimeLimit {
 public:
  /// `spent_s`: before.
  TimeLimit(double limit_s, double spent_s) : begin_ns_(steady_now_ns()), limit_s_(limit_s), spent_s_(spent_s) {}

  void done(double fraction) { fraction_ = fraction; }

  double pace() const {
    return pdl::pace(spent_s_ + static_cast<double>(steady_now_ns() - begin_ns_) / 1e9, limit_s_, fraction_);
  }

 private:
  std::int64_t begin_ns_;
  double limit_s_, spent_s_;
  std::atomic<double> fraction_ = 0;
};

/// In the order in which they are measured; beside samples of a file what the plan needs alone, or Python's host times
/// and what transformers are made of.
/// Shares: seconds, as they were on 2 x H200 (136 s in all; 2026-11-29).
std::vector<ProbePart> parts_of(const ProbeOptions& options, const PlanOfProbe* plan, const RuntimeOptions& runtime,
                                const Pace& pace) {
  using Run = void (*)(const ProbeOptions&, const RuntimeOptions&, const Collect&, const Progress&);
  std::vector<ProbePart> parts;
  if (options.beside && plan) return compute_parts(options, plan, runtime, pace);
  const auto add = [&](const char* name, double share, Run run) {
    parts.push_back({name, share, [=](const Collect& collect, const Progress& progress) {
                       run(options, runtime, collect, progress);
                     }});
  };
  if (options.beside) {
    if (options.transformers) parts = compute_parts(options, plan, runtime, pace);
    if (!options.python.empty()) add("host of Python", 25, probe_python);
    return parts;
  }
  const auto gpus = static_cast<double>(options.gpus);
  add("host", 0.5, probe_host);
  add("host of data parallelism", 2, probe_data_parallel_host);
  add("pauses", 18, probe_pauses);
  if (!options.python.empty()) add("host of Python", 25, probe_python);
  add("transfers", gpus * (gpus - 1), probe_transfers);
  add("collectives", gpus - 1, probe_collectives);
  for (ProbePart& part : compute_parts(options, plan, runtime, pace)) parts.push_back(std::move(part));
  add("overlap", 3.5, probe_overlap);
  for (ProbePart& part : product_parts(options, runtime)) parts.push_back(std::move(part));
  return parts;
}

RuntimeOptions runtime_of(const ProbeOptions& options) {
  RuntimeOptions runtime;
  runtime.device = options.device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  runtime.seed = options.seed;
  runtime.learning_rate = 0;  // what is trained here stays what it is
  return runtime;
}

void set_up(const ProbeOptions& options, const RuntimeOptions& runtime) {
  allow_ranks_in_threads();
  if (runtime.device == DeviceKind::cpu) at::set_num_threads(1);
  at::globalContext().setAllowTF32CuBLAS(false);
  if (runtime.device == DeviceKind::cpu) return;
  // The first tensor of a device sets up its context and the allocator that the probes read.
  for (int worker = 0; worker < options.gpus; ++worker) {
    at::empty({1}, at::TensorOptions().device(
                       c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(runtime.device_index(worker)))));
  }
}

nlohmann::json describe_host(const ProbeOptions& options, const RuntimeOptions& runtime) {
  const auto count = static_cast<int>(options.gpus);
  nlohmann::json environment = describe_environment(runtime, count, options.command);
  if (nlohmann::json gpus = describe_gpus(runtime, count); !gpus.empty()) environment["gpus"] = std::move(gpus);
  return environment;
}

void run_part(const ProbePart& part, SampleJournal& journal, const Progress& progress) {
  const Waiting waiting("probe " + part.name);
  const std::int64_t begin_ns = steady_now_ns();
  progress(0, part.name);
  const Collect collect{[&](Sample sample) {
                          Waiting::renew();
                          journal.add(part.name, sample);
                        },
                        [&](const ProductSamples& products) {
                          Waiting::renew();
                          journal.add(part.name, products);
                        }};
  part.run(collect, [&](double fraction, const std::string& what) {
    Waiting::renew();
    progress(fraction, what);
  });
  journal.finish(part.name, static_cast<double>(steady_now_ns() - begin_ns) / 1e9);
}

}  // namespace

Samples probe_host(const ProbeOptions& given) {
  const ProbeOptions options = resolve(given);
  const std::optional<RunSpec> spec = plan_of(options);
  std::optional<PlanOfProbe> plan;
  if (spec) plan = {spec->dtype, shapes_of_plan(make_plan(*spec))};
  const RuntimeOptions runtime = runtime_of(options);
  const nlohmann::json host = [&] {
    const Waiting waiting("the devices to be set up");
    set_up(options, runtime);
    nlohmann::json described = describe_host(options, runtime);
    if (!options.python.empty()) described["python"] = python_versions(options.python, runtime);
    return described;
  }();
  if (options.beside) {
    check_same_card(options.beside->environment, host, options.beside_place, /*same_versions=*/plan.has_value());
    if (plan) remove_measured(plan->shapes, options.beside->samples);
    if (plan && runtime.device == DeviceKind::cuda)
      check_same_clock(plan->shapes, options.beside->samples, options.beside_place);
    if (options.python.empty() && !options.transformers && (!plan || plan->shapes.empty())) {
      if (options.note) options.note("nothing to measure: " + options.beside_place + " has every shape of this plan");
      return {host, {}, {}};
    }
  }
  SampleJournal journal(options.journal, host, settings_of(options, spec),
                        options.resume ? SampleJournal::Start::resume : SampleJournal::Start::anew);
  if (options.note && !journal.note().empty()) options.note(journal.note());
  TimeLimit limit(options.max_seconds, journal.seconds_before());
  const Pace pace = [&] { return limit.pace(); };
  const std::vector<ProbePart> parts = parts_of(options, plan ? &*plan : nullptr, runtime, pace);
  double all = 0, before = 0;
  for (const ProbePart& part : parts) all += part.share;
  for (const ProbePart& part : parts) {
    const Progress progress = [&](double fraction, const std::string& what) {
      const double done = (before + part.share * fraction) / all;
      limit.done(done);
      if (options.progress) options.progress(done, what);
    };
    if (!journal.has(part.name)) run_part(part, journal, progress);
    before += part.share;
  }
  return journal.samples();
}

}  // namespace pdl
