#include "optimize/opt.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "quern/error.h"

#include "base/shown.h"

namespace quern {
namespace {

constexpr std::array<std::string_view, 13> kOptNames = {"TC",     "UPCAST",   "UPCASTMID", "UNROLL", "LOCAL",
                                                        "GROUP",  "GROUPTOP", "NOLOCALS",  "PADTO",  "SWAP",
                                                        "THREAD", "RFACTOR",  "PACK"};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw OptError(fmt::format("{} is not an opt: {}", in_quotes(text), why));
}

int parse_number(std::string_view text, std::string_view whole) {
  text = trimmed(text);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    refuse(whole, fmt::format("{} is not a number", in_quotes(text)));
  return value;
}

}  // namespace

std::string_view to_string(OptOp op) { return kOptNames[static_cast<size_t>(op)]; }

std::string to_string(const Opt& opt) {
  if (!opt.axis) return std::string(to_string(opt.op));
  if (!opt.amount) return fmt::format("{}({})", to_string(opt.op), *opt.axis);
  return fmt::format("{}({},{})", to_string(opt.op), *opt.axis, *opt.amount);
}

std::string to_string(const std::vector<Opt>& opts) {
  std::string text;
  for (const Opt& opt : opts) {
    if (!text.empty()) text += ' ';
    text += to_string(opt);
  }
  return text;
}

Opt parse_opt(std::string_view text) {
  const std::string_view whole = trimmed(text);
  const size_t open = whole.find('(');
  const std::string_view name = trimmed(whole.substr(0, open));
  size_t op = 0;
  while (op < kOptNames.size() && kOptNames[op] != name) ++op;
  if (op == kOptNames.size())
    refuse(whole, fmt::format("no opt is called {}; there are: {}", in_quotes(name), fmt::join(kOptNames, ", ")));
  Opt opt{static_cast<OptOp>(op), std::nullopt, std::nullopt};
  if (open != whole.npos) {
    if (whole.back() != ')') refuse(whole, "the closing ')' is missing");
    const std::string_view inside = whole.substr(open + 1, whole.size() - open - 2);
    const size_t comma = inside.find(',');
    opt.axis = parse_number(inside.substr(0, comma), whole);
    if (comma != inside.npos) opt.amount = parse_number(inside.substr(comma + 1), whole);
  }
  const bool plain = opt.op == OptOp::NOLOCALS;
  if (plain && opt.axis) refuse(whole, "it takes no numbers");
  if (!plain && !opt.amount) refuse(whole, fmt::format("it takes an axis and an amount, as in {}(0,4)", name));
  return opt;
}

std::vector<Opt> parse_opts(std::string_view text) {
  std::vector<Opt> opts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (c == '(') ++depth;
    if (c == ')') --depth;
    const bool ends = i == text.size() || (depth == 0 && (c == ' ' || c == '\t' || c == '\n' || c == ',' || c == ';'));
    if (!ends) continue;
    if (const std::string_view part = trimmed(text.substr(begin, i - begin)); !part.empty())
      opts.push_back(parse_opt(part));
    begin = i + 1;
  }
  return opts;
}

const std::vector<Opt>& search_actions() {
  static const std::vector<Opt> actions = [] {
    std::vector<Opt> list;
    const auto add = [&list](OptOp op, int axes, std::initializer_list<int> amounts) {
      for (int amount : amounts)
        for (int axis = 0; axis < axes; ++axis) list.push_back({op, axis, amount});
    };
    add(OptOp::UPCAST, 6, {0, 2, 3, 4, 5, 7});
    add(OptOp::UNROLL, 5, {0, 4, 7});
    add(OptOp::LOCAL, 6, {2, 3, 4, 8, 13, 16, 29});
    add(OptOp::GROUPTOP, 3, {13, 16, 28, 29, 32, 49, 64, 256});
    add(OptOp::GROUP, 3, {0, 4, 8, 16});
    add(OptOp::PADTO, 7, {32});
    list.push_back({OptOp::LOCAL, 0, 32});
    list.push_back({OptOp::LOCAL, 6, 2});
    list.push_back({OptOp::UPCASTMID, 1, 4});
    list.push_back({OptOp::TC, 0, 0});
    add(OptOp::TC, 9, {2});
    for (int axis = 0; axis < 5; ++axis)
      for (int with = axis + 1; with < 5; ++with) list.push_back({OptOp::SWAP, axis, with});
    return list;
  }();
  return actions;
}

const std::vector<Opt>& cpu_search_actions() {
  static const std::vector<Opt> actions = [] {
    std::vector<Opt> list;
    const auto add = [&list](OptOp op, int axes, std::initializer_list<int> amounts) {
      for (int amount : amounts)
        for (int axis = 0; axis < axes; ++axis) list.push_back({op, axis, amount});
    };
    add(OptOp::UPCAST, 6, {0, 2, 3, 4, 5, 6, 8, 16, 32, 64});
    add(OptOp::UNROLL, 5, {0, 2, 4, 7});
    add(OptOp::RFACTOR, 3, {0, 4, 8, 16, 32, 64});
    add(OptOp::PADTO, 7, {4, 8, 16, 32});
    add(OptOp::THREAD, 4, {2, 4, 8, 16, 32, 64});
    add(OptOp::PACK, 4, {1, 2, 3});
    for (int axis = 0; axis < 5; ++axis)
      for (int with = axis + 1; with < 5; ++with) list.push_back({OptOp::SWAP, axis, with});
    return list;
  }();
  return actions;
}

}  // namespace quern
