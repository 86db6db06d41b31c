#include "runtime/cached_device.h"

#include <utility>

#include "quern/error.h"

#include "base/log.h"

namespace quern {

namespace {

class CachedDevice final : public Device {
 public:
  CachedDevice(std::shared_ptr<Device> device, std::shared_ptr<BinaryCache> cache)
      : device_(std::move(device)), cache_(std::move(cache)) {}

  std::string name() const override { return device_->name(); }
  const Target& default_target() const override { return device_->default_target(); }
  bool accepts(const Target& target) const override { return device_->accepts(target); }
  std::string identity() const override { return device_->identity(); }
  std::string compiled_source(const Program& program) const override { return device_->compiled_source(program); }
  bool survives_fork() const override { return device_->survives_fork(); }
  std::string tuning_identity() const override { return device_->tuning_identity(); }
  std::unique_ptr<Executable> load(const Program& program, std::string_view binary) override {
    return device_->load(program, binary);
  }

  std::unique_ptr<Executable> compile(const Program& program) override {
    std::string identity = accepts(*program.target) ? device_->identity() : "";
    if (identity.empty()) return device_->compile(program);
    std::string source = device_->compiled_source(program), flags = name();
    CacheKey key{source, identity, flags};
    if (std::optional<std::string> binary = cache_->find(key)) {
      try {
        return device_->load(program, *binary);
      } catch (const CompileError& e) {  // a library that it needs, or the driver, is not what it was
        log_message("compiling " + program.name + " again: " + e.what());
      }
    }
    std::unique_ptr<Executable> made = device_->compile(program);
    if (std::string binary = made->binary(); !binary.empty()) cache_->store(key, binary);
    return made;
  }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<BinaryCache> cache_;
};

}  // namespace

std::shared_ptr<Device> with_cache(std::shared_ptr<Device> device, std::shared_ptr<BinaryCache> cache) {
  if (!cache) return device;
  return std::make_shared<CachedDevice>(std::move(device), std::move(cache));
}

}  // namespace quern
