#pragma once
// Which error a piece of code gives.

#include <exception>
#include <functional>
#include <ostream>
#include <string>

#include "quern/quern.h"

namespace quern::test {

struct Outcome {
  std::string type;  ///< "InvalidKernel", or "none"
  std::string message;
};

inline void PrintTo(const Outcome& o, std::ostream* out) { *out << o.type << ": " << o.message; }

inline Outcome outcome_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const ParseError& e) {
    return {"ParseError", e.what()};
  } catch (const InvalidKernel& e) {
    return {"InvalidKernel", e.what()};
  } catch (const OptError& e) {
    return {"OptError", e.what()};
  } catch (const CompileError& e) {
    return {"CompileError", e.what()};
  } catch (const DeviceError& e) {
    return {"DeviceError", e.what()};
  } catch (const InternalError& e) {
    return {"InternalError", e.what()};
  } catch (const Error& e) {
    return {"Error", e.what()};
  } catch (const std::exception& e) {
    return {"not of quern", e.what()};
  }
  return {"none", ""};
}

}  // namespace quern::test
