#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quern/compiled_kernel.h"

namespace quern {

/// Settings by name (`quern settings` lists them); values as text.
using SettingValues = std::map<std::string, std::string>;

struct DeviceSummary {
  std::string name;
  bool available;
  std::string note;  ///< what it is, or why it is absent
};

/// The default device first. Throws Error for a setting there is not, as below.
std::vector<DeviceSummary> list_devices(const SettingValues& settings = {});
/// Names of all targets.
std::vector<std::string> list_targets();
/// Names of all settings.
std::vector<std::string> setting_names();

/// An open device. Copies are the same one. May be used by several threads at once.
class DeviceHandle {
 public:
  /// Throws DeviceError that says what is missing, or lists the known names.
  explicit DeviceHandle(const std::string& name, const SettingValues& settings = {});

  const std::string& name() const;
  const std::string& target() const;              ///< what it compiles for by itself
  bool accepts(const std::string& target) const;  ///< whether it runs programs of that target

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace quern
