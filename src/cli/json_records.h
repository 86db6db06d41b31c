#pragma once
#include <nlohmann/json.hpp>

#include "engine/records.h"

namespace quern::cli {

using Json = nlohmann::ordered_json;

Json json_of(const Opt& opt);
Json json_of(const std::vector<Opt>& opts);
/// Sizes: numbers where they are ints, text where symbolic.
Json json_of_sizes(const std::vector<std::string>& texts);
/// The object of a kernel and target with the keys of the conformance data.
Json json_of(const Decision& decision, const std::string& key, const std::string& target);
Opt opt_of_json(const Json& json);

/// On one line, or indented; bytes that are no UTF-8 (of file names) become replacement characters.
std::string text_of(const Json& json, int indent = -1);

}  // namespace quern::cli
