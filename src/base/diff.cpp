#include "base/diff.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace quern {

namespace {

using Lines = std::vector<std::string_view>;
using Index = std::ptrdiff_t;

constexpr Index kContext = 3;
constexpr Index kMaxEdits = 1000;  // texts further apart are shown as one replaced by the other

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Edit {
  char kind;  ///< ' ', '-' or '+'
  std::string_view line;
};

/// The shortest edit script, by Myers' greedy algorithm: `furthest[k]` is how far along `a` the best path on diagonal k came.
/// Each round's copy is kept to walk the path back.
std::vector<Edit> shortest_edits(const Lines& a, const Lines& b) {
  auto n = static_cast<Index>(a.size()), m = static_cast<Index>(b.size());
  auto in_a = [&](Index i) { return a[static_cast<size_t>(i)]; };
  auto in_b = [&](Index i) { return b[static_cast<size_t>(i)]; };
  Index limit = std::min(n + m, kMaxEdits), rounds = -1;
  std::vector<Index> furthest(static_cast<size_t>(2 * limit + 3), 0);
  auto at = [limit](std::vector<Index>& v, Index k) -> Index& { return v[static_cast<size_t>(k + limit + 1)]; };
  auto goes_down = [&](std::vector<Index>& v, Index k, Index d) {
    return k == -d || (k != d && at(v, k - 1) < at(v, k + 1));
  };
  std::vector<std::vector<Index>> history;
  for (Index d = 0; d <= limit && rounds < 0; ++d) {
    history.push_back(furthest);
    for (Index k = -d; k <= d; k += 2) {
      Index x = goes_down(furthest, k, d) ? at(furthest, k + 1) : at(furthest, k - 1) + 1;
      while (x < n && x - k < m && in_a(x) == in_b(x - k)) ++x;
      at(furthest, k) = x;
      if (x >= n && x - k >= m) {
        rounds = d;
        break;
      }
    }
  }
  std::vector<Edit> edits;
  if (rounds < 0) {
    for (std::string_view line : a) edits.push_back({'-', line});
    for (std::string_view line : b) edits.push_back({'+', line});
    return edits;
  }
  Index x = n, y = m;
  for (Index d = rounds; d >= 0; --d) {
    std::vector<Index>& before = history[static_cast<size_t>(d)];
    Index k = x - y;
    bool down = goes_down(before, k, d);
    Index from_x = d == 0 ? 0 : at(before, down ? k + 1 : k - 1);
    Index from_y = d == 0 ? 0 : from_x - (down ? k + 1 : k - 1);
    for (; x > from_x && y > from_y; --x, --y) edits.push_back({' ', in_a(x - 1)});
    if (d == 0) break;
    if (down)
      edits.push_back({'+', in_b(--y)});
    else
      edits.push_back({'-', in_a(--x)});
  }
  std::reverse(edits.begin(), edits.end());
  return edits;
}

/// All lines of both texts; what they have in common at the ends is not searched.
std::vector<Edit> all_edits(Lines a, Lines b) {
  Lines head, tail;
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  head.assign(a.begin(), a.begin() + static_cast<Index>(same));
  a.erase(a.begin(), a.begin() + static_cast<Index>(same));
  b.erase(b.begin(), b.begin() + static_cast<Index>(same));
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    tail.push_back(a.back());
    a.pop_back();
    b.pop_back();
  }
  std::vector<Edit> edits;
  for (std::string_view line : head) edits.push_back({' ', line});
  for (const Edit& e : shortest_edits(a, b)) edits.push_back(e);
  for (size_t i = tail.size(); i-- > 0;) edits.push_back({' ', tail[i]});
  return edits;
}

std::string range_text(size_t first, size_t count) {
  std::string text = std::to_string(count == 0 ? first : first + 1);
  return count == 1 ? text : text + "," + std::to_string(count);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name) {
  if (before == after) return {};
  std::vector<Edit> edits = all_edits(split_lines(before), split_lines(after));
  std::string text = "--- " + std::string(before_name) + "\n+++ " + std::string(after_name) + "\n";
  const auto context = static_cast<size_t>(kContext);
  size_t old_line = 0, new_line = 0;
  for (size_t i = 0; i < edits.size();) {
    // A hunk goes on while the next change is at most two contexts away.
    size_t change = i;
    while (change < edits.size() && edits[change].kind == ' ') ++change;
    if (change == edits.size()) break;
    size_t first = change - std::min(context, change - i), end = change;
    for (size_t j = change; j < edits.size() && j <= end + 2 * context; ++j)
      if (edits[j].kind != ' ') end = j;
    end = std::min(end + 1 + context, edits.size());
    old_line += first - i;
    new_line += first - i;
    size_t old_count = 0, new_count = 0;
    std::string body;
    for (size_t j = first; j < end; ++j) {
      old_count += edits[j].kind != '+';
      new_count += edits[j].kind != '-';
      body += edits[j].kind + std::string(edits[j].line) + "\n";
    }
    text += "@@ -" + range_text(old_line, old_count) + " +" + range_text(new_line, new_count) + " @@\n" + body;
    old_line += old_count;
    new_line += new_count;
    i = end;
  }
  return text;
}

}  // namespace quern
