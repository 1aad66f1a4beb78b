#include "sim/study/configuration_space.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/io/error.hpp"
#include "sim/io/words.hpp"
#include "sim/spec/given_words.hpp"
#include "sim/spec/mesh.hpp"
#include "sim/spec/schedule.hpp"
#include "sim/spec/settings.hpp"
#include "sim/spec/split.hpp"
#include "sim/study/sweep_values.hpp"

namespace pdl {
namespace {

constexpr std::size_t kMostPlans = 100'000;
/// More micro-batches than so many for each GPU of a pipeline hardly shorten its bubble further (below 1 / 8 of the
/// work), and make products smaller.
constexpr std::int64_t kMicrobatchesPerStage = 8;
/// Where nothing takes turns, smaller slices only save memory.
constexpr std::int64_t kMostSlices = 16;

/// GPUs and layers: the model is made anew for every configuration, and some hundred of them are predicted GPU by GPU.
constexpr std::int64_t kMostSearched = 20'000;

/// Throws InputError for a whole number above that; what else is wrong with it is found where it is read.
void check_size(const SettingValue& word) {
  const bool whole = !word.value.empty() && word.value.find_first_not_of("0123456789") == std::string::npos;
  if (!whole || (word.value.size() < 10 && std::stol(word.value) <= kMostSearched)) return;
  throw InputError(word.place, word.value,
                   "at most " + std::to_string(kMostSearched) +
                       " in a plan, which tries hundreds of configurations (one of them alone may have more)");
}

using TriedValues = std::vector<std::string>;
const TriedValues kLeftOut = {""};

bool is_pipeline(const ChosenWords& chosen) {
  return chosen.is("strategy", "pp");
}

/// Fewer layers than GPUs in a row, or samples that replicas cannot share: refused, whatever else is chosen.
bool is_refused(const ChosenWords& chosen) {
  if (chosen.synthetic) return false;
  if (chosen.is("strategy", "mp")) return chosen.gpus() > chosen.layers;
  return is_pipeline(chosen) && (chosen.workers() > chosen.layers || chosen.batch % chosen.replicas() != 0);
}

/// AMP in pdl's own programs: on one GPU, where nothing else is said; its GradScaler always. PyTorch's pipelines have
/// both with a process a GPU.
bool has_one_thread_with_amp(const ChosenWords& chosen) {
  const std::string* dtype = chosen.find("dtype");
  if (!dtype || chosen.is("program", "pytorch")) return false;
  return *dtype == "amp-fp16" || (*dtype == "amp-bf16" && chosen.is("strategy", "single"));
}

/// nullptr: a file, "auto", or no pipeline.
const Schedule* schedule_of(const ChosenWords& chosen) {
  const std::string* name = chosen.find("schedule");
  return name ? find_schedule(*name) : nullptr;
}

TriedValues strategies(const ChosenWords& chosen) {
  if (chosen.synthetic) return kLeftOut;
  if (chosen.of_pipelines) return {"pp"};
  return chosen.gpus() == 1 ? TriedValues{"single"} : TriedValues{"pp", "ddp", "dp", "mp"};
}

TriedValues pipelines(const ChosenWords& chosen) {
  if (!is_pipeline(chosen) || chosen.synthetic || chosen.find("dp")) return kLeftOut;
  TriedValues values = kLeftOut;  // all GPUs
  for (std::int64_t workers = chosen.gpus() - 1; workers > 0; --workers) {
    // One thread for all GPUs has one replica.
    if (chosen.gpus() % workers == 0 && !has_one_thread_with_amp(chosen)) values.push_back(std::to_string(workers));
  }
  return values;
}

TriedValues schedules_tried(const ChosenWords& chosen) {
  if (chosen.synthetic ? chosen.gpus() == 1 && !chosen.of_pipelines : !is_pipeline(chosen)) return kLeftOut;
  // Stages of one GPU take turns in any order alike, but replicas exchange the gradients of a stage when it is done.
  const bool on_one_gpu = !chosen.synthetic && chosen.workers() == 1;
  if (is_refused(chosen) || (on_one_gpu && chosen.replicas() == 1)) return {"1f1b"};
  const std::int64_t given_chunks = chosen.synthetic ? chosen.whole("chunks", 1) : 0;
  const bool one_thread = chosen.is("workers", "one") || has_one_thread_with_amp(chosen);
  TriedValues values;
  for (const Schedule& schedule : schedules()) {
    if (one_thread && !schedule.same_on_every_worker) continue;
    const bool takes = given_chunks >= schedule.least_chunks && given_chunks <= schedule.most_chunks;
    const bool is_other = given_chunks == 1 && schedule.default_chunks > 1;  // it is 1f1b, zb-h1 or gpipe then
    if (chosen.synthetic && (!takes || is_other)) continue;
    if (!chosen.synthetic && schedule.default_chunks * chosen.workers() > chosen.layers) continue;
    if (on_one_gpu && schedule.default_chunks == 1 && schedule.name != std::string_view("1f1b")) continue;
    values.emplace_back(schedule.name);
  }
  return values;
}

TriedValues chunks_tried(const ChosenWords& chosen) {
  const Schedule* schedule = schedule_of(chosen);
  if (!schedule || chosen.synthetic || schedule->least_chunks == schedule->most_chunks || is_refused(chosen))
    return kLeftOut;
  const std::int64_t most = chosen.layers / chosen.workers();
  std::set<std::int64_t> numbers;
  for (std::int64_t chunks = 2; chunks <= most; chunks *= 2) numbers.insert(chunks);
  if (chosen.layers % chosen.workers() == 0 && most > 1) numbers.insert(most);  // a layer a stage
  TriedValues values;
  for (const std::int64_t chunks : numbers) {
    if (chunks <= schedule->most_chunks)
      values.push_back(chunks == schedule->default_chunks ? "" : std::to_string(chunks));
  }
  return values.empty() ? kLeftOut : values;
}

/// Those that torch.chunk makes of so many samples, and that the schedule takes.
TriedValues microbatches_tried(const ChosenWords& chosen) {
  const Schedule* schedule = schedule_of(chosen);
  const bool from_file = chosen.find("schedule") && !schedule && !chosen.is("schedule", kAutoSchedule);
  if (chosen.synthetic || is_refused(chosen) || from_file) return kLeftOut;
  const std::int64_t workers = is_pipeline(chosen) ? chosen.workers() : 1;
  const std::int64_t replicas = is_pipeline(chosen)                                           ? chosen.replicas()
                                : chosen.is("strategy", "ddp") || chosen.is("strategy", "dp") ? chosen.gpus()
                                                                                              : 1;
  if (!is_pipeline(chosen) && chosen.batch % replicas != 0) return kLeftOut;  // unequal parts are not cut further
  const std::int64_t samples = chosen.batch / replicas;
  const std::int64_t most = workers > 1 ? kMicrobatchesPerStage * workers : kMostSlices;
  std::set<std::int64_t> numbers;
  for (std::int64_t number = 1; number <= std::min(most, samples); number *= 2) {
    numbers.insert(number);
    if (number * workers <= std::min(most, samples)) numbers.insert(number * workers);
  }
  const std::int64_t chunks = chosen.whole("chunks", schedule ? schedule->default_chunks : 1);
  TriedValues values;
  for (const std::int64_t number : numbers) {
    if (std::ssize(torch_chunk(samples, number)) != number) continue;
    const ScheduleShape shape{static_cast<std::int32_t>(workers), static_cast<std::int32_t>(chunks),
                              static_cast<std::int32_t>(number)};
    if (!schedule || schedule->takes(shape)) values.push_back(std::to_string(number));
  }
  return values.empty() ? kLeftOut : values;
}

TriedValues recomputation_tried(const ChosenWords& chosen) {
  const Schedule* schedule = schedule_of(chosen);
  const bool whole_backwards = schedule && !schedule->splits_backward && schedule->placement == Placement::loop;
  const bool of_one_gpu = chosen.is("strategy", "single") && !has_one_thread_with_amp(chosen);
  if ((!whole_backwards && !of_one_gpu) || is_refused(chosen) || chosen.is("workers", "one") ||
      has_one_thread_with_amp(chosen) || chosen.is("program", "pytorch"))
    return kLeftOut;
  const std::int64_t chunks = chosen.whole("chunks", schedule ? schedule->default_chunks : 1);
  const bool neighbours_on_one_gpu = is_pipeline(chosen) && chosen.workers() == 1 && chunks > 1;
  return neighbours_on_one_gpu ? kLeftOut : TriedValues{"", "1"};
}

TriedValues workers_tried(const ChosenWords& chosen) {
  if (chosen.synthetic || is_refused(chosen) || chosen.is("recompute", "1")) return kLeftOut;
  const std::string* transport = chosen.find("transport");
  if (transport && *transport != "copy") return kLeftOut;
  const bool one_thread_anyway = has_one_thread_with_amp(chosen) || chosen.is("program", "pytorch");
  if (chosen.is("strategy", "single")) return one_thread_anyway ? kLeftOut : TriedValues{"", "one"};
  const Schedule* schedule = schedule_of(chosen);
  if (!is_pipeline(chosen) || !schedule || !schedule->same_on_every_worker || chosen.replicas() > 1) return kLeftOut;
  return has_one_thread_with_amp(chosen) ? TriedValues{"one"} : TriedValues{"", "one"};
}

TriedValues transports_tried(const ChosenWords& chosen) {
  if (!is_pipeline(chosen) || chosen.synthetic || is_refused(chosen)) return kLeftOut;
  if (chosen.is("workers", "one") || chosen.workers() == 1) return kLeftOut;
  const char* by_messages = chosen.on_cpu ? "gloo" : "nccl";
  if (chosen.is("program", "pytorch")) return kLeftOut;  // messages anyway
  if (chosen.is("workers", "process")) return {by_messages};
  return {"", by_messages};
}

TriedValues views_tried(const ChosenWords& chosen) {
  return chosen.is("strategy", "ddp") && !chosen.synthetic && chosen.gpus() > 1 ? TriedValues{"", "1"} : kLeftOut;
}

TriedValues no_sync_tried(const ChosenWords& chosen) {
  const bool exchanges = chosen.is("strategy", "ddp") ||
                         (is_pipeline(chosen) && chosen.replicas() > 1 && !chosen.is("program", "pytorch"));
  return exchanges && chosen.rounds > 1 ? TriedValues{"", "1"} : kLeftOut;
}

constexpr std::array kDimensions = {
    SearchDimension{"gpus", "", nullptr},
    SearchDimension{"program", "", nullptr},
    SearchDimension{"strategy", "all that the number of GPUs allows", strategies},
    SearchDimension{"dtype", "", nullptr},
    SearchDimension{"dp", "the GPUs / those of a pipeline", nullptr},
    SearchDimension{"pp", "every divisor of the GPUs", pipelines},
    SearchDimension{"schedule", "all that there are names of", schedules_tried},
    SearchDimension{"chunks", "powers of 2, and a layer a stage", chunks_tried},
    SearchDimension{"microbatches",
                    "powers of 2, and the pipeline's GPUs times these: of a pipeline at most 8 for each GPU, else 16",
                    microbatches_tried},
    SearchDimension{"recompute", "both, where the schedule has whole backwards", recomputation_tried},
    SearchDimension{"overlap-steps", "", nullptr},
    SearchDimension{"workers", "a thread a GPU, or one for all (processes cost what threads do)", workers_tried},
    SearchDimension{"transport", "all that the program has", transports_tried},
    SearchDimension{"p2p", "", nullptr},
    SearchDimension{"bucket-mb", "", nullptr},
    SearchDimension{"first-bucket-mb", "", nullptr},
    SearchDimension{"bucket-views", "both, for ddp", views_tried},
    SearchDimension{"no-sync", "both, where there are several gradient accumulation steps", no_sync_tried},
};

const SearchDimension* find_dimension(const std::string& name) {
  const auto found = std::find_if(kDimensions.begin(), kDimensions.end(),
                                  [&](const SearchDimension& dimension) { return name == dimension.name; });
  return found == kDimensions.end() ? nullptr : &*found;
}

/// "any" spelled out.
std::vector<SettingValue> spelled_out(std::span<const SettingValue> given) {
  std::vector<SettingValue> words(given.begin(), given.end());
  for (SettingValue& word : words) {
    if (word.name == "dtype" && word.value == kAny) word.value = "fp32,tf32,amp-fp16,amp-bf16";
    if (word.name == "program" && word.value == kAny) word.value = "pdl,pytorch";
  }
  return words;
}

/// What textbook costs are of: other numbers of these are other work.
bool is_fixed_by_textbook_costs(const std::string& name) {
  constexpr std::array kOfTheWork = {"gpus", "pp", "dp", "strategy", "chunks", "microbatches"};
  return std::find(kOfTheWork.begin(), kOfTheWork.end(), name) != kOfTheWork.end();
}

/// The values of each word that was given.
std::map<std::string, std::vector<SettingValue>> values_of(const std::vector<SettingValue>& given, bool synthetic) {
  std::map<std::string, std::vector<SettingValue>> values;
  for (const SettingValue& word : given) {
    setting_words::check_known(word);
    if (!find_dimension(word.name)) {
      const bool list = word.value.find(',') != std::string::npos && !is_synthetic_cost(word.name);
      if (list) {
        throw InputError(word.place, word.value,
                         "one value: a plan compares ways to do the same work (pdl-sim sweep takes lists)");
      }
      if (!is_synthetic_cost(word.name)) check_alone(word);
      values[word.name] = {word};
      continue;
    }
    std::vector<SettingValue>& all = values[word.name] = expand_setting(word);
    for (const SettingValue& value : all) check_alone(value);
    if (synthetic && all.size() > 1 && is_fixed_by_textbook_costs(word.name)) {
      throw InputError(word.place, word.value,
                       "one value beside synthetic costs: they are those of a stage and a micro-batch, so that "
                       "other numbers of them are other work");
    }
  }
  return values;
}

/// Fills in the configurations, depth first.
class Enumeration {
 public:
  Enumeration(const std::vector<SettingValue>& given, bool on_cpu) : chosen_{words_, {}} {
    chosen_.on_cpu = on_cpu;
    for (const SettingValue& word : given) chosen_.synthetic = chosen_.synthetic || is_synthetic_cost(word.name);
    given_ = values_of(given, chosen_.synthetic);
    for (const auto& [name, values] : given_) {
      if (!find_dimension(name)) words_.push_back(values.front());
      if (find_dimension(name) && values.size() == 1) chosen_.fixed[name] = values.front().value;
    }
    check_sizes();
    read_model();
    if (given_.contains("strategy")) return;
    for (const char* name : {"schedule", "pp", "dp", "chunks"})
      chosen_.of_pipelines = chosen_.of_pipelines || given_.contains(name);
    const auto recompute = given_.find("recompute");
    if (recompute != given_.end() && recompute->second.size() == 1 && chosen_.gpus() > 1)
      chosen_.of_pipelines = chosen_.of_pipelines || recompute->second.front().value == "1";
  }

