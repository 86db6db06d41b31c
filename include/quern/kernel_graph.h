#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace quern {

/// A kernel that is not compiled yet: what is computed, but not how. Copies share it. Made by KernelBuilder, or from text in the
/// notation of tinygrad 0.10.0.
class KernelGraph {
 public:
  /// Throws ParseError or InvalidKernel.
  static KernelGraph from_text(std::string_view text);
  /// In that notation, on one line or indented with a node a line; from_text reads both.
  std::string text() const;
  std::string indented_text() const;

  struct Impl;
  explicit KernelGraph(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace quern
