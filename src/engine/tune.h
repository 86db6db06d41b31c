#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/check.h"
#include "search/beam.h"
#include "search/database.h"

namespace quern {

/// Where to keep and look for results; nothing where the settings say so. A file that cannot be used is told to the log.
std::unique_ptr<TuningDatabase> open_tuning_database(const Settings& settings);

/// A search's options as the settings tell them (BEAM, BEAM_UPCAST_MAX, …); a width of 0 if BEAM is.
BeamOptions beam_options(const Settings& settings);
/// All that may change what is found, as text: "BEAM=4 BEAM_UPCAST_MAX=256 …".
std::string settings_text(const BeamOptions& options);

struct TuningOptions {
  BeamOptions beam;
  OptimizeOptions optimize;  ///< tensor cores; its opts do not matter
  TuningDatabase* database = nullptr;
  bool search_again = false;  ///< for what is known too
  std::function<void(const BeamProgress&)> progress;
  std::function<bool()> stop;
};

struct Tuned {
  TuningResult result;
  bool known = false;             ///< from the database: nothing was searched
  BeamResult search;              ///< if it was
  double hand_coded_seconds = 0;  ///< of the hand-coded opts' best run, in the search
};

/// Searches for the fastest opts of a kernel on a device (beam_search), from the plain kernel and from the hand-coded opts on, on
/// inputs by the seed; every kernel that may win gives what the plain one gives. What was found is stored. Throws Error.
Tuned tune(UOp ast, Device& device, const Target& target, const TuningOptions& options);

/// The fastest opts known for a kernel on a device under these options (whose own opts do not matter); nothing if none are.
std::optional<TuningResult> known_opts(UOp ast, const Device& device, const Target& target,
                                       const OptimizeOptions& options, TuningDatabase& database);
/// The same on whichever device of this machine runs programs for the target.
std::optional<TuningResult> known_opts(UOp ast, const Target& target, const OptimizeOptions& options,
                                       const Settings& settings, TuningDatabase& database);

}  // namespace quern
