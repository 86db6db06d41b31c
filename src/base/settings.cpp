#include "base/settings.h"

#include <array>
#include <charconv>
#include <cmath>

#include <quern/error.h>

#include "base/shown.h"

namespace quern {

namespace {

constexpr std::array kTable = {
    SettingInfo{"DEBUG", SettingType::Int, "0",
                "what the command tells on the way: 1 opts and times, 2 also the source", 0, 9},
    SettingInfo{"NOOPT", SettingType::Int, "0", "1: no opts where none are asked for", 0, 1},
    SettingInfo{"TC", SettingType::Int, "1", "tensor cores: 0 off, 1 the instruction, 2 its shape only, 3 emulated", 0,
                3},
    SettingInfo{"TC_OPT", SettingType::Int, "0", "which matmuls get tensor cores: 0 plain, 1 also casts, 2 also padded",
                0, 2},
    SettingInfo{"ALLOW_TF32", SettingType::Int, "0",
                "1: float matmuls may use tensor cores that round what they multiply to 10 bits of mantissa (tf32)", 0,
                1},
    SettingInfo{"CC", SettingType::Text, "",
                "the C compiler of device CLANG; empty: the first of clang and cc that is found"},
    SettingInfo{"PATH", SettingType::Text, "/usr/local/bin:/usr/bin:/bin",
                "folders where the C compiler is looked for"},
    SettingInfo{"TMPDIR", SettingType::Text, "/tmp", "where device CLANG keeps files while it compiles"},
    SettingInfo{"QUERN_CACHE", SettingType::Text, "",
                "where compiled programs are kept: a file, or off; empty: quern/cache.db in the user's cache"},
    SettingInfo{"QUERN_CACHE_SIZE", SettingType::Int, "1024",
                "MiB of compiled programs to keep; the least recently used go first", 0, int64_t{1} << 40},
    SettingInfo{"QUERN_THREADS", SettingType::Int, "0",
                "threads that device CPU runs a kernel on; 0: as many as the process may use", 0, 1024},
    SettingInfo{
        "BEAM", SettingType::Int, "0",
        "kernels that each step of a search goes on from; where it is not 0, run searches for opts that are not known",
        0, 1000},
    SettingInfo{"BEAM_PADTO", SettingType::Int, "1", "1: a search also pads axes", 0, 1},
    SettingInfo{"BEAM_UPCAST_MAX", SettingType::Int, "256", "lanes that a search upcasts and unrolls to at most", 1,
                int64_t{1} << 20},
    SettingInfo{"BEAM_LOCAL_MAX", SettingType::Int, "1024", "threads that a search gives a group at most", 1,
                int64_t{1} << 20},
    SettingInfo{"BEAM_UOPS_MAX", SettingType::Int, "3000", "UOps that a search's programs have less of; 0: any number",
                0, int64_t{1} << 30},
    SettingInfo{"BEAM_MIN_PROGRESS", SettingType::Real, "0.01",
                "microseconds; a search ends with the step that gains less", 0, 1'000'000},
    SettingInfo{"BEAM_TIMEOUT_SEC", SettingType::Int, "10", "seconds after which a search gives up a candidate", 1,
                86'400},
    SettingInfo{"PARALLEL", SettingType::Int, "0", "threads that a search compiles on; 0: one a processor", 0, 1024},
    SettingInfo{"IGNORE_BEAM_CACHE", SettingType::Int, "0", "1: search again for what is known", 0, 1},
    SettingInfo{"QUERN_TUNED", SettingType::Text, "",
                "where opts that searches found are kept: a file, or off; empty: quern/tuned.db in the user's cache"},
    SettingInfo{"XDG_CACHE_HOME", SettingType::Text, "", "the user's cache folder; empty: .cache in HOME"},
    SettingInfo{"HOME", SettingType::Text, "", "the user's folder; with neither, nothing is kept"},
    SettingInfo{"QUERN_RECORD", SettingType::Text, "",
                "a file to record every kernel in that is met, for quern replay compare"},
    SettingInfo{"QUERN_OPENCL_DEVICE", SettingType::Text, "",
                "which OpenCL device: platform:device, numbers or parts of their names; empty: the first that works"},
    SettingInfo{"CUDA_PATH", SettingType::Text, "",
                "the CUDA toolkit's folder, for NVRTC and its headers; empty: where the system finds them"},
    SettingInfo{"QUERN_DUMP", SettingType::Text, "",
                "stages to print on the way, separated by commas; all: every stage"},
};

const SettingInfo& find(std::string_view name) {
  for (const SettingInfo& row : kTable)
    if (row.name == name) return row;
  std::string known;
  for (const SettingInfo& row : kTable) known += (known.empty() ? "" : ", ") + std::string(row.name);
  throw Error("no setting is called " + in_quotes(name) + ": there are " + known);
}

double to_number(const SettingInfo& row, std::string_view value) {
  const bool whole = row.type == SettingType::Int;
  int64_t integer = 0;
  double number = 0;
  const char* begin = value.data();
  const char* end = begin + value.size();
  auto [stop, error] = whole ? std::from_chars(begin, end, integer) : std::from_chars(begin, end, number);
  if (error != std::errc{} || stop != end || std::isnan(number))
    throw Error("setting " + std::string(row.name) + " takes a number, not " + in_quotes(value));
  if (whole ? integer < row.min || integer > row.max
            : number < static_cast<double>(row.min) || number > static_cast<double>(row.max))
    throw Error("setting " + std::string(row.name) + " takes " + std::to_string(row.min) + " to " +
                std::to_string(row.max) + ", not " + std::string(value));
  return whole ? static_cast<double>(integer) : number;
}

void expect_type(const SettingInfo& row, SettingType type) {
  if (row.type != type) throw InternalError("setting " + std::string(row.name) + " read as another type than its own");
}

}  // namespace

std::string_view to_string(SettingType type) {
  return type == SettingType::Int ? "int" : type == SettingType::Real ? "real" : "text";
}

std::span<const SettingInfo> all_settings() { return kTable; }

void Settings::set(std::string_view name, std::string_view value) {
  const SettingInfo& row = find(name);
  if (value.find('\0') != value.npos)
    throw Error("setting " + std::string(row.name) + " takes text without zero bytes, not " + in_quotes(value));
  const double number = row.type == SettingType::Text ? 0 : to_number(row, value);
  values_[std::string(name)] = Value{std::string(value), number};
}

int64_t Settings::number(std::string_view name) const {
  expect_type(find(name), SettingType::Int);
  return static_cast<int64_t>(number_of(name));
}

double Settings::real(std::string_view name) const {
  expect_type(find(name), SettingType::Real);
  return number_of(name);
}

double Settings::number_of(std::string_view name) const {
  auto found = values_.find(name);
  if (found != values_.end()) return found->second.number;
  const SettingInfo& row = find(name);
  return to_number(row, row.default_value);
}

std::string Settings::text(std::string_view name) const {
  expect_type(find(name), SettingType::Text);
  return value(name);
}

std::string Settings::value(std::string_view name) const {
  auto found = values_.find(name);
  return found != values_.end() ? found->second.text : std::string(find(name).default_value);
}

Settings Settings::from_environment(const char* const* environment) {
  Settings settings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    std::string_view entry = *environment;
    size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    for (const SettingInfo& row : kTable)
      if (row.name == entry.substr(0, equals)) settings.set(row.name, entry.substr(equals + 1));
  }
  return settings;
}

}  // namespace quern
