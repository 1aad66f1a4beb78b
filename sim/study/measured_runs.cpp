#include "sim/study/measured_runs.hpp"

#include <algorithm>

#include "sim/cost/cost_profile.hpp"
#include "sim/io/error.hpp"
#include "sim/run/run_json.hpp"
#include "sim/run/run_name.hpp"

namespace pdl {

namespace fs = std::filesystem;

namespace {
constexpr const char* kOfPyTorch = "_pytorch";  // at the end of a folder's name
}

fs::path runs_folder(const std::string& profile) {
  const std::vector<ProfileSummary> named = list_profiles();
  const auto found =
      std::find_if(named.begin(), named.end(), [&](const ProfileSummary& p) { return p.name == profile; });
  const fs::path path = found != named.end() ? fs::path(found->path) : fs::path(profile);
  return (fs::is_directory(path) ? path : path.parent_path()) / "runs";
}

std::vector<fs::path> runs_of_other_hosts(const std::string& profile_path) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(profile_path).parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("runs_on_host_") && !name.ends_with(kOfPyTorch)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::optional<RunResult> find_measured(const fs::path& folder, const RunSpec& spec) {
  const std::string file = run_name(spec) + ".json";
  fs::path path = folder / file;
  if (!fs::exists(path) && spec.program == ProgramOf::pytorch) path = fs::path(folder.string() + kOfPyTorch) / file;
  if (!fs::exists(path)) return std::nullopt;
  RunResult run = read_run(path.string());
  if (!run.measured || !same_run(run.spec, spec)) {
    throw InputError(path.string(), run.measured ? describe(run.spec) : "a predicted run",
                     "a measured run of " + describe(spec));
  }
  return run;
}

}  // namespace pdl
