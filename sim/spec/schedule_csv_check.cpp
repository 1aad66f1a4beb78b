#include "sim/spec/schedule_csv_check.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

namespace pdl {
namespace {

constexpr std::array kMessageKinds = {OperationKind::send_forward, OperationKind::receive_forward,
                                      OperationKind::send_backward, OperationKind::receive_backward};

/// What the file has of one stage and micro-batch; null where it has none.
struct ActionGroup {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  std::array<const CellOperation*, 8> found{};

  const CellOperation* operator[](OperationKind kind) const { return found[static_cast<std::size_t>(kind)]; }
  const CellOperation* forward() const { return (*this)[OperationKind::forward]; }
  const CellOperation* whole() const { return (*this)[OperationKind::backward]; }
  const CellOperation* input() const { return (*this)[OperationKind::backward_input]; }
  const CellOperation* weight() const { return (*this)[OperationKind::backward_weight]; }
  /// What makes the gradient that the stage before waits for.
  const CellOperation* gradient() const { return whole() ? whole() : input(); }
  bool has_backward() const { return whole() || input() || weight(); }
  bool complete() const { return forward() && (whole() || (input() && weight())); }
};

/// An operation that has to come before another one on its rank.
struct Precedence {
  const CellOperation* first;
  const CellOperation* then;
};

class OrderCheck {
 public:
  explicit OrderCheck(const CsvOrder& order) : order_(order), shape_(order.shape) { group_actions(); }

  std::string result() const {
    for (const ActionGroup& group : groups_) check_group(group);
    if (!order_.has_transfers) {
      if (!is_complete()) refuse_incomplete();
      return "";
    }
    const bool whole = is_complete();
    for (const ActionGroup& group : groups_) {
      if (whole) check_has_messages(group);
      check_other_ends(group);
    }
    return whole ? "" : missing_parts();
  }

 private:
  std::int32_t rank_of(std::int32_t stage) const { return worker_of_stage(order_.placement, shape_.workers, stage); }

  /// A message goes between this stage and the next one.
  bool crosses_after(std::int32_t stage) const {
    return stage >= 0 && stage + 1 < shape_.stages() && rank_of(stage) != rank_of(stage + 1);
  }

  std::string name(OperationKind kind, const ActionGroup& group) const {
    return written_action(order_, kind, group.stage, group.microbatch);
  }

  std::string name(const CellOperation& at) const {
    return written_action(order_, at.operation.kind, at.operation.stage, at.operation.microbatch);
  }

  std::string backward_names(const ActionGroup& group) const {
    return name(OperationKind::backward, group) + " (or " + name(OperationKind::backward_input, group) + " and " +
           name(OperationKind::backward_weight, group) + ")";
  }

  static std::string seat(const CellOperation& at) { return "position " + std::to_string(at.position); }

  [[noreturn]] void refuse(const CellOperation& at, const std::string& found, const std::string& expected) const {
    refuse_cell(order_, at, found, expected);
  }

  /// Sorts by stage and micro-batch. Refuses an action that the file has twice.
  void group_actions() {
    std::vector<std::tuple<std::int32_t, std::int32_t, std::size_t>> sorted;  // stage, micro-batch, place in the file
    sorted.reserve(order_.operations.size());
    for (const CellOperation& at : order_.operations)
      sorted.emplace_back(at.operation.stage, at.operation.microbatch, sorted.size());
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [stage, microbatch, index] : sorted) {
      const CellOperation* at = &order_.operations[index];
      if (groups_.empty() || groups_.back().stage != stage || groups_.back().microbatch != microbatch)
        groups_.push_back({stage, microbatch, {}});
      const CellOperation*& slot = groups_.back().found[static_cast<std::size_t>(at->operation.kind)];
      if (slot) refuse(*at, name(*at) + " a second time (the first is at " + seat(*slot) + ")", "every action once");
      slot = at;
    }
  }

  const ActionGroup* find_group(std::int32_t stage, std::int32_t microbatch) const {
    const auto place = std::lower_bound(groups_.begin(), groups_.end(), std::tuple(stage, microbatch),
                                        [](const ActionGroup& group, const auto& wanted) {
                                          return std::tuple(group.stage, group.microbatch) < wanted;
                                        });
    const bool found = place != groups_.end() && place->stage == stage && place->microbatch == microbatch;
    return found ? &*place : nullptr;
  }

