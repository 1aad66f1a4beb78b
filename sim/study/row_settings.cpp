#include "sim/study/row_settings.hpp"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <mutex>
#include <unordered_set>

namespace pdl {
namespace {

struct HashOfSetting {
  std::size_t operator()(const SettingValue& setting) const {
    std::size_t hash = 0;
    boost::hash_combine(hash, setting.name);
    boost::hash_combine(hash, setting.value);
    boost::hash_combine(hash, setting.place);
    return hash;
  }
};

struct SameSetting {
  bool operator()(const SettingValue& a, const SettingValue& b) const {
    return a.name == b.name && a.value == b.value && a.place == b.place;
  }
};

/// Of all sweeps; what is in it is not moved.
struct Stored {
  std::mutex mutex;
  std::unordered_set<SettingValue, HashOfSetting, SameSetting> settings;
};

Stored& stored() {
  static Stored all;
  return all;
}

}  // namespace

RowSettings::RowSettings(const std::vector<SettingValue>& settings) {
  values_.reserve(settings.size());
  const std::lock_guard lock(stored().mutex);
  for (const SettingValue& setting : settings) values_.push_back(&*stored().settings.insert(setting).first);
}

const SettingValue* find_setting(const RowSettings& settings, const std::string& name) {
  const auto found =
      std::find_if(settings.begin(), settings.end(), [&](const SettingValue& setting) { return setting.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

}  // namespace pdl
