#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace quern {

/// How much to spend on a program: code for a little work is made quickly, for more it is worth several times as long.
enum class Effort : uint8_t {
  Quick,
  Full,
  Explicit  ///< the program has its vectors already: nothing looks for more
};

/// LLVM IR to machine code in this process, for this machine. Thread-safe.
class Jit : public std::enable_shared_from_this<Jit> {
 public:
  /// Throws DeviceError where LLVM knows no code for this machine.
  static std::shared_ptr<Jit> create();
  virtual ~Jit() = default;
  /// Name and version.
  virtual std::string compiler() const = 0;

  /// Code that stays as long as this.
  class Code {
   public:
    virtual ~Code() = default;
    using Entry = void (*)(void* const* buffers, const int64_t* vars, int32_t thread, void* scratch);
    virtual Entry entry() const = 0;
  };
  /// Compiles `ir`, of which only function `entry` is called from outside. Throws CompileError with LLVM's message.
  virtual std::unique_ptr<Code> compile(const std::string& ir, const std::string& entry, Effort effort) = 0;
};

}  // namespace quern
