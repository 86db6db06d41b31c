#include "runtime/opencl/platforms.h"

#include <algorithm>
#include <cctype>

namespace quern::opencl {

namespace {

std::string platform_text(cl_platform_id platform, cl_platform_info what) {
  return text_of([&](size_t bytes, void* value, size_t* needed) {
    return clGetPlatformInfo(platform, what, bytes, value, needed);
  });
}

std::string why_unusable(cl_device_id device) {
  if (!device_value<cl_bool>(device, CL_DEVICE_AVAILABLE)) return "not available";
  if (!device_value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE)) return "its driver has no compiler";
  if (!device_value<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE)) return "big endian";
  return {};
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

bool contains(std::string_view text, std::string_view part) {
  auto same = [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool part_matches(std::string_view wanted, std::string_view number, std::string_view name) {
  return is_number(wanted) ? wanted == number : contains(name, wanted);
}

}  // namespace

std::string Found::text() const {
  return place + " " + device_name + " of " + platform_name + (unusable.empty() ? "" : " (" + unusable + ")");
}

std::vector<Found> find_devices() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> platforms(count);
  if (count == 0 || clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return {};
  std::vector<Found> found;
  for (size_t p = 0; p < platforms.size(); ++p) {
    cl_uint many = 0;
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, nullptr, &many) != CL_SUCCESS || many == 0) continue;
    std::vector<cl_device_id> devices(many);
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, many, devices.data(), nullptr) != CL_SUCCESS) continue;
    for (size_t d = 0; d < devices.size(); ++d)
      found.push_back({platforms[p], devices[d], std::to_string(p) + ":" + std::to_string(d),
                       platform_text(platforms[p], CL_PLATFORM_NAME), device_text(devices[d], CL_DEVICE_NAME),
                       device_text(devices[d], CL_DEVICE_VERSION), why_unusable(devices[d])});
  }
  return found;
}

bool is_wanted(const Found& found, std::string_view wanted) {
  size_t colon = wanted.find(':'), own = found.place.find(':');
  std::string_view platform = wanted.substr(0, colon);
  std::string_view device = colon == std::string_view::npos ? std::string_view() : wanted.substr(colon + 1);
  return part_matches(platform, std::string_view(found.place).substr(0, own), found.platform_name) &&
         part_matches(device, std::string_view(found.place).substr(own + 1), found.device_name);
}

std::optional<Found> choose(const std::vector<Found>& all, std::string_view wanted, std::string& why) {
  if (all.empty()) {
    why = "no OpenCL driver is installed";
    return std::nullopt;
  }
  std::string list;
  for (const Found& f : all) {
    if (f.unusable.empty() && is_wanted(f, wanted)) return f;
    list += (list.empty() ? "" : ", ") + f.text();
  }
  why = wanted.empty() ? "none can be used: " + list
                       : "no device that can be used matches '" + std::string(wanted) +
                             "' (setting QUERN_OPENCL_DEVICE); there are " + list;
  return std::nullopt;
}

}  // namespace quern::opencl
