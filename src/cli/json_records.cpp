#include "cli/json_records.h"

#include <charconv>

namespace quern::cli {

namespace {

Json json_of_size(const std::string& text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return text;
}

}  // namespace

Json json_of(const Opt& opt) {
  Json j = Json::array({std::string(to_string(opt.op))});
  j.push_back(opt.axis ? Json(*opt.axis) : Json());
  j.push_back(opt.amount ? Json(*opt.amount) : Json());
  return j;
}

Json json_of(const std::vector<Opt>& opts) {
  Json j = Json::array();
  for (const Opt& o : opts) j.push_back(json_of(o));
  return j;
}

Json json_of_sizes(const std::vector<std::string>& texts) {
  if (texts.empty()) return Json();
  Json j = Json::array();
  for (const std::string& t : texts) j.push_back(json_of_size(t));
  return j;
}

Json json_of(const Decision& d, const std::string& key, const std::string& target) {
  Json j;
  j["h"] = key;
  j["t"] = target;
  j["base"] = Json(d.base);
  j["opts"] = json_of(d.opts);
  j["shape"] = d.shape.empty() ? Json::array() : json_of_sizes(d.shape);
  j["colors"] = Json(d.colors);
  j["tc"] = d.tensor_core.empty() ? Json() : Json(d.tensor_core);
  j["name"] = d.name;
  j["gs"] = json_of_sizes(d.global_size);
  j["ls"] = json_of_sizes(d.local_size);
  j["nu"] = d.num_uops;
  j["ops"] = d.ops;
  j["lds"] = d.load_store_bytes;
  j["mem"] = d.buffer_bytes;
  return j;
}

Opt opt_of_json(const Json& json) {
  Opt opt =
      parse_opt(json.at(0).get<std::string>() == "NOLOCALS" ? "NOLOCALS" : json.at(0).get<std::string>() + "(0,0)");
  opt.axis = json.at(1).is_null() ? std::nullopt : std::optional(json.at(1).get<int>());
  opt.amount = json.at(2).is_null() ? std::nullopt : std::optional(json.at(2).get<int>());
  return opt;
}

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quern::cli
