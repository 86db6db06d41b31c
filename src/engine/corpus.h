#pragma once
#include <string>
#include <vector>

#include "quern/error.h"

namespace quern {

/// The whole of a file, unpacked if it is gzip; "-" is standard input. Throws Error if it can't be read.
std::string read_file(const std::string& path);

/// One kernel of a corpus: its key and text.
struct CorpusItem {
  std::string key;
  std::string text;
};
/// Kernels of a file: JSON lines with "h" and "ast", or kernels in the notation, each from the start of a line (its key
/// is then the line's number); indented lines go on with the kernel before.
std::vector<CorpusItem> read_corpus(const std::string& path);
/// The one kernel of a file: the notation itself, in any style, or a JSON line with "ast".
std::string read_kernel_text(const std::string& path);

}  // namespace quern
