#include "search/trial.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "quern/error.h"

#include "base/child.h"

namespace quern {

namespace {

/// Those of the data's buffers that a candidate takes, in its order. Throws Error for one that is not there.
std::vector<Buffer*> buffers_for(const std::vector<int>& globals, const TrialData& data,
                                 const std::vector<Buffer*>& buffers) {
  std::vector<Buffer*> own;
  for (int number : globals) {
    const auto at = std::ranges::find(data.globals, number);
    if (at == data.globals.end())
      throw Error(fmt::format("it takes buffer {}, which the plain kernel does not", number));
    own.push_back(buffers[static_cast<size_t>(at - data.globals.begin())]);
  }
  return own;
}

TrialReport trial_here(Executable& executable, const std::vector<int>& globals, const TrialData& data,
                       const TrialLimits& limits, const OutputCheck& check) {
  TrialReport report;
  try {
    // Fresh memory: pages shared with a parent process would be copied at the first write, into smaller ones.
    Buffers outputs;
    std::vector<Buffer*> pointers = pointers_to(*data.buffers);
    for (size_t at : data.outs) {
      const Buffer& initial = *(*data.buffers)[at];
      outputs.push_back(std::make_unique<Buffer>(initial.dtype(), initial.size()));
      std::memcpy(outputs.back()->data(), initial.data(), initial.bytes());
      pointers[at] = outputs.back().get();
    }
    const std::vector<Buffer*> own = buffers_for(globals, data, pointers);
    const double first = executable.run(own, data.vars);
    if (check) report.note = check(pointers);
    if (!report.note.empty()) {
      report.kind = TrialReport::Kind::Wrong;
      return report;
    }
    report.seconds = first;
    if (first > limits.stop_above) return report;
    double spent = first;
    for (int runs = 1; runs < limits.max_runs && (runs < limits.min_runs || spent < limits.spend); ++runs) {
      const double seconds = executable.run(own, data.vars);
      report.seconds = std::min(report.seconds, seconds);
      spent += seconds;
    }
  } catch (const std::exception& e) {
    report = {TrialReport::Kind::Failed, 0, e.what()};
  }
  return report;
}

/// The fixed part of a report on its way out of the child; the note follows.
struct Header {
  TrialReport::Kind kind;
  double seconds;
};

std::string message_of(const TrialReport& report) {
  const Header header{report.kind, report.seconds};
  std::string message(sizeof header, '\0');
  std::memcpy(message.data(), &header, sizeof header);
  return message + report.note;
}

TrialReport report_of(const std::string& message) {
  Header header{};
  std::memcpy(&header, message.data(), sizeof header);
  return {header.kind, header.seconds, message.substr(sizeof header)};
}

TrialReport trial_in_child(Executable& executable, const std::vector<int>& globals, const TrialData& data,
                           const TrialLimits& limits, const OutputCheck& check) {
  Child child([&](MessageLine& line) { line.send(message_of(trial_here(executable, globals, data, limits, check))); });
  const auto end = MessageLine::Clock::now() + std::chrono::duration_cast<MessageLine::Clock::duration>(
                                                   std::chrono::duration<double>(limits.timeout));
  std::string message;
  switch (child.line().receive(message, end)) {
    case MessageLine::Reading::Message: return report_of(message);
    case MessageLine::Reading::Ended: return {TrialReport::Kind::Crashed, 0, child.end()};
    case MessageLine::Reading::TimedOut: break;
  }
  return {TrialReport::Kind::TimedOut, 0, fmt::format("did not end within {} s", limits.timeout)};
}

}  // namespace

TrialReport run_trial(Executable& executable, const std::vector<int>& globals, const TrialData& data,
                      const TrialLimits& limits, bool in_child, const OutputCheck& check) {
  return in_child ? trial_in_child(executable, globals, data, limits, check)
                  : trial_here(executable, globals, data, limits, check);
}

}  // namespace quern
