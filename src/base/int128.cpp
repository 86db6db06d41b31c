#include "base/int128.h"

#include <algorithm>

namespace quern {

std::string to_string(Int128 value) {
  if (value == 0) return "0";
  bool negative = value < 0;
  std::string digits;
  for (Int128 rest = value; rest != 0; rest /= 10) {
    int digit = static_cast<int>(rest % 10);
    digits.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace quern
