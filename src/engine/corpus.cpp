#include "engine/corpus.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>
#include <zlib.h>

namespace quern {

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

bool is_json(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

CorpusItem parse_json_item(std::string_view line, const std::string& where) {
  nlohmann::json item;
  try {
    item = nlohmann::json::parse(line);
    return {item.value("h", where), item.at("ast").get<std::string>()};
  } catch (const nlohmann::json::exception& e) {
    throw Error(where + ": not a JSON object with an \"ast\": " + e.what());
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  // gzread passes plain files through as they are.
  gzFile file = path == "-" ? gzdopen(0, "rb") : gzopen(path.c_str(), "rb");
  if (!file) throw Error("cannot open " + path + ": " + std::strerror(errno));
  gzbuffer(file, 1 << 18);
  std::string text;
  std::vector<char> piece(size_t{1} << 18);
  int n = 0;
  while ((n = gzread(file, piece.data(), static_cast<unsigned>(piece.size()))) > 0)
    text.append(piece.data(), static_cast<size_t>(n));
  int code = 0;
  std::string message = gzerror(file, &code);
  gzclose(file);
  if (n < 0 || code < 0) throw Error("cannot read " + path + ": " + message);
  return text;
}

std::string read_kernel_text(const std::string& path) {
  std::string text = read_file(path);
  if (is_blank(text)) throw Error(path + " is empty");
  return is_json(text) ? parse_json_item(lines_of(text).front(), path).text : text;
}

std::vector<CorpusItem> read_corpus(const std::string& path) {
  std::string text = read_file(path);
  std::vector<CorpusItem> items;
  size_t number = 0;
  bool in_text = false;  // a line that starts with a blank goes on with the kernel before
  for (std::string_view line : lines_of(text)) {
    ++number;
    if (is_blank(line)) continue;
    std::string where = path + ":" + std::to_string(number);
    const bool json = is_json(line);
    if (json)
      items.push_back(parse_json_item(line, where));
    else if (in_text && (line.front() == ' ' || line.front() == '\t'))
      items.back().text.append("\n").append(line);
    else
      items.push_back({std::to_string(number), std::string(line)});
    in_text = !json;
  }
  return items;
}

}  // namespace quern