  std::vector<Configuration> all() && {
    choose(0);
    for (const auto& [name, message] : without_meaning_) {
      if (!kept_.contains(name)) throw InputError(message);
    }
    return std::move(configurations_);
  }

 private:
  void check_sizes() const {
    for (const char* name : {"gpus", "pp", "dp", "depth"}) {
      const auto given = given_.find(name);
      if (given == given_.end()) continue;
      for (const SettingValue& value : given->second) check_size(value);
    }
  }

  void read_model() {
    std::vector<SettingValue> of_model;
    for (const SettingValue& word : words_) {
      if (is_of_model(*find_row(word.name)) || word.name == "batch" || word.name == "accum") of_model.push_back(word);
    }
    const RunSpec spec = parse_run_spec(of_model);
    const auto blocks = blocks_of(spec.model);  // a stage of a transformer has one at least
    chosen_.layers = blocks ? blocks->count : std::ssize(spec.model.layers);
    chosen_.batch = spec.batch;
    chosen_.rounds = spec.accum;
  }

  void choose(std::size_t dimension) {
    if (dimension == kDimensions.size()) return add();
    const SearchDimension& row = kDimensions[dimension];
    std::vector<SettingValue> values;
    if (const auto given = given_.find(row.name); given != given_.end()) {
      values = given->second;
    } else {
      for (const std::string& value : row.values ? row.values(chosen_) : kLeftOut)
        values.push_back({row.name, value, std::string("--") + row.name});
    }
    for (const SettingValue& value : values) {
      if (!value.value.empty()) words_.push_back(value);
      choose(dimension + 1);
      if (!value.value.empty()) words_.pop_back();
    }
  }

