// A second stream of a device for work that need not come next.
//
//   SideStream side(device);
//   side.run([&] { ... });       // issued now; starts after what the current stream holds, beside what follows there
//   side.join();                 // what the current stream gets from now on starts after it
//
// On CPU the work runs at once. Not here: which work may run beside which.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace pdl {

class SideStream {
 public:
  explicit SideStream(c10::Device device);
  ~SideStream();
  void run(const std::function<void()>& work);
  void join();

 private:
  struct Cuda;
  std::unique_ptr<Cuda> cuda_;  // null on CPU
};

}  // namespace pdl
