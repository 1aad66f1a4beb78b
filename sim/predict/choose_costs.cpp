#include "sim/io/error.hpp"
#include "sim/predict/auto_split.hpp"
#include "sim/predict/predict.hpp"

namespace pdl {

std::optional<CostProfile> choose_costs(bool synthetic, const std::optional<std::string>& profile,
                                        const std::function<std::vector<RunSpec>()>& specs) {
  if (synthetic && profile) {
    throw InputError("--profile", *profile + " beside synthetic costs", "either a profile or --tf and --tb");
  }
  if (synthetic) return std::nullopt;
  if (profile) return load_profile(*profile);
  std::vector<RunSpec> kinds = specs();
  for (RunSpec& spec : kinds) spec = evenly_split(std::move(spec));
  return load_default_profile(kinds);
}

}  // namespace pdl
