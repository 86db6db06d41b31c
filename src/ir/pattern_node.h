#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/pattern.h"

namespace quern {

// What patterns and guards are made of, for what walks them: the rule compiler, printers and the rule fuzzer.

struct GuardNode {
  enum class Kind : uint8_t {
    Number,
    Value,
    Min,
    Max,
    Function,
    Add,
    Sub,
    Mul,
    FloorDiv,
    CeilDiv,
    FloorMod,
    Less,
    LessEqual,
    Equal,
    And,
    Or,
    Not
  };
  Kind kind;
  Int128 number = 0;
  std::string name;
  std::function<Int128(const Match&)> function;
  std::shared_ptr<const GuardNode> a = nullptr, b = nullptr;
};

/// The number a node of two operands gives. Products that pass 2^125 are held there; a division by 0 gives 0.
Int128 compute(GuardNode::Kind kind, Int128 a, Int128 b);

struct PatNode {
  /// Which sources a node must have: exactly these, these first, all like the one given, or any.
  enum class Sources : uint8_t { Exact, Prefix, All, Any };
  OpSet ops = OpSet::all();
  ScalarSet scalars = kAnyScalar;
  bool one_lane = false;
  bool ordered = false;  // the sources in this order even if the op commutes
  Sources sources = Sources::Any;
  std::string name;
  std::optional<Guard> literal;  // matches a constant of this value; in templates, makes one
  bool bool_literal = false;     // the literal is a bool
  std::optional<Arg> arg;
  std::vector<Pat> src;
};

}  // namespace quern
