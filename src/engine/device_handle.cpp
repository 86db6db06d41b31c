#include "engine/device_handle.h"

#include "target/target.h"

namespace quern {

namespace {

Settings settings_of(const SettingValues& values) {
  Settings settings;
  for (const auto& [name, value] : values) settings.set(name, value);
  return settings;
}

}  // namespace

std::vector<DeviceSummary> list_devices(const SettingValues& settings) {
  std::vector<DeviceSummary> all;
  for (DeviceInfo& info : devices(settings_of(settings)))
    all.push_back({std::move(info.name), info.available, std::move(info.note)});
  return all;
}

std::vector<std::string> list_targets() { return target_names(); }

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const SettingInfo& row : all_settings()) names.emplace_back(row.name);
  return names;
}

DeviceHandle::DeviceHandle(const std::string& name, const SettingValues& settings) {
  std::shared_ptr<Device> device = open_device(name, settings_of(settings));
  std::string known_as = device->name();
  impl_ = std::make_shared<const Impl>(Impl{std::move(device), std::move(known_as)});
}

const std::string& DeviceHandle::name() const { return impl_->name; }
const std::string& DeviceHandle::target() const { return impl_->device->default_target().name; }
bool DeviceHandle::accepts(const std::string& target) const { return impl_->device->accepts(find_target(target)); }

}  // namespace quern
