// A library to load before a program (LD_PRELOAD) that ends it, or fills the disk, in the middle of writing a file.
//
//   PDL_WRITE_FAULT=kill:3        killed, as by kill -9, instead of the third write to a file
//   PDL_WRITE_FAULT=kill:rename   killed once the file is written, before it has its name
//   PDL_WRITE_FAULT=full:3        from the third write on the disk is full
//
// Files are those that the program opened; its standard output and error are written as ever.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

namespace {

std::string fault() {
  const char* text = std::getenv("PDL_WRITE_FAULT");
  return text ? text : "";
}

bool is_file(int descriptor) {
  struct stat status{};
  return descriptor > STDERR_FILENO && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

/// True if this write has no room.
bool is_full_at_this_write() {
  static int writes = 0;
  ++writes;
  const std::string wanted = fault();
  const std::size_t colon = wanted.find(':');
  const int at = colon == std::string::npos ? 0 : std::atoi(wanted.c_str() + colon + 1);
  if (at == 0 || writes < at) return false;
  if (wanted.starts_with("kill")) raise(SIGKILL);
  return true;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  if (is_file(descriptor) && is_full_at_this_write()) {
    errno = ENOSPC;
    return -1;
  }
  return next<ssize_t (*)(int, const void*, std::size_t)>("write")(descriptor, bytes, count);
}

extern "C" ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (is_file(descriptor) && is_full_at_this_write()) {
    errno = ENOSPC;
    return -1;
  }
  return next<ssize_t (*)(int, const iovec*, int)>("writev")(descriptor, parts, count);
}

extern "C" int rename(const char* from, const char* to) {
  if (fault() == "kill:rename") raise(SIGKILL);
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}
