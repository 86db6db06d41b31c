#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace quern {

/// Base of everything Quern throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Text that is not a kernel in the reference notation.
class ParseError : public Error {
 public:
  ParseError(int line, int column, std::string expected, const std::string& message)
      : Error(message), line_(line), column_(column), expected_(std::move(expected)) {}
  /// 1-based position of the first character that does not fit.
  int line() const { return line_; }
  int column() const { return column_; }
  /// What the reader was looking for there.
  const std::string& expected() const { return expected_; }

 private:
  int line_;
  int column_;
  std::string expected_;
};

/// A graph that parses but breaks a rule of kernels; the message names the node and the rule.
class InvalidKernel : public Error {
 public:
  using Error::Error;
};

/// An optimization that does not apply; the message names the opt and the reason.
class OptError : public Error {
 public:
  using Error::Error;
};

/// A target's compiler refused a program.
class CompileError : public Error {
 public:
  explicit CompileError(const std::string& message, std::string log = {}) : Error(message), log_(std::move(log)) {}
  /// The compiler's own output.
  const std::string& log() const { return log_; }

 private:
  std::string log_;
};

/// A device or target there is not; a device is lost, out of memory, or was given buffers or variables that do not fit the program.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant inside Quern: always our bug.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message)
      : Error("internal error: " + message + " (please report this with the kernel's text)") {}
};

}  // namespace quern
