#pragma once
#include <functional>
#include <string_view>

namespace quern {

/// Takes what the library has to tell without failing: a line in lower case, without a newline.
using LogSink = std::function<void(std::string_view message)>;

/// Where messages go from now on, for the whole process; they are dropped until somebody asks for them. The sink may be called
/// from any thread, by one at a time.
void set_log_sink(LogSink sink);
void log_message(std::string_view message);

}  // namespace quern
