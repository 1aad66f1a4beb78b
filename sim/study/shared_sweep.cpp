#include "sim/study/shared_sweep.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"
#include "sim/io/number_text.hpp"

namespace pdl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRowsAtOnce = 16;  // a thread: short enough for all to end together
constexpr double kGreeting_s = 5;
constexpr const char* kPort = "environment variable MASTER_PORT";

std::string place_of(const Ranks& ranks) {
  return ranks.address + ":" + std::to_string(ranks.port);
}

std::string line_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Of this host only, where rank 0 is spoken to as such.
std::string listening_address(const Ranks& ranks) {
  return ranks.address == "127.0.0.1" || ranks.address == "localhost" ? "127.0.0.1" : "";
}

/// What a rank says of itself, or nothing: somebody else has connected.
std::optional<nlohmann::json> parse_greeting(const std::optional<std::string>& line) {
  if (!line) return std::nullopt;
  nlohmann::json greeting = nlohmann::json::parse(*line, nullptr, false);
  const bool whole = greeting.is_object() && greeting.contains("rank") && greeting["rank"].is_number_integer() &&
                     greeting.contains("threads") && greeting["threads"].is_number_integer() &&
                     greeting.contains("job") && greeting.contains("sweep") && greeting.contains("costs");
  return whole ? std::optional(std::move(greeting)) : std::nullopt;
}

}  // namespace

SharedSweep::SharedSweep(const Ranks& ranks, const SweepIdentity& identity, RowQueue& queue,
                         std::function<void(const std::string&)> take_record, double longest_wait_s)
    : ranks_(ranks),
      identity_(identity),
      queue_(queue),
      take_record_(std::move(take_record)),
      longest_wait_s_(longest_wait_s),
      listener_(listening_address(ranks), ranks.port, kPort),
      acceptor_([this] { accept_ranks(); }) {}

SharedSweep::~SharedSweep() {
  fail(nullptr);
  if (acceptor_.joinable()) acceptor_.join();
  for (const auto& member : members_) {
    if (member->thread.joinable()) member->thread.join();
  }
}

void SharedSweep::fail(std::exception_ptr problem) {
  const std::lock_guard lock(mutex_);
  const bool is_over = served_ == ranks_.size - 1;
  if (!is_over && !problem_) problem_ = problem ? problem : std::make_exception_ptr(CannotRun("the sweep was stopped"));
  queue_.stop();
  for (const auto& member : members_) {
    if (problem_) member->socket.shut();
  }
}

bool SharedSweep::done() const {
  const std::lock_guard lock(mutex_);
  return problem_ || served_ == ranks_.size - 1;
}

void SharedSweep::finish() {
  acceptor_.join();
  for (const auto& member : members_) member->thread.join();
  if (problem_) std::rethrow_exception(problem_);
}

void SharedSweep::accept_ranks() {
  const auto end = Clock::now() + std::chrono::duration<double>(longest_wait_s_);
  std::set<std::int64_t> known;
  try {
    while (std::ssize(known) < ranks_.size - 1) {
      {
        const std::lock_guard lock(mutex_);
        if (problem_) return;
      }
      if (Clock::now() >= end) {
        throw CannotRun(std::to_string(known.size() + 1) + " of " + std::to_string(ranks_.size) +
                        " ranks have come to " + place_of(ranks_) + " within " + fixed(longest_wait_s_, 0) +
                        " s (environment variables MASTER_ADDR and MASTER_PORT: where the others look for rank 0)");
      }
      std::optional<LineSocket> socket = listener_.accept(0.1);
      if (!socket) continue;
      std::int64_t threads = 1;
      const std::optional<std::int64_t> rank = greet(*socket, threads);
      if (!rank) continue;
      if (!known.insert(*rank).second) throw CannotRun("rank " + std::to_string(*rank) + " has come twice");
      const std::lock_guard lock(mutex_);
      members_.push_back(std::make_unique<Member>(Member{*rank, std::move(*socket), {}}));
      members_.back()->thread =
          std::thread([this, member = members_.back().get(), threads] { serve(*member, threads); });
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

std::optional<std::int64_t> SharedSweep::greet(LineSocket& socket, std::int64_t& threads) {
  const std::optional<nlohmann::json> greeting = parse_greeting(socket.read_within(kGreeting_s));
  if (!greeting || (*greeting)["job"] != ranks_.job) return std::nullopt;
  const auto rank = (*greeting)["rank"].get<std::int64_t>();
  threads = (*greeting)["threads"].get<std::int64_t>();
  if (rank < 1 || rank >= ranks_.size || threads < 1) return std::nullopt;
  std::string other;
  if ((*greeting)["sweep"] != identity_.sweep) other = "another sweep";
  if ((*greeting)["costs"] != identity_.costs) other = line_of((*greeting)["costs"]);
  if (other.empty()) return rank;
  const std::string expected = "what rank 0 has: " + identity_.sweep + ", " + identity_.costs;
  socket.write(line_of({{"refused", other}, {"expected", expected}}));
  throw InputError("rank " + std::to_string(rank), other, expected);
}

void SharedSweep::serve(Member& member, std::int64_t threads) {
  try {
    while (true) {
      const std::vector<std::size_t> rows = queue_.take(kRowsAtOnce * static_cast<std::size_t>(threads));
      if (rows.empty()) break;
      nlohmann::json order = nlohmann::json::object();
      order["rows"] = rows;
      bool is_there = member.socket.write(line_of(order));
      for (std::size_t i = 0; is_there && i < rows.size(); ++i) {
        const std::optional<std::string> record = member.socket.read();
        is_there = record.has_value();
        if (record) take_record_(*record);
      }
      if (!is_there)
        throw CannotRun("rank " + std::to_string(member.rank) + " has ended before its rows were predicted");
    }
    const std::lock_guard lock(mutex_);
    if (problem_) return;  // the others are told nothing: their connection ends
    member.socket.write(line_of({{"end", ""}}));
    ++served_;
  } catch (...) {
    fail(std::current_exception());
  }
}

void work_for_sweep(const Ranks& ranks, const SweepIdentity& identity, std::int64_t threads,
                    const std::function<std::vector<std::string>(const std::vector<std::size_t>&)>& predict,
                    double longest_wait_s) {
  std::optional<LineSocket> socket =
      connect_to(ranks.address, ranks.port, longest_wait_s, "environment variable MASTER_ADDR");
  if (!socket) {
    throw CannotRun("no rank 0 at " + place_of(ranks) + " within " + fixed(longest_wait_s, 0) +
                    " s (environment variables MASTER_ADDR and MASTER_PORT say where it is)");
  }
  socket->write(line_of({{"rank", ranks.rank},
                         {"threads", threads},
                         {"job", ranks.job},
                         {"sweep", identity.sweep},
                         {"costs", identity.costs}}));
  while (true) {
    const std::optional<std::string> line = socket->read();
    if (!line) throw CannotRun("rank 0 has ended before the sweep");
    const nlohmann::json document = parse_json(*line, "rank 0");
    const JsonPlace order(document, "rank 0");
    if (order.has("end")) return;
    if (order.has("refused"))
      throw InputError("rank " + std::to_string(ranks.rank), order.at("refused").text(), order.at("expected").text());
    const JsonPlace places = order.at("rows");
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < places.array().size(); ++i) {
      rows.push_back(static_cast<std::size_t>(places.at(i).whole(0, static_cast<std::int64_t>(identity.rows) - 1)));
    }
    for (const std::string& record : predict(rows)) {
      if (!socket->write(record)) throw CannotRun("rank 0 has ended before the sweep");
    }
  }
}

}  // namespace pdl
