#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/node_map.h"
#include "render/append.h"
#include "render/c_dialect.h"
#include "render/c_prelude.h"
#include "render/program.h"

namespace quern {

/// True of words that mean something in one of the C-style languages.
bool is_reserved_word(std::string_view word);

/// Prints a linear program as a function of a C-style language: expressions where they are used once, names where they are not,
/// loops and branches indented.
class CWriter {
 public:
  CWriter(const CDialect& dialect, const LinearProgram& linear);
  std::string write(const std::string& name);

 private:
  // How tightly an expression holds together: what may stand in another without parentheses.
  enum Binding : uint8_t { kAtom, kPrefix, kProduct, kSum, kLoose };
  struct Expr {
    std::string text;
    Binding binding = kAtom;
    uint16_t depth = 0;         // of parentheses
    bool consumed = false;      // its text became part of another
    uint64_t accumulators = 0;  // whose value it reads, by number modulo 64
  };
  struct Use {
    uint32_t count = 0;
    uint32_t scope = 0;  // of the last user; what has one user has no other
    uint32_t last = 0;   // position of the last user
    bool needs_name = false;
  };
  struct Value {
    Expr expr;
    Use use;
  };
  struct Scope {
    uint32_t id;
    std::vector<std::pair<UOp, Expr>> restore;  // accumulators under another name until it closes
  };

  /// Of a node of the program; one that is not part of it has no text.
  Value& value(UOp u) { return values_[place_.get(u)]; }
  Expr& expr(UOp u) { return value(u).expr; }
  Use& use(UOp u) { return value(u).use; }

  // The whole function (c_writer.cpp).
  void count_uses();
  void mark_accesses(UOp u);
  bool is_written(UOp buffer) const;
  bool is_read(UOp buffer) const;
  void name_arguments();
  std::string arguments();
  std::string prelude_text() const;

  // Names and lines.
  bool is_taken(std::string_view word) const;
  std::string unique(std::string wanted);
  std::string numbered(std::string_view prefix);
  template <class... Parts>
  void line(const Parts&... parts) {
    body_.append(2 * (scopes_.size() + 1), ' ');
    append(body_, parts..., '\n');
  }
  void define(UOp u, std::string text) { expr(u) = Expr{std::move(text)}; }
  void name_value(UOp u, const Expr& e);

  // Memory, scopes, accumulators, threads.
  std::string place(UOp address, bool write);
  void write_load(UOp u);
  void write_store(UOp u);
  uint32_t scope_id() const { return scopes_.empty() ? 0 : scopes_.back().id; }
  void open_scope() { scopes_.push_back({++scope_count_, {}}); }
  void close_scope();
  void write_range(UOp u);
  void write_accumulator(UOp u);
  void write_assign(UOp u);
  void write_wmma(UOp u);
  void write_work_item(UOp u);
  void write_local(UOp u);
  void write_expression(UOp u);
  void write(UOp u);

  // Values (c_values.cpp).
  std::string take(UOp u, Binding loosest);
  std::string call_argument(UOp u) { return take(u, kLoose); }
  std::string in_float(UOp u);
  std::string widened(Scalar s, const std::string& text);
  Expr narrowed(Scalar to, const std::string& text, Binding binding);
  Expr infix(UOp u, std::string_view sign, Binding binding, Binding left, Binding right);
  Expr int_arithmetic(UOp u);
  Expr float_arithmetic(UOp u);
  Expr direct_arithmetic(UOp u);
  Expr math_call(UOp u);
  Expr int_op(UOp u);
  Expr bool_op(UOp u);
  Expr comparison(UOp u);
  Expr cast(UOp u);
  Expr float_to_float(UOp x, Scalar to);
  Expr bitcast(UOp u);
  Expr vector(UOp u);
  Expr lane(UOp u);
  Expr expression(UOp u);
  std::string_view type(const DType& t) { return prelude_.type(t); }

  const CDialect& dialect_;
  const LinearProgram& linear_;
  CPrelude prelude_;
  Launch launch_;
  NodeScratch<uint32_t> place_;  // of a node in values_
  std::vector<Value> values_;    // [0]: of what is not in the program
  std::vector<UOp> buffers_, vars_, written_, read_;
  std::vector<UOp> waiting_;  // expressions over accumulators that stand in no line yet
  std::vector<Scope> scopes_;
  std::vector<std::pair<std::string_view, int>> counters_;
  std::unordered_set<std::string> names_;
  std::set<char> work_items_;  // kinds used
  std::string body_;
  size_t at_ = 0;
  uint32_t scope_count_ = 0;
  bool has_product_ = false, has_sum_ = false;  // of floats: what a compiler may fuse
  bool has_images_ = false;
  // Gathered by take() while an expression is put together.
  uint16_t depth_ = 0;
  uint64_t accumulators_ = 0;
};

}  // namespace quern