  /// Holds for a part of a step too: what is there is in order and does not contradict itself.
  void check_group(const ActionGroup& group) const {
    const auto* half = group.input() ? group.input() : group.weight();
    if (group.whole() && half) {
      const auto* later = group.whole()->sequence > half->sequence ? group.whole() : half;
      const auto* earlier = later == half ? group.whole() : half;
      refuse(*later, name(*later) + " beside " + name(*earlier) + " (" + seat(*earlier) + ")",
             "either " + name(OperationKind::backward, group) + " or " + name(OperationKind::backward_input, group) +
                 " and " + name(OperationKind::backward_weight, group) + " for one micro-batch");
    }
    using enum OperationKind;
    for (const Precedence& rule :
         {Precedence{group.forward(), group.whole()}, Precedence{group.forward(), group.input()},
          Precedence{group.forward(), group.weight()}, Precedence{group.input(), group.weight()}})
      if (rule.first && rule.then && rule.then->sequence < rule.first->sequence)
        refuse(*rule.then, name(*rule.then) + " before " + name(*rule.first) + " (" + seat(*rule.first) + ")",
               name(*rule.first) + " first");
    for (const OperationKind kind : kMessageKinds)
      if (group[kind]) check_message_is_possible(*group[kind]);
    for (const Precedence& rule :
         {Precedence{group.forward(), group[send_forward]}, Precedence{group[receive_forward], group.forward()},
          Precedence{group.gradient(), group[send_backward]}, Precedence{group[receive_backward], group.gradient()}})
      if (rule.first && rule.then && rule.then->sequence < rule.first->sequence)
        refuse(*rule.then, name(*rule.then) + " before " + name(*rule.first) + " (" + seat(*rule.first) + ")",
               "a message sent after the action that makes it and received before the one that needs it");
  }

  void check_message_is_possible(const CellOperation& at) const {
    using enum OperationKind;
    const OperationKind kind = at.operation.kind;
    const std::int32_t stage = at.operation.stage;
    const bool with_next = kind == send_forward || kind == receive_backward;
    const std::int32_t other = with_next ? stage + 1 : stage - 1;
    if (other < 0 || other >= shape_.stages())
      refuse(at, name(at),
             std::string("no message there: stage ") + std::to_string(stage) +
                 (with_next ? " is the last one" : " is the first one"));
    if (rank_of(other) == rank_of(stage))
      refuse(at, name(at),
             "no message: stages " + std::to_string(stage) + " and " + std::to_string(other) + " are both on rank " +
                 std::to_string(rank_of(stage)));
  }

  bool is_complete() const {
    const std::int64_t all = std::int64_t{shape_.stages()} * shape_.microbatches;
    return std::ssize(groups_) == all &&
           std::all_of(groups_.begin(), groups_.end(), [](const ActionGroup& group) { return group.complete(); });
  }

  [[noreturn]] void refuse_incomplete() const {
    for (const ActionGroup& group : groups_)
      if (group.weight() && !group.input())
        refuse(*group.weight(), "no " + name(OperationKind::backward_input, group),
               name(OperationKind::backward_input, group) + " before it");
    refuse_gap("stage", shape_.stages(), &Operation::stage);
    refuse_gap("micro-batch", shape_.microbatches, &Operation::microbatch);
    std::int64_t next = 0;  // the group that is due
    for (const ActionGroup& group : groups_) {
      if (group.stage != next / shape_.microbatches || group.microbatch != next % shape_.microbatches) break;
      if (!group.complete()) refuse_part_of_group(group);
      ++next;
    }
    refuse_absent_group(static_cast<std::int32_t>(next / shape_.microbatches),
                        static_cast<std::int32_t>(next % shape_.microbatches));
  }

  /// An index that occurs nowhere below one that does: a mistyped number, most likely the largest one.
  void refuse_gap(const std::string& what, std::int32_t count, std::int32_t Operation::* index) const {
    std::vector<bool> occurs(static_cast<std::size_t>(count));
    for (const CellOperation& at : order_.operations) occurs[static_cast<std::size_t>(at.operation.*index)] = true;
    const auto gap = std::find(occurs.begin(), occurs.end(), false);
    if (gap == occurs.end()) return;
    const auto largest = std::find_if(order_.operations.begin(), order_.operations.end(),
                                      [&](const CellOperation& at) { return at.operation.*index == count - 1; });
    refuse(*largest,
           what + " " + std::to_string(count - 1) + ", but no " + what + " " + std::to_string(gap - occurs.begin()),
           "every " + what + " from 0 to the largest");
  }

  [[noreturn]] void refuse_part_of_group(const ActionGroup& group) const {
    using enum OperationKind;
    if (!group.forward())
      refuse(group.gradient() ? *group.gradient() : *group.weight(), "no " + name(forward, group),
             name(forward, group) + " before it");
    if (!group.has_backward()) refuse(*group.forward(), "no backward of it", backward_names(group) + " after it");
    refuse(*group.input(), "no " + name(backward_weight, group),
           name(backward_weight, group) + " after it" +
               (order_.letters_of_2024 ? " (the file has W and no I: B is read as the input gradient)" : ""));
  }

  [[noreturn]] void refuse_absent_group(std::int32_t stage, std::int32_t microbatch) const {
    const ActionGroup group{stage, microbatch, {}};
    const auto same = std::find_if(order_.operations.begin(), order_.operations.end(),
                                   [&](const CellOperation& at) { return at.operation.microbatch == microbatch; });
    const std::int32_t rank = rank_of(stage);
    refuse_cell(
        order_, rank, static_cast<std::int32_t>(order_.cells[static_cast<std::size_t>(rank)].size()),
        "neither " + name(OperationKind::forward, group) + " nor a backward of it in the row",
        name(OperationKind::forward, group) + " and " + backward_names(group) + ": micro-batch " +
            std::to_string(microbatch) + " occurs at rank " + std::to_string(same->rank) + ", " + seat(*same) +
            ", cell " +
            cell_text(order_.cells[static_cast<std::size_t>(same->rank)][static_cast<std::size_t>(same->position)]));
  }

