#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace quern {

enum class OpClass : uint8_t {
  kControl,
  kMeta,
  kBuffer,
  kVector,
  kMovement,
  kDefine,
  kReduce,
  kConvert,
  kUnary,
  kBinary,
  kTernary,
  kTensorCore,
  kMemory,
  kConstant
};

enum OpTraits : uint8_t {
  kNone = 0,
  kCommutative = 1,  ///< f(a, b) = f(b, a)
  kKeepsZero = 2,    ///< f(0, ...) = 0: zero padding may pass through it
  kIrreducible = 4,  ///< an atom of index expressions
};

inline constexpr int kVariadic = -1;

enum class Op : uint8_t {
#define QUERN_OP(id, text, arity, cls, traits) id,
#include "ir/ops.def"
#undef QUERN_OP
};

struct OpInfo {
  std::string_view text;
  int arity;
  OpClass cls;
  uint8_t traits;
};

inline constexpr std::array kOpTable = {
#define QUERN_OP(id, text, arity, cls, traits) OpInfo{text, arity, OpClass::cls, traits},
#include "ir/ops.def"
#undef QUERN_OP
};
inline constexpr int kNumOps = static_cast<int>(kOpTable.size());
static_assert(kNumOps <= 64, "OpSet keeps a bit an op");

inline const OpInfo& info(Op op) { return kOpTable[static_cast<size_t>(op)]; }
inline std::string_view to_string(Op op) { return info(op).text; }
inline bool is_commutative(Op op) { return (info(op).traits & kCommutative) != 0; }
/// The op called `text` (without "Ops."), or nothing.
std::optional<Op> op_from_text(std::string_view text);

/// A set of ops as a bit mask.
class OpSet {
 public:
  constexpr OpSet() = default;
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) bits_ |= bit(op);
  }
  static constexpr OpSet all() { return OpSet(~uint64_t{0}); }
  static constexpr OpSet of_class(OpClass cls) {
    OpSet set;
    for (int i = 0; i < kNumOps; ++i)
      if (kOpTable[static_cast<size_t>(i)].cls == cls) set.bits_ |= uint64_t{1} << i;
    return set;
  }
  constexpr bool contains(Op op) const { return (bits_ & bit(op)) != 0; }
  constexpr bool contains_all(OpSet other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void insert(Op op) { bits_ |= bit(op); }
  constexpr void erase(Op op) { bits_ &= ~bit(op); }
  constexpr OpSet operator|(OpSet other) const { return OpSet(bits_ | other.bits_); }
  constexpr OpSet operator-(OpSet other) const { return OpSet(bits_ & ~other.bits_); }
  constexpr bool operator==(const OpSet&) const = default;
  constexpr uint64_t bits() const { return bits_; }

 private:
  explicit constexpr OpSet(uint64_t bits) : bits_(bits) {}
  static constexpr uint64_t bit(Op op) { return uint64_t{1} << static_cast<int>(op); }
  uint64_t bits_ = 0;
};

inline constexpr OpSet kUnaryOps = OpSet::of_class(OpClass::kUnary);
inline constexpr OpSet kBinaryOps = OpSet::of_class(OpClass::kBinary);
inline constexpr OpSet kTernaryOps = OpSet::of_class(OpClass::kTernary);
inline constexpr OpSet kAluOps = kUnaryOps | kBinaryOps | kTernaryOps;
inline constexpr OpSet kBufferOps = OpSet::of_class(OpClass::kBuffer);  ///< LOAD, PRELOAD, STORE, VALID
inline constexpr OpSet kIrreducibleOps = {Op::Const, Op::DefineVar, Op::Special, Op::Range};
/// Ops that do not keep f(0) = 0 and so may not be padded through.
inline constexpr OpSet kUnsafePadOps = {Op::Recip, Op::Log2, Op::Exp2, Op::Idiv};

}  // namespace quern
