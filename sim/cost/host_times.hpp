// What the host takes beside the issue of kernels, from the entries of a profile's probe `host`.
//
//   HostTimes host(profile, "pipeline", kMedianHost, notices);
//   host.of("transfer_issue", {.transport = "copy"})      // 6416.75
//
// An entry of the same name but another implementation, transport or number of workers is taken where there is no
// better one, and said. Units: nanoseconds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cost/cost_profile.hpp"
#include "sim/cost/notices.hpp"

namespace pdl {

struct HostKey {
  std::string transport = {};
  std::int64_t workers = 0;  // 0: whatever their number
};

class HostTimes {
 public:
  /// `quantile`: of the times that were measured. Profile and notices must outlive this.
  HostTimes(const CostProfile& profile, std::string implementation, double quantile, Notices& notices)
      : profile_(profile), implementation_(std::move(implementation)), quantile_(quantile), notices_(notices) {}

  /// 0 if the profile has no such name; `needed`: then say_missing() says it. `calls`: of it in a step, of the GPU with
  /// most; asked for only where a substitute is said.
  double of(
      const std::string& name, const HostKey& key, bool needed,
      const std::function<std::int64_t()>& calls = [] { return 1; });

  void say_missing() const;

 private:
  const CostProfile& profile_;
  std::string implementation_;
  double quantile_;
  Notices& notices_;
  std::vector<std::string> missing_;
};

}  // namespace pdl