  /// The words as they are, without those that mean nothing beside the others; unless that is one already.
  void add() {
    Configuration configuration;
    for (const SettingRow& row : all_settings()) {
      if (const SettingValue* word = find_setting(words_, row.name)) configuration.words.push_back(*word);
    }
    for (bool again = true; again;) {
      again = false;
      try {
        parse_run_spec(configuration.words);
      } catch (const WithoutMeaning& refusal) {
        without_meaning_.try_emplace(refusal.name, refusal.what());
        std::erase_if(configuration.words, [&](const SettingValue& word) { return word.name == refusal.name; });
        again = true;
      } catch (const InputError& error) {
        configuration.refusal = error.what();
        configuration.exit_code = kExitInput;
      } catch (const CannotRun& error) {
        configuration.refusal = error.what();
        configuration.exit_code = kExitCannotRun;
      }
    }
    std::string text;
    for (const SettingValue& word : configuration.words) {
      text += word.name + "=" + word.value + "\n";
      kept_.insert(word.name);
    }
    if (!known_.insert(text).second) return;
    configurations_.push_back(std::move(configuration));
    if (configurations_.size() > kMostPlans)
      throw InputError("plan", "more than " + std::to_string(kMostPlans) + " configurations",
                       "at most that many: fewer values of a flag");
  }

