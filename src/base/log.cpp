#include "base/log.h"

#include <mutex>
#include <utility>

namespace quern {

namespace {

struct Log {
  std::mutex mutex;
  LogSink sink;
};

Log& the_log() {
  static Log log;
  return log;
}

}  // namespace

void set_log_sink(LogSink sink) {
  Log& log = the_log();
  std::lock_guard lock(log.mutex);
  log.sink = std::move(sink);
}

void log_message(std::string_view message) {
  Log& log = the_log();
  std::lock_guard lock(log.mutex);
  if (log.sink) log.sink(message);
}

}  // namespace quern