  void check_has_messages(const ActionGroup& group) const {
    using enum OperationKind;
    const auto need = [&](OperationKind kind, const CellOperation* compute, bool after, std::int32_t other) {
      if (group[kind]) return;
      refuse(*compute, "no " + name(kind, group),
             name(kind, group) + (after ? " after it" : " before it") + ": stage " + std::to_string(other) +
                 " is on rank " + std::to_string(rank_of(other)));
    };
    if (crosses_after(group.stage)) {
      need(send_forward, group.forward(), true, group.stage + 1);
      need(receive_backward, group.gradient(), false, group.stage + 1);
    }
    if (crosses_after(group.stage - 1)) {
      need(receive_forward, group.forward(), false, group.stage - 1);
      need(send_backward, group.gradient(), true, group.stage - 1);
    }
  }

  /// A receive needs its send; a send needs its receive if the action that uses the message is in the file.
  void check_other_ends(const ActionGroup& group) const {
    using enum OperationKind;
    check_ends(group, group.stage + 1, send_forward, receive_forward);
    check_ends(group, group.stage - 1, send_backward, receive_backward);
    for (const auto& [kind, sent, from] : {std::tuple{receive_forward, send_forward, group.stage - 1},
                                           std::tuple{receive_backward, send_backward, group.stage + 1}}) {
      if (!group[kind]) continue;
      const ActionGroup* sender = find_group(from, group.microbatch);
      const std::string message = written_action(order_, sent, from, group.microbatch);
      if (!sender || !(*sender)[sent])
        refuse(*group[kind], "a message that nobody sends", message + " on rank " + std::to_string(rank_of(from)));
    }
  }

  void check_ends(const ActionGroup& group, std::int32_t to, OperationKind send, OperationKind receive) const {
    if (!group[send]) return;
    const ActionGroup* receiver = find_group(to, group.microbatch);
    if (!receiver || (*receiver)[receive]) return;
    const CellOperation* user = send == OperationKind::send_forward ? receiver->forward() : receiver->gradient();
    if (user)
      refuse(*group[send], "a message that nobody receives",
             written_action(order_, receive, to, group.microbatch) + " on rank " + std::to_string(user->rank) +
                 " before " + name(*user) + " (" + seat(*user) + ")");
  }

  /// "2 forwards, 1 backward and 3 messages are missing, among them 0F0, 0B0, 1F0"
  std::string missing_parts() const {
    using enum OperationKind;
    const std::int64_t all = std::int64_t{shape_.stages()} * shape_.microbatches;
    std::int64_t forwards = all, backwards = all, halves = 0, messages = 0, boundaries = 0;
    for (const ActionGroup& group : groups_) {
      if (group.forward()) --forwards;
      if (group.has_backward()) --backwards;
      if ((group.input() == nullptr) != (group.weight() == nullptr)) ++halves;
      for (const OperationKind kind : kMessageKinds)
        if (group[kind]) --messages;
    }
    for (std::int32_t stage = 0; stage + 1 < shape_.stages(); ++stage)
      if (crosses_after(stage)) ++boundaries;
    messages += boundaries * shape_.microbatches * std::ssize(kMessageKinds);

    std::vector<std::string> parts;
    const auto count = [&](std::int64_t number, const std::string& what) {
      if (number > 0) parts.push_back(std::to_string(number) + " " + what + (number == 1 ? "" : "s"));
    };
    count(forwards, "forward");
    count(backwards, "backward");
    count(halves, "half backward");
    count(messages, "SEND or RECV action");
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i)
      text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
    return text + (parts.size() == 1 && parts[0].starts_with("1 ") ? " is" : " are") + " missing, among them " +
           first_missing_actions();
  }

  std::string first_missing_actions() const {
    using enum OperationKind;
    constexpr std::size_t kShown = 4;
    std::vector<std::string> names;
    for (std::int64_t next = 0; names.size() < kShown && next < std::int64_t{shape_.stages()} * shape_.microbatches;
         ++next) {
      const ActionGroup absent{static_cast<std::int32_t>(next / shape_.microbatches),
                               static_cast<std::int32_t>(next % shape_.microbatches),
                               {}};
      const ActionGroup* found = find_group(absent.stage, absent.microbatch);
      const ActionGroup& group = found ? *found : absent;
      if (!group.forward()) names.push_back(name(forward, group));
      if (!group.has_backward()) names.push_back(name(backward, group));
      if (group.input() && !group.weight()) names.push_back(name(backward_weight, group));
      if (group.weight() && !group.input()) names.push_back(name(backward_input, group));
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
    return text;
  }

  const CsvOrder& order_;
  const ScheduleShape shape_;
  std::vector<ActionGroup> groups_;  // by stage, then micro-batch; only those that the file has something of
};

}  // namespace

std::string check_order(const CsvOrder& order) {
  return OrderCheck(order).result();
}

}  // namespace pdl
