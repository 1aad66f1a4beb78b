#include "runtime/measure/environment.hpp"

#include <dlfcn.h>
#include <torch/version.h>

#include <ctime>
#include <fstream>
#include <thread>

#if PDL_CUDA
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>
#endif

namespace pdl {
namespace {

/// The few functions of NVML that are read, looked up by name: the library comes with the driver, not with the toolkit.
class Nvml {
 public:
  static const Nvml& instance() {
    static const Nvml nvml;
    return nvml;
  }

  std::optional<std::string> driver() const {
    char text[96] = {};
    using Call = int (*)(char*, unsigned);
    const auto call = find<Call>("nvmlSystemGetDriverVersion");
    if (!call || call(text, sizeof text) != 0) return std::nullopt;
    return text;
  }

  std::optional<unsigned> sm_clock_mhz(const char* pci) const {
    return number(pci, "nvmlDeviceGetClockInfo", kSmClock);
  }
  std::optional<unsigned> largest_sm_clock_mhz(const char* pci) const {
    return number(pci, "nvmlDeviceGetMaxClockInfo", kSmClock);
  }
  std::optional<unsigned> power_mw(const char* pci) const { return number(pci, "nvmlDeviceGetPowerUsage"); }
  std::optional<unsigned> power_limit_mw(const char* pci) const {
    return number(pci, "nvmlDeviceGetPowerManagementLimit");
  }

 private:
  static constexpr int kSmClock = 1;  // NVML_CLOCK_SM

  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    using Init = int (*)();
    const auto init = find<Init>("nvmlInit_v2");
    if (!init || init() != 0) library_ = nullptr;
  }

  template <typename Call>
  Call find(const char* name) const {
    return library_ ? reinterpret_cast<Call>(dlsym(library_, name)) : nullptr;
  }

  void* device(const char* pci) const {
    void* handle = nullptr;
    using Call = int (*)(const char*, void**);
    const auto call = find<Call>("nvmlDeviceGetHandleByPciBusId_v2");
    return call && call(pci, &handle) == 0 ? handle : nullptr;
  }

  template <typename... Arguments>
  std::optional<unsigned> number(const char* pci, const char* name, Arguments... arguments) const {
    unsigned value = 0;
    using Call = int (*)(void*, Arguments..., unsigned*);
    const auto call = find<Call>(name);
    void* handle = device(pci);
    if (!call || !handle || call(handle, arguments..., &value) != 0) return std::nullopt;
    return value;
  }

  void* library_;
};

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

#if PDL_CUDA

std::string version(int number, int major, int minor) {
  return std::to_string(number / major) + "." + std::to_string(number % major / minor);
}

std::optional<std::string> pci_bus_id(int device) {
  char text[32] = {};
  if (cudaDeviceGetPCIBusId(text, sizeof text, device) != cudaSuccess) return std::nullopt;
  return text;
}

void describe_card(const RuntimeOptions& options, nlohmann::json& environment) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, options.device_index(0)) != cudaSuccess) return;
  environment["card"] = properties.name;
  environment["multiprocessors"] = properties.multiProcessorCount;
  environment["memory_capacity_bytes"] = static_cast<std::int64_t>(properties.totalGlobalMem);
  int runtime = 0, nccl = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) environment["cuda"] = version(runtime, 1000, 10);
  if (ncclGetVersion(&nccl) == ncclSuccess) {
    environment["nccl"] = version(nccl, 10000, 100) + "." + std::to_string(nccl % 100);
  }
  const std::size_t cublas = cublasLtGetVersion();
  environment["cublas"] = version(static_cast<int>(cublas), 10000, 100) + "." + std::to_string(cublas % 100);
  if (const auto driver = Nvml::instance().driver()) environment["driver"] = *driver;
}

nlohmann::json describe_gpu(int device) {
  nlohmann::json gpu = nlohmann::json::object();
  const auto pci = pci_bus_id(device);
  if (!pci) return gpu;
  const Nvml& nvml = Nvml::instance();
  if (const auto mhz = nvml.sm_clock_mhz(pci->c_str())) gpu["sm_clock_mhz"] = *mhz;
  if (const auto mhz = nvml.largest_sm_clock_mhz(pci->c_str())) gpu["largest_sm_clock_mhz"] = *mhz;
  if (const auto mw = nvml.power_mw(pci->c_str())) gpu["power_w"] = *mw / 1000.0;
  if (const auto mw = nvml.power_limit_mw(pci->c_str())) gpu["power_limit_w"] = *mw / 1000.0;
  return gpu;
}

#endif

}  // namespace

CardState read_card_state(c10::Device device) {
  CardState state;
#if PDL_CUDA
  if (!device.is_cuda()) return state;
  const auto pci = pci_bus_id(device.index());
  if (!pci) return state;
  const Nvml& nvml = Nvml::instance();
  if (const auto mhz = nvml.sm_clock_mhz(pci->c_str())) state.sm_clock_mhz = *mhz;
  if (const auto mw = nvml.power_mw(pci->c_str())) state.power_w = *mw / 1000.0;
#else
  (void)device;
#endif
  return state;
}

nlohmann::json describe_gpus([[maybe_unused]] const RuntimeOptions& options, [[maybe_unused]] int workers) {
  nlohmann::json gpus = nlohmann::json::array();
#if PDL_CUDA
  for (int worker = 0; options.device == DeviceKind::cuda && worker < workers; ++worker) {
    if (options.is_local(worker)) gpus.push_back(describe_gpu(options.device_index(worker)));
  }
#endif
  return gpus;
}

nlohmann::json describe_environment(const RuntimeOptions& options, int workers, const std::string& command) {
  nlohmann::json environment;
  environment["device"] = options.device == DeviceKind::cuda ? "cuda" : "cpu";
  environment["count"] = workers;
  environment["cpu"] = cpu_model();
  environment["cores"] = std::thread::hardware_concurrency();
  environment["torch"] = TORCH_VERSION;
  environment["date"] = utc_date();
  environment["command"] = command;
#if PDL_CUDA
  if (options.device == DeviceKind::cuda) describe_card(options, environment);
#endif
  if (!environment.contains("card")) environment["card"] = environment["cpu"];
  return environment;
}

}  // namespace pdl