  std::map<std::string, std::vector<SettingValue>> given_;
  std::vector<SettingValue> words_;
  ChosenWords chosen_;
  std::vector<Configuration> configurations_;
  std::set<std::string> known_, kept_;
  std::map<std::string, std::string> without_meaning_;  // word -> refusal
};

}  // namespace

const std::string* ChosenWords::find(const char* name) const {
  if (const SettingValue* word = find_setting(words, name)) return &word->value;
  const auto given = fixed.find(name);
  return given == fixed.end() ? nullptr : &given->second;
}

bool ChosenWords::is(const char* name, const char* value) const {
  const std::string* chosen = find(name);
  return chosen && *chosen == value;
}

std::int64_t ChosenWords::whole(const char* name, std::int64_t otherwise) const {
  const std::string* chosen = find(name);
  return chosen ? parse_whole(name, *chosen, 1, INT32_MAX) : otherwise;
}

std::int64_t ChosenWords::gpus() const {
  return whole("gpus", whole("pp", 1) * whole("dp", 1));
}

std::int64_t ChosenWords::replicas() const {
  if (find("dp")) return whole("dp", 1);
  return std::max<std::int64_t>(1, gpus() / whole("pp", gpus()));
}

std::int64_t ChosenWords::workers() const {
  return std::max<std::int64_t>(1, gpus() / replicas());
}

std::span<const SearchDimension> search_dimensions() {
  return kDimensions;
}

ConfigurationSpace configuration_space(std::span<const SettingValue> given, bool on_cpu) {
  ConfigurationSpace space;
  space.given = spelled_out(given);
  space.configurations = Enumeration(space.given, on_cpu).all();
  return space;
}

std::vector<RunSpec> kinds_of_configurations(const ConfigurationSpace& space) {
  std::map<std::string, RunSpec> kinds;
  for (const Configuration& configuration : space.configurations) {
    if (!configuration.refusal.empty()) continue;
    const RunSpec spec = parse_run_spec(configuration.words);
    const Mesh mesh = resolve(spec).mesh;
    const Schedule* schedule = named_schedule(spec);
    const std::string kind = to_string(spec.program) + to_string(spec.strategy) + to_string(spec.workers) +
                             to_string(spec.transport) + to_string(spec.dtype) + (mesh.pp > 1 ? " stages" : "") +
                             (mesh.dp > 1 ? " replicas" : "") + (schedule && schedule->splits_backward ? " split" : "");
    kinds.try_emplace(kind, spec);
  }
  std::vector<RunSpec> specs;
  for (auto& [kind, spec] : kinds) specs.push_back(std::move(spec));
  return specs;
}

}  // namespace pdl
