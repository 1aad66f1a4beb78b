#include "sim/spec/schedule.hpp"

#include <array>

namespace pdl {
namespace {

constexpr std::array kSchedules = {
    Schedule{"naive", "model parallelism without pipelining (practical 9, option A)",
             "each micro-batch forward, then backward, before the next one starts", naive_order},
    Schedule{"gpipe", "Huang et al., GPipe, NeurIPS 2019, arXiv:1811.06965",
             "all forwards, then all backwards", gpipe_order},
    Schedule{"1f1b", "Narayanan et al., PipeDream, SOSP 2019; PipeDream-Flush, arXiv:2006.09503",
             "P-1-s warm-up forwards on stage s, then one forward and one backward in turn", one_f_one_b_order},
};

}  // namespace

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule& schedule : kSchedules) {
    if (schedule.name == name) return &schedule;
  }
  return nullptr;
}

}  // namespace pdl
