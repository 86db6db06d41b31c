#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace quern {

enum class SettingType : uint8_t { Int, Real, Text };
std::string_view to_string(SettingType type);  ///< "int"

/// A row of the table of all settings.
struct SettingInfo {
  std::string_view name;
  SettingType type;
  std::string_view default_value;
  std::string_view help;
  int64_t min = 0;  ///< of Int and Real settings
  int64_t max = 0;
};

/// Every setting there is; names that tinygrad users know mean what they mean there.
std::span<const SettingInfo> all_settings();

/// Values of the settings: the defaults but for what was set. The library is given one and never reads the environment; the
/// command reads it once at start-up.
class Settings {
 public:
  /// Throws quern::Error for a name not in the table, or a value that is not of its type or range.
  void set(std::string_view name, std::string_view value);
  int64_t number(std::string_view name) const;
  double real(std::string_view name) const;
  std::string text(std::string_view name) const;
  /// As it was written, or the default.
  std::string value(std::string_view name) const;
  bool is_set(std::string_view name) const { return values_.contains(name); }

  /// Takes the settings found in an environment block (an array of "NAME=value" that ends with null).
  static Settings from_environment(const char* const* environment);

 private:
  struct Value {
    std::string text;
    double number = 0;  // whole ones are exact: no bound of a setting is beyond 2^53
  };
  double number_of(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace quern
