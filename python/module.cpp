// The C++ side of the Python module: sim/library/pdl.hpp with docstrings. What Python's words become is in
// pdl/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "sim/library/pdl.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

pdl::Settings settings_of(const Words& words) {
  pdl::Settings settings;
  for (const auto& [name, value] : words) settings.push_back({name, value});
  return settings;
}

Words words_of(const pdl::Settings& settings) {
  Words words;
  for (const pdl::Setting& setting : settings) words.emplace_back(setting.name, setting.value);
  return words;
}

nb::typed<nb::dict, nb::str, nb::str> dict_of(const pdl::Settings& settings) {
  nb::typed<nb::dict, nb::str, nb::str> words;
  for (const pdl::Setting& setting : settings) words[setting.name.c_str()] = setting.value;
  return words;
}

/// A NumPy array that owns the numbers.
template <typename Number>
nb::object array_of(std::vector<Number> numbers) {
  auto* kept = new std::vector<Number>(std::move(numbers));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Number>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, Number, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object array_of(const std::vector<std::string>& texts) {
  return nb::module_::import_("numpy").attr("array")(texts, "dtype"_a = "str");
}

nb::dict arrays_of(pdl::SpanColumns spans) {
  nb::dict arrays;
  arrays["name"] = array_of(spans.name);
  arrays["kind"] = array_of(spans.kind);
  arrays["worker"] = array_of(std::move(spans.worker));
  arrays["stage"] = array_of(std::move(spans.stage));
  arrays["microbatch"] = array_of(std::move(spans.microbatch));
  arrays["stream"] = array_of(spans.stream);
  arrays["start_us"] = array_of(std::move(spans.start_us));
  arrays["end_us"] = array_of(std::move(spans.end_us));
  return arrays;
}

/// str.format.
template <typename... Values>
std::string text_of(const char* pattern, const Values&... values) {
  return nb::cast<std::string>(nb::str(pattern).attr("format")(values...));
}

void add_errors(nb::module_& m) {
  nb::exception<pdl::InputError> input_error(m, "InputError", PyExc_ValueError);
  input_error.attr("__doc__") =
      "The input is wrong: an unknown or contradictory setting, a value out of range, a profile that is not there. The "
      "message names what was found and what was expected.";
  nb::exception<pdl::CannotRun> cannot_run(m, "CannotRun", PyExc_RuntimeError);
  cannot_run.attr("__doc__") = "The configuration cannot run: a deadlock, or more memory than there is.";
}

void add_gpu(nb::module_& m) {
  using pdl::GpuPrediction;
  nb::class_<GpuPrediction>(m, "GpuPrediction",
                            "What one GPU does in a step: busy_ms + communication_ms + idle_ms is the step.")
      .def_ro("layers", &GpuPrediction::layers, "Layers on this GPU.")
      .def_ro("busy_ms", &GpuPrediction::busy_ms,
              "At a task of computation, waits for a slow host inside; milliseconds.")
      .def_ro("communication_ms", &GpuPrediction::communication_ms,
              "A transfer or collective runs, and no task of computation; milliseconds.")
      .def_ro("idle_ms", &GpuPrediction::idle_ms, "Neither; milliseconds.")
      .def_ro("bubble_fraction", &GpuPrediction::bubble_fraction,
              "1 - forward and backward / step; a fraction, 0 to 1.")
      .def_ro("peak_memory_bytes", &GpuPrediction::peak_memory_bytes, "As PyTorch's max_memory_allocated; bytes.")
      .def_ro("live_activations", &GpuPrediction::live_activations,
              "Most pairs of a stage and a micro-batch that are kept for a backward.")
      .def_ro("live_activation_bytes", &GpuPrediction::live_activation_bytes, "Their size; bytes.")
      .def("__repr__", [](const GpuPrediction& self) {
        return text_of("<pdl.GpuPrediction: busy {:.3f} ms, communication {:.3f} ms, idle {:.3f} ms>", self.busy_ms,
                       self.communication_ms, self.idle_ms);
      });
}

void add_traffic(nb::module_& m) {
  using pdl::Traffic;
  nb::class_<Traffic>(m, "Traffic", "Messages of one step.")
      .def_ro("count", &Traffic::count, "How many.")
      .def_ro("bytes", &Traffic::bytes, "Bytes in all.")
      .def("__repr__",
           [](const Traffic& self) { return text_of("<pdl.Traffic: {}, {} bytes>", self.count, self.bytes); });
}

void add_prediction(nb::module_& m) {
  using pdl::Prediction;
  nb::class_<Prediction>(m, "Prediction", "One predicted training step. Units are in the names.")
      .def_prop_ro(
          "settings", [](const Prediction& p) { return dict_of(p.settings); },
          "Every setting that means something, defaults filled in: the options of the command line.")
      .def_ro("profile", &Prediction::profile, "Name of the profile; empty where the settings give the costs.")
      .def_ro("step_time_ms", &Prediction::step_time_ms, "Time of one optimizer step; milliseconds.")
      .def_ro(
          "half_width_90_ms", &Prediction::half_width_90_ms,
          "90 % of measured steps lie within step_time_ms +- this; milliseconds; None where it is not known, such as "
          "where the settings give the costs.")
      .def_ro("unprobed_share", &Prediction::unprobed_share,
              "Of the work, what no probe measured exactly; a fraction, 0 to 1; None where it is not known.")
      .def_ro("probe_command", &Prediction::probe_command,
              "Where that is much, the command line of pdl-calibrate that has it probed; else empty.")
      .def_ro("bound_ms", &Prediction::bound_ms,
              "The ideal step time: the same schedule with its computation alone, no transfers, no host, no optimizer; "
              "milliseconds.")
      .def_ro("throughput_samples_per_s", &Prediction::throughput_samples_per_s,
              "Samples of a step / its time; samples per second.")
      .def_ro("bubble_fraction", &Prediction::bubble_fraction,
              "1 - forward and backward / (GPUs x step); a fraction, 0 to 1.")
      .def_ro("idle_fraction", &Prediction::idle_fraction, "Idle time / (GPUs x step); a fraction, 0 to 1.")
      .def_ro("host_share", &Prediction::host_share,
              "What a host that took no time would save, as a fraction of the step; None where the settings give the "
              "costs.")
      .def_ro("parameters", &Prediction::parameters, "Of the model.")
      .def_ro("peak_memory_bytes", &Prediction::peak_memory_bytes, "Of the GPU that needs most; bytes.")
      .def_ro("transfers", &Prediction::transfers, "Messages between GPUs.")
      .def_ro("collectives", &Prediction::collectives, "Collectives, one each however many GPUs take part.")
      .def_ro("gpus", &Prediction::gpus, "What each GPU does.")
      .def_ro("warnings", &Prediction::warnings, "What was not measured and how it was estimated, and other doubts.")
      .def(
          "spans", [](const Prediction& p) { return arrays_of(p.spans()); },
          nb::sig("def spans(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "Every task of the step, as NumPy arrays of equal length, ready for pandas.DataFrame: name ('F0'), kind "
          "('forward'), worker (the GPU), stage, microbatch (-1: of all), stream, start_us and end_us (microseconds "
          "from "
          "the start of the step).")
      .def("json", &Prediction::json, "What `pdl-sim --json -` prints of it: text, units in the keys.")
      .def("__repr__", [](const Prediction& self) {
        return text_of("<pdl.Prediction: step {:.3f} ms, bubble {:.1%}, {} GPUs>", self.step_time_ms,
                       self.bubble_fraction, self.gpus.size());
      });
}

nb::dict numbers_of(const pdl::PredictedRow& row) {
  nb::dict numbers;
  const auto add = [&](const char* name, auto value) {
    numbers[name] = row.refused.empty() ? nb::cast(value) : nb::none();
  };
  add("step_time_ms", row.step_time_ms);
  add("half_width_90_ms", row.half_width_90_ms);
  add("unprobed_share", row.unprobed_share);
  add("bound_ms", row.bound_ms);
  add("throughput_samples_per_s", row.throughput_samples_per_s);
  add("speedup", row.speedup);
  add("efficiency", row.efficiency);
  add("exposed_communication_fraction", row.exposed_communication_fraction);
  add("bubble_fraction", row.bubble_fraction);
  add("idle_fraction", row.idle_fraction);
  add("peak_memory_bytes", row.peak_memory_bytes);
  add("live_activations", row.live_activations);
  add("live_activation_bytes", row.live_activation_bytes);
  add("steps_overlap", row.steps_overlap);
  numbers["within_memory_limit"] = row.within_memory_limit;
  numbers["warnings"] = row.warnings;
  numbers["refused"] = row.refused.empty() ? nb::none() : nb::cast(row.refused);
  return numbers;
}

/// (settings, numbers) of each row.
nb::list rows_of(const Words& words, const pdl::TableOptions& options) {
  pdl::PredictedTable table;
  {
    const nb::gil_scoped_release others_run;
    table = pdl::predict_all(settings_of(words), options);
  }
  nb::list rows;
  for (const pdl::PredictedRow& row : table.rows) {
    rows.append(nb::make_tuple(words_of(row.settings), numbers_of(row)));
  }
  return rows;
}

nb::dict numbers_of(const pdl::PlannedConfiguration& row) {
  nb::dict numbers;
  numbers["verdict"] = row.verdict;
  numbers["step_time_ms"] = row.step_time_ms;
  numbers["half_width_90_ms"] = row.half_width_90_ms;
  numbers["unprobed_share"] = row.unprobed_share;
  numbers["bubble_fraction"] = row.bubble_fraction;
  numbers["idle_fraction"] = row.idle_fraction;
  numbers["exposed_communication_fraction"] = row.exposed_communication_fraction;
  numbers["peak_memory_bytes"] = row.peak_memory_bytes;
  numbers["steps_overlap"] = row.steps_overlap;
  numbers["measured_ms"] = row.measured_ms;
  numbers["behind_by"] = row.behind_by == "none" ? nb::none() : nb::cast(row.behind_by);
  numbers["warnings"] = row.warnings;
  return numbers;
}

/// (settings, numbers) of each of the best, and what is of all.
nb::tuple plan_of(const Words& words, const pdl::PlanOptions& options) {
  pdl::PlannedTable table;
  {
    const nb::gil_scoped_release others_run;
    table = pdl::plan(settings_of(words), options);
  }
  nb::list best;
  for (const pdl::PlannedConfiguration& row : table.best)
    best.append(nb::make_tuple(words_of(row.settings), numbers_of(row)));
  nb::dict of_all;
  of_all["profile"] = table.profile;
  of_all["memory_limit_bytes"] = table.memory_limit_bytes;
  of_all["configurations"] = table.configurations;
  of_all["predicted"] = table.predicted;
  nb::dict lost;
  for (const auto& [loss, count] : table.lost) lost[loss.c_str()] = count;
  of_all["lost"] = lost;
  of_all["faster_with_more_memory"] = nb::none();
  if (const auto& more = table.faster_with_more_memory) {
    nb::dict faster = dict_of(more->settings);
    faster["peak_memory_bytes"] = more->peak_memory_bytes;
    faster["step_time_ms"] = more->step_time_ms;
    of_all["faster_with_more_memory"] = faster;
  }
  return nb::make_tuple(best, of_all);
}

void add_profile(nb::module_& m) {
  using pdl::KnownProfile;
  nb::class_<KnownProfile>(m, "KnownProfile", "A machine that was measured: predictions can be made for it.")
      .def_ro("name", &KnownProfile::name, "What profile= takes.")
      .def_ro("path", &KnownProfile::path, "Its file.")
      .def_ro("device", &KnownProfile::device, "'cuda' or 'cpu'.")
      .def_ro("card", &KnownProfile::card, "'NVIDIA H200'.")
      .def_ro("count", &KnownProfile::count, "Cards of the machine.")
      .def_ro("measured", &KnownProfile::measured, "Date and time, UTC.")
      .def_ro("error", &KnownProfile::error, "Why it cannot be read; empty if it can.")
      .def("__repr__", [](const KnownProfile& self) {
        return text_of("<pdl.KnownProfile {}: {} x {}>", self.name, self.count, self.card);
      });
}

void add_setting(nb::module_& m) {
  using pdl::KnownSetting;
  nb::class_<KnownSetting>(m, "KnownSetting", "A setting that pdl knows.")
      .def_ro("name", &KnownSetting::name, "Of the command line: 'bucket-mb' is the keyword bucket_mb.")
      .def_ro("values", &KnownSetting::values, "What it takes: 'N', 'sgd|adam'.")
      .def_ro("help", &KnownSetting::help, "What it means, with its unit and default.")
      .def("__repr__",
           [](const KnownSetting& self) { return text_of("<pdl.KnownSetting {} {}>", self.name, self.values); });
}

}  // namespace

NB_MODULE(_pdl, m) {
  m.doc() = "The C++ side of pdl; use `import pdl`.";
  add_errors(m);
  add_gpu(m);
  add_traffic(m);
  add_prediction(m);
  add_profile(m);
  add_setting(m);
  m.def(
      "predict",
      [](const Words& words, const std::string& profile, const std::string& memory) {
        return pdl::predict(settings_of(words), {profile, memory});
      },
      "words"_a, "profile"_a, "memory"_a, nb::call_guard<nb::gil_scoped_release>(), "One prediction.");
  m.def(
      "predict_all",
      [](const Words& words, const std::string& profile, const std::string& memory, const std::string& scaling,
         std::int64_t threads) { return rows_of(words, {profile, memory, scaling, threads}); },
      "words"_a, "profile"_a, "memory"_a, "scaling"_a, "threads"_a,
      nb::sig(
          "def predict_all(words: collections.abc.Sequence[tuple[str, str]], profile: str, memory: str, scaling: str, "
          "threads: int) -> list[tuple[list[tuple[str, str]], dict[str, typing.Any]]]"),
      "Settings and numbers of every combination.");
  m.def(
      "plan",
      [](const Words& words, const std::string& profile, const std::string& memory, std::int64_t best,
         std::int64_t threads) { return plan_of(words, {profile, memory, best, threads}); },
      "words"_a, "profile"_a, "memory"_a, "best"_a, "threads"_a,
      nb::sig("def plan(words: collections.abc.Sequence[tuple[str, str]], profile: str, memory: str, best: int, "
              "threads: int) -> tuple[list[tuple[list[tuple[str, str]], dict[str, typing.Any]]], "
              "dict[str, typing.Any]]"),
      "Settings and numbers of the best configurations, and what is of all.");
  m.def("profiles", &pdl::known_profiles, "The profiles there are, by name.");
  m.def("settings", &pdl::known_settings, "The settings that pdl knows.");
  m.def("version", &pdl::version, "The version of the simulator.");
  m.def("set_files_folder", &pdl::set_files_folder, "folder"_a, "Where data/ and scenarios/ are.");
}
