#include "sim/io/error.hpp"
#include "sim/predict/predict.hpp"

namespace pdl {

std::optional<CostProfile> choose_costs(bool synthetic, const std::optional<std::string>& profile,
                                        const std::function<std::vector<RunSpec>()>& specs) {
  if (synthetic && profile) {
    throw InputError("--profile", *profile + " beside synthetic costs", "either a profile or --tf and --tb");
  }
  if (synthetic) return std::nullopt;
  return profile ? load_profile(*profile) : load_default_profile(specs());
}

}  // namespace pdl
