// Lines of text between processes, over TCP: one listens at a port, the others connect to it.
//
//   LineListener listener("", 29400, "MASTER_PORT");
//   LineSocket worker = *listener.accept(60);               LineSocket first = *connect_to("node0", 29400, 60, ...);
//                                                           first.write("hello");
//   worker.read()      // "hello"; nothing: the other one has gone
//
// A line is at most kLongestLine bytes, without its '\n'. Units: seconds. Not here: what the lines say, TLS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace pdl {

inline constexpr std::size_t kLongestLine = std::size_t{1} << 26;

/// An end of a connection. One thread may read while another one writes.
class LineSocket {
 public:
  explicit LineSocket(int descriptor) : descriptor_(descriptor) {}
  LineSocket(LineSocket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), buffer_(std::move(other.buffer_)), taken_(other.taken_) {}
  LineSocket& operator=(LineSocket&&) = delete;
  ~LineSocket();

  /// False: the other end has gone.
  bool write(const std::string& line);
  /// Nothing if the other end has gone, or sends more than kLongestLine bytes without a '\n'.
  std::optional<std::string> read();
  /// The same, of the first line alone: nothing too where it has not come within so many seconds.
  std::optional<std::string> read_within(double seconds);
  /// What reads or writes, here or at the other end, ends.
  void shut();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  std::string buffer_;     // received
  std::size_t taken_ = 0;  // of it, by read()
};

class LineListener {
 public:
  /// `address`: "127.0.0.1" for processes of this host only; "": from every host. Throws InputError if the port cannot
  /// be had, with `place` as its name.
  LineListener(const std::string& address, std::int64_t port, const std::string& place);
  LineListener(const LineListener&) = delete;
  LineListener& operator=(const LineListener&) = delete;
  ~LineListener();

  /// The next one that connects; nothing if none does within so many seconds.
  std::optional<LineSocket> accept(double seconds);

 private:
  int descriptor_ = -1;
};

/// Tries again until somebody listens there; nothing if nobody does within so many seconds. Throws InputError for a
/// host that is not known, with `place` as its name.
std::optional<LineSocket> connect_to(const std::string& host, std::int64_t port, double seconds,
                                     const std::string& place);

}  // namespace pdl
