// Where profiles are found by name.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/io/installation.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/words.hpp"

namespace pdl {
namespace {

namespace fs = std::filesystem;

/// Passing over a folder that the user named would answer with the costs of another machine.
std::string user_folder(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw InputError("$PDL_DATA", folder + ", no folder", "a folder with NAME/profile.json in it");
  return folder;
}

std::string profile_file(const fs::path& folder) {
  return (folder / "profile.json").string();
}

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json") || text == "." || text == "..";
}

/// What was read from files, so that a process which predicts many tables reads each profile once. A file that was
/// written since (written files are renamed into place, so it is another one) is read again. Not for what throws.
template <typename Value>
class ReadOnce {
 public:
  template <typename Read>
  std::shared_ptr<const Value> of(const std::string& path, const Read& read) {
    struct stat now{};
    if (stat(path.c_str(), &now) != 0) return std::make_shared<const Value>(read());
    const State state{now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
    {
      const std::lock_guard lock(mutex_);
      const auto known = known_.find(path);
      if (known != known_.end() && known->second.first == state) return known->second.second;
    }
    auto value = std::make_shared<const Value>(read());
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(path, std::pair(state, value));
    return value;
  }

 private:
  using State = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  std::mutex mutex_;
  std::map<std::string, std::pair<State, std::shared_ptr<const Value>>> known_;
};

/// Without its curves, which are most of it: they are checked by their sum, or read.
Environment environment_of_file(const std::string& path) {
  static const std::vector<std::string> kept = {"format", "name", "environment"};
  const std::string text = read_json_text(path);
  if (const std::optional<Environment> checked = checked_environment(text, path)) return *checked;
  const nlohmann::json head = parse_json(text, path, kept);
  return read_environment(JsonPlace(head, path).at("environment"));
}

ProfileSummary summary(const std::string& name, const std::string& path) {
  ProfileSummary result{name, path, {}, ""};
  try {
    static ReadOnce<Environment> environments;
    result.environment = *environments.of(path, [&] { return environment_of_file(path); });
  } catch (const InputError& error) {
    result.error = error.what();
  }
  return result;
}

void say_folder_without_profiles(CostProfile& profile) {
  if (const std::string warning = folder_without_profiles(); !warning.empty()) profile.warnings.push_back(warning);
}

std::string known_profiles() {
  std::vector<std::string> names;
  for (const ProfileSummary& profile : list_profiles()) names.push_back(profile.name);
  return names.empty() ? "the path of a profile.json (there are no profiles in data/)"
                       : list_words(names) + ", or the path of a profile.json";
}

}  // namespace

std::vector<std::string> profile_folders() {
  std::vector<std::string> folders;
  if (const char* folder = std::getenv("PDL_DATA"); folder && *folder) folders.push_back(user_folder(folder));
  if (const std::string bundled = bundled_folder("data"); !bundled.empty()) folders.push_back(bundled);
  return folders;
}

std::string folder_without_profiles() {
  const char* folder = std::getenv("PDL_DATA");
  if (!folder || !*folder) return "";
  std::error_code error, ignored;
  for (auto entry = fs::directory_iterator(user_folder(folder), error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (fs::exists(profile_file(entry->path()), ignored)) return "";
  }
  return "$PDL_DATA, " + std::string(folder) +
         ", has no profile in it (NAME/profile.json): those that "
         "came with the program are taken";
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

std::string default_profile_name() {
  return profiles_by_preference(list_profiles()).front().name;
}

void say_chosen(CostProfile& profile, const std::string& reason, const std::vector<ProfileSummary>& all) {
  profile.chosen_as = reason;
  say_folder_without_profiles(profile);
  auto first = profile.warnings.begin();
  for (const ProfileSummary& other : all) {
    if (other.error.empty()) continue;
    first = 1 + profile.warnings.insert(first, "chosen by default, with " + other.name +
                                                   " passed over, which cannot be read: " + other.error);
  }
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
  static ReadOnce<CostProfile> profiles;
  CostProfile profile = *profiles.of(path, [&] { return profile_from_text(read_json_text(path), path); });
  if (!is_path(name_or_path)) say_folder_without_profiles(profile);
  return profile;
}

}  // namespace pdl
