// Where profiles are found by name.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "sim/cost/cost_profile.hpp"
#include "sim/spec/error.hpp"
#include "sim/spec/installation.hpp"
#include "sim/spec/json_place.hpp"
#include "sim/spec/words.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

/// Passing over a folder that the user named would answer with the costs of another machine.
std::string user_folder(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) throw InputError("$PDL_DATA", folder + ", no folder", "a folder with NAME/profile.json in it");
  return folder;
}

std::string profile_file(const fs::path& folder) {
  return (folder / "profile.json").string();
}

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json") || text == "." || text == "..";
}

/// Everything of a profile's file but its curves, which are most of it.
nlohmann::json read_head(const std::string& path) {
  static const std::vector<std::string> kept = {"format", "name", "environment"};
  return read_json_file(path, kept);
}

ProfileSummary summary(const std::string& name, const std::string& path) {
  ProfileSummary result{name, path, {}, ""};
  try {
    const nlohmann::json head = read_head(path);
    result.environment = read_environment(JsonPlace(head, path).at("environment"));
  } catch (const InputError& error) {
    result.error = error.what();
  }
  return result;
}

std::string known_profiles() {
  std::vector<std::string> names;
  for (const ProfileSummary& profile : list_profiles()) names.push_back(profile.name);
  return names.empty() ? "the path of a profile.json (there are no profiles in data/)"
                       : list_words(names) + ", or the path of a profile.json";
}

/// Replicas exchange gradients: with DDP and DataParallel on one GPU too, as far as the choice of a profile goes.
bool exchanges_gradients(const RunSpec& spec) { return replica_count(spec) > 1 || is_data_parallel(spec); }

/// Collectives where replicas exchange gradients, layers of the data type.
bool has_what_is_needed(const CostProfile& profile, std::span<const RunSpec> specs) {
  const auto layers = profile.of(Probe::layer);
  return std::all_of(specs.begin(), specs.end(), [&](const RunSpec& spec) {
    const std::string dtype = to_string(spec.dtype);
    const auto of_dtype = [&](const MeasuredCurve& layer) { return layer.key.dtype == dtype; };
    return (!exchanges_gradients(spec) || !profile.of(Probe::collective).empty()) &&
           std::any_of(layers.begin(), layers.end(), of_dtype);
  });
}

/// What the choice is by, beside the size of the host: "collectives", "collectives and layers in tf32"; empty for
/// what every profile has.
std::string needs_text(std::span<const RunSpec> specs) {
  std::vector<std::string> needs;
  const auto add = [&](const std::string& need) {
    if (std::find(needs.begin(), needs.end(), need) == needs.end()) needs.push_back(need);
  };
  for (const RunSpec& spec : specs) {
    if (exchanges_gradients(spec)) add("collectives");
  }
  for (const RunSpec& spec : specs) {
    if (spec.dtype != Dtype::fp32) add("layers in " + to_string(spec.dtype));
  }
  std::string text;
  for (const std::string& need : needs) text += (text.empty() ? "" : " and ") + need;
  return text;
}

}  // namespace

std::vector<std::string> profile_folders() {
  std::vector<std::string> folders;
  if (const char* folder = std::getenv("PDL_DATA"); folder && *folder) folders.push_back(user_folder(folder));
  if (const std::string bundled = bundled_folder("data"); !bundled.empty()) folders.push_back(bundled);
  return folders;
}

std::vector<ProfileSummary> list_profiles() {
  std::map<std::string, ProfileSummary> by_name;
  for (const std::string& folder : profile_folders()) {
    std::error_code error;
    for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      const std::string path = profile_file(entry->path());
      std::error_code ignored;
      if (fs::is_regular_file(path, ignored) && !by_name.contains(name)) by_name.emplace(name, summary(name, path));
    }
  }
  std::vector<ProfileSummary> profiles;
  for (auto& [name, profile] : by_name) profiles.push_back(std::move(profile));
  return profiles;
}

std::vector<ProfileSummary> profiles_by_preference(std::vector<ProfileSummary> profiles) {
  const std::string reason =
      profiles.empty() ? "no profile in data/" : "no readable profile (" + profiles.front().error + ")";
  std::erase_if(profiles, [](const ProfileSummary& profile) { return !profile.error.empty(); });
  if (profiles.empty()) {
    throw InputError("--profile", reason, "one written by pdl-calibrate, or synthetic costs (--tf, --tb)");
  }
  const auto rank = [](const ProfileSummary& profile) {
    return std::pair(profile.environment.device == "cuda", profile.environment.count);
  };
  std::stable_sort(profiles.begin(), profiles.end(), [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
  return profiles;
}

std::string default_profile_name() { return profiles_by_preference(list_profiles()).front().name; }

void say_chosen(CostProfile& profile, const std::string& reason, const std::vector<ProfileSummary>& all) {
  profile.chosen_as = reason;
  auto first = profile.warnings.begin();
  for (const ProfileSummary& other : all) {
    if (other.error.empty()) continue;
    first = 1 + profile.warnings.insert(first, "chosen by default, with " + other.name + " passed over, which cannot be read: " + other.error);
  }
}

CostProfile load_default_profile(std::span<const RunSpec> specs) {
  const std::vector<ProfileSummary> all = list_profiles(), profiles = profiles_by_preference(all);
  const std::string largest = "the largest host in data/", needs = needs_text(specs);
  CostProfile chosen = load_profile(profiles.front().path);
  std::string reason = needs.empty() ? largest : largest + " with " + needs;
  if (!needs.empty() && !has_what_is_needed(chosen, specs)) {
    bool found = false;
    for (std::size_t i = 1; i < profiles.size() && !found; ++i) {
      CostProfile profile = load_profile(profiles[i].path);
      found = has_what_is_needed(profile, specs);
      if (found) chosen = std::move(profile);
    }
    if (!found) reason = largest + "; none has " + needs;
  }
  say_chosen(chosen, reason, all);
  return chosen;
}

CostProfile load_profile(const std::string& name_or_path) {
  std::error_code ignored;
  std::string path;
  if (is_path(name_or_path)) {
    path = fs::is_directory(name_or_path, ignored) ? profile_file(name_or_path) : name_or_path;
  } else {
    for (const std::string& folder : profile_folders()) {
      path = profile_file(fs::path(folder) / name_or_path);
      if (!name_or_path.empty() && fs::is_regular_file(path, ignored)) break;
      path.clear();
    }
    if (path.empty()) throw InputError("--profile", "\"" + name_or_path + "\"", known_profiles());
  }
  return profile_from_json(read_json_file(path), path);
}

}  // namespace pdl
