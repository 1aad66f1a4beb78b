#include "sim/study/sweep_journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "sim/io/error.hpp"
#include "sim/io/json_place.hpp"

namespace pdl {
namespace {

constexpr const char* kFormat = "pdl-sweep-rows-1";

std::string head_line(const SweepIdentity& identity) {
  const nlohmann::ordered_json head = {
      {"format", kFormat}, {"sweep", identity.sweep}, {"costs", identity.costs}, {"rows", identity.rows}};
  return head.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void check_head(const std::string& line, const std::string& path, const SweepIdentity& identity) {
  const nlohmann::json document = parse_json(line, path + ": line 1");
  const JsonPlace head(document, path + ": line 1");
  if (head.at("format").text() != kFormat) head.at("format").refuse("\"" + std::string(kFormat) + "\"");
  const std::string again = "; without the file, or with another name, the sweep begins anew";
  if (head.at("sweep").text() != identity.sweep ||
      head.at("rows").whole(0, INT64_MAX) != static_cast<std::int64_t>(identity.rows)) {
    throw InputError(path, "rows of the sweep " + head.at("sweep").text(), "those of " + identity.sweep + again);
  }
  if (head.at("costs").text() != identity.costs)
    throw InputError(path, "rows predicted by " + head.at("costs").text(), identity.costs + again);
}

}  // namespace

SweepJournal::SweepJournal(const std::string& path, const SweepIdentity& identity) : path_(path) {
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw InputError(path, "a file that cannot be written (" + std::string(std::strerror(errno)) + ")",
                     "a writable place");
  try {
    struct stat status{};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
      throw InputError(path, "no regular file", "the name of a file for rows of a sweep");
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
      throw InputError(path, "a file that another sweep is writing", "one file for each");
    read(identity);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SweepJournal::~SweepJournal() {
  close(descriptor_);
}

void SweepJournal::read(const SweepIdentity& identity) {
  std::string text;
  std::array<char, 1 << 16> part;
  for (ssize_t came = 0; (came = ::read(descriptor_, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(came));
  std::size_t begin = 0, line = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string content = text.substr(begin, end - begin);
    const std::string place = path_ + ": line " + std::to_string(++line);
    if (line == 1) check_head(content, path_, identity);
    if (line > 1) found_.push_back(parse_record(content, place, identity.rows));
  }
  if (line == 0 && !text.empty() && !head_line(identity).starts_with(text))
    throw InputError(path_, "no rows of a sweep", "a file that --resume wrote, or the name of a new one");
  if (ftruncate(descriptor_, static_cast<off_t>(begin)) != 0)  // a line that was cut off
    throw InputError(path_, "a file that cannot be written (" + std::string(std::strerror(errno)) + ")",
                     "a writable place");
  if (line == 0) write(head_line(identity));
}

void SweepJournal::add(const SweepRecord& record) {
  write(to_line(record));
}

void SweepJournal::write(const std::string& line) {
  const std::string text = line + "\n";
  const std::lock_guard lock(mutex_);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw InputError(path_, "a file that cannot be written (" + std::string(std::strerror(errno)) + ")",
                       "space on the disk");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace pdl
