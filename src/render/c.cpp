#include <algorithm>
#include <set>
#include <variant>

#include <fmt/format.h>

#include "quern/error.h"

#include "render/c_prelude.h"
#include "render/facts.h"

namespace quern {

namespace {

// How tightly an expression holds together: what may stand in another without parentheses.
enum Binding : uint8_t { kAtom, kPrefix, kProduct, kSum, kLoose };

struct Expr {
  std::string text;
  Binding binding = kAtom;
  uint16_t depth = 0;         // of parentheses
  bool consumed = false;      // its text became part of another
  uint64_t accumulators = 0;  // whose value it reads, by number modulo 64
};

// Longer or deeper expressions get a name: readable, and far from any compiler's nesting limit.
constexpr size_t kMaxWidth = 110;
constexpr uint16_t kMaxDepth = 12;

const OpSet kExpressionOps = kAluOps | OpSet{Op::Cast, Op::Bitcast, Op::Gep, Op::Vectorize};
bool is_expression(UOp u) { return u.is(kExpressionOps) && !u.dtype().is_ptr(); }

bool is_keyword(std::string_view word) {
  static constexpr std::string_view kWords[] = {
      "auto",     "break",    "case",     "char",   "const",  "continue", "default", "do",     "double",  "else",
      "enum",     "extern",   "float",    "for",    "goto",   "if",       "inline",  "int",    "long",    "register",
      "return",   "restrict", "short",    "signed", "sizeof", "static",   "struct",  "switch", "typedef", "union",
      "unsigned", "void",     "volatile", "while",  "half",   "bfloat16", "asm",     "typeof", "linux",   "unix"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

class CWriter {
 public:
  CWriter(const LinearProgram& linear, const Target& target)
      : linear_(linear), target_(target), values_(linear.uops.size() + 1) {
    for (size_t i = linear.uops.size(); i-- > 0;) place_[linear.uops[i]] = static_cast<uint32_t>(i + 1);
  }

  std::string write(const std::string& name) {
    count_uses();
    name_arguments();
    for (at_ = 0; at_ < linear_.uops.size(); ++at_) write(linear_.uops[at_]);
    return fmt::format("// {}, for {}: writes {}.\n{}void {}({}) {{\n{}}}\n", name, target_.name, outputs(),
                       prelude_text(), name, arguments(), body_);
  }

 private:
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
  /// Of a node of the program; one that is not part of it has no text.
  Value& value(UOp u) { return values_[place_.get(u)]; }
  Expr& expr(UOp u) { return value(u).expr; }
  Use& use(UOp u) { return value(u).use; }

  struct Scope {
    uint32_t id;
    std::vector<std::pair<UOp, Expr>> restore;  // accumulators under another name until it closes
  };

  // One walk back over the program: who uses what, and from which scope. Addresses are written out at each use, so what they
  // are computed from is used as often as they are.
  void count_uses() {
    std::vector<uint32_t> scope_at(linear_.uops.size());
    std::vector<uint32_t> open{0};
    uint32_t scopes = 0;
    for (size_t i = 0; i < linear_.uops.size(); ++i) {
      UOp u = linear_.uops[i];
      if (u.is({Op::Endrange, Op::Endif})) {
        if (open.size() < 2) throw InternalError("a scope closed that was never opened");
        open.pop_back();
      }
      scope_at[i] = open.back();
      if (u.is({Op::Range, Op::If})) open.push_back(++scopes);
      if (u.is(Op::Store)) mark_written(u);
    }
    for (size_t i = linear_.uops.size(); i-- > 0;) {
      UOp u = linear_.uops[i];
      Use own = use(u);
      if (own.count == 0 && (is_expression(u) || u.is({Op::Load, Op::Index, Op::Wmma}))) continue;  // nobody needs it
      bool address = u.dtype().is_ptr();
      for (UOp s : u.src()) {
        Use& other = use(s);
        if (other.count == 0) other.last = address ? own.last : static_cast<uint32_t>(i);
        other.count += address ? own.count : 1;
        other.scope = address ? own.scope : scope_at[i];
        other.needs_name |= u.is({Op::Gep, Op::Wmma});
      }
    }
  }

  void mark_written(UOp store) {
    UOp buffer = access_of(store.src(0)).buffer;
    if (std::find(written_.begin(), written_.end(), buffer) == written_.end()) written_.push_back(buffer);
  }
  bool is_written(UOp buffer) const { return std::find(written_.begin(), written_.end(), buffer) != written_.end(); }

  void name_arguments() {
    buffers_ = buffers_of(linear_);
    vars_ = variables_of(linear_);
    for (UOp b : buffers_) define(b, unique(fmt::format("data{}", std::get<int64_t>(b.arg()))));
    for (UOp v : vars_) {
      std::string name = std::get<const VarArg*>(v.arg())->name;
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) > 127) c = '_';
      bool taken =
          name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || is_keyword(name) || name[0] == '_';
      define(v, unique(taken ? "var_" + name : name));
    }
  }

  std::string outputs() {
    std::string text;
    for (UOp b : buffers_)
      if (is_written(b)) text += (text.empty() ? "" : ", ") + expr(b).text;
    return text.empty() ? "nothing" : text;
  }

  std::string arguments() {
    std::string text;
    for (UOp b : buffers_) {
      prelude_.type(b.dtype().scalar);
      text += fmt::format("{}{}{}* restrict {}", text.empty() ? "" : ", ", is_written(b) ? "" : "const ",
                          c_memory_type(b.dtype().scalar), expr(b).text);
    }
    for (UOp v : vars_)
      text += fmt::format("{}const {} {}", text.empty() ? "" : ", ", c_type(v.dtype().scalar), expr(v).text);
    return text.empty() ? "void" : text;
  }

  std::string prelude_text() {
    std::string text = "#pragma STDC FP_CONTRACT OFF\n" + prelude_.text();
    return has_floats_ ? text : prelude_.text();
  }

  // --- names and lines ---

  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }
  std::string numbered(std::string_view prefix) {
    for (auto& [known, count] : counters_)
      if (known == prefix) return unique(fmt::format("{}{}", prefix, count++));
    counters_.emplace_back(prefix, 1);
    return unique(fmt::format("{}0", prefix));
  }
  void line(std::string_view text) {
    body_.append(2 * (scopes_.size() + 1), ' ');
    body_ += text;
    body_ += '\n';
  }
  void define(UOp u, std::string text) { expr(u) = Expr{std::move(text)}; }

  static std::string_view prefix_of(UOp u) {
    switch (u.op()) {
      case Op::Load: return "val";
      case Op::Cast:
      case Op::Bitcast: return "cast";
      case Op::Gep: return "gep";
      case Op::Vectorize: return "vec";
      default: return "alu";
    }
  }

  /// Puts the value of `u` into a variable.
  void name_value(UOp u, Expr e) {
    std::string name = numbered(prefix_of(u));
    line(fmt::format("{} {} = {};", prelude_.type(u.dtype()), name, e.text));
    define(u, std::move(name));
  }

  // --- expressions ---

  /// The text of a source to stand in a place that takes what binds at least as tightly as `loosest`.
  std::string take(UOp u, Binding loosest) {
    Expr& e = expr(u);
    if (e.text.empty()) cannot_render(u, "C", "it is used before it is computed");
    e.consumed = true;
    depth_ = std::max<uint16_t>(depth_, e.depth);
    accumulators_ |= e.accumulators;
    if (e.binding <= loosest) return e.text;
    depth_ = std::max<uint16_t>(depth_, static_cast<uint16_t>(e.depth + 1));
    return "(" + e.text + ")";
  }
  std::string call_argument(UOp u) { return take(u, kLoose); }
  /// A source in float, for types that are computed in it.
  std::string in_float(UOp u) {
    return is_narrow_float(u.dtype().scalar) ? widened(u.dtype().scalar, take(u, kPrefix)) : take(u, kPrefix);
  }
  std::string widened(Scalar s, const std::string& text) {
    return s == Scalar::Half ? "(float)" + text : fmt::format("{}({})", prelude_.float_from_bfloat16(), text);
  }
  static bool is_narrow_float(Scalar s) { return s == Scalar::Half || s == Scalar::BFloat16; }

  Expr narrowed(Scalar to, const std::string& text, Binding binding) {
    if (to == Scalar::Half) return {"(half)" + (binding <= kPrefix ? text : "(" + text + ")"), kPrefix};
    return {fmt::format("{}({})", prelude_.to_narrow(Scalar::Float, to), text)};
  }

  Expr infix(UOp u, std::string_view sign, Binding binding, Binding left, Binding right) {
    std::string a = take(u.src(0), left), b = take(u.src(1), right);
    if (u.is(Op::Add) && u.src(1).is_const() && b.size() > 1 && b[0] == '-' &&
        std::isdigit(static_cast<unsigned char>(b[1])))
      return {fmt::format("{} - {}", a, b.substr(1)), binding};
    return {fmt::format("{} {} {}", a, sign, b), binding};
  }

  /// ADD, SUB, MUL, NEG of ints: as written where the bounds prove that nothing overflows, else in unsigned arithmetic.
  Expr int_arithmetic(UOp u) {
    Scalar s = u.dtype().scalar;
    std::string_view sign = u.is(Op::Add) ? "+" : u.is(Op::Mul) ? "*" : "-";
    bool plain = cannot_overflow(u) || s == Scalar::UInt32 || s == Scalar::UInt64;
    if (u.is(Op::Neg)) {
      if (plain && !u.dtype().is_unsigned()) return {"-" + take(u.src(0), kAtom), kPrefix};
      std::string negated = fmt::format("(0 - ({}){})", c_wrapping_type(s), take(u.src(0), kPrefix));
      return {fmt::format("({}){}", c_type(s), negated), kPrefix};
    }
    if (plain)
      return u.is(Op::Mul) ? infix(u, sign, kProduct, kProduct, kPrefix) : infix(u, sign, kSum, kSum, kProduct);
    std::string_view wrapping = c_wrapping_type(s);
    return {fmt::format("({})(({}){} {} ({}){})", c_type(s), wrapping, take(u.src(0), kPrefix), sign, wrapping,
                        take(u.src(1), kPrefix)),
            kPrefix};
  }

  Expr float_arithmetic(UOp u) {
    Scalar s = u.dtype().scalar;
    bool narrow = is_narrow_float(s);
    std::string_view one = s == Scalar::Double ? "1.0" : "1.0f";
    auto arg = [&](size_t i) { return narrow ? in_float(u.src(i)) : take(u.src(i), kPrefix); };
    auto result = [&](std::string text, Binding b) { return narrow ? narrowed(s, text, b) : Expr{std::move(text), b}; };
    bool simple = !narrow;
    switch (u.op()) {
      case Op::Add:
        return simple ? infix(u, "+", kSum, kSum, kProduct) : result(fmt::format("{} + {}", arg(0), arg(1)), kSum);
      case Op::Sub:
        return simple ? infix(u, "-", kSum, kSum, kProduct) : result(fmt::format("{} - {}", arg(0), arg(1)), kSum);
      case Op::Mul:
        return simple ? infix(u, "*", kProduct, kProduct, kPrefix)
                      : result(fmt::format("{} * {}", arg(0), arg(1)), kProduct);
      case Op::Fdiv:
        return simple ? infix(u, "/", kProduct, kProduct, kPrefix)
                      : result(fmt::format("{} / {}", arg(0), arg(1)), kProduct);
      case Op::Recip: return result(fmt::format("{} / {}", one, arg(0)), kProduct);
      case Op::Neg:
        return simple ? Expr{"-" + take(u.src(0), kAtom), kPrefix} : result(fmt::format("-({})", arg(0)), kPrefix);
      case Op::Sqrt: return result(fmt::format("__builtin_sqrt{}({})", s == Scalar::Double ? "" : "f", arg(0)), kAtom);
      case Op::Mulacc: {
        std::string product = fmt::format("{} * {}", arg(0), arg(1));
        if (!narrow) return {fmt::format("{} + {}", product, arg(2)), kSum};
        return narrowed(s, fmt::format("{} + {}", widened(s, narrowed(s, product, kProduct).text), arg(2)), kSum);
      }
      case Op::Max:
        if (narrow)
          return narrowed(s, fmt::format("{}({}, {})", prelude_.maximum(Scalar::Float), arg(0), arg(1)), kAtom);
        return {fmt::format("{}({}, {})", prelude_.maximum(s), call_argument(u.src(0)), call_argument(u.src(1)))};
      default: cannot_render(u, "C");
    }
  }

  Expr int_op(UOp u) {
    Scalar s = u.dtype().scalar;
    auto call = [&](const std::string& f) {
      return Expr{fmt::format("{}({}, {})", f, call_argument(u.src(0)), call_argument(u.src(1)))};
    };
    switch (u.op()) {
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::Neg: return int_arithmetic(u);
      case Op::Idiv:
      case Op::Mod:
        if (division_is_plain(u)) return infix(u, u.is(Op::Idiv) ? "/" : "%", kProduct, kProduct, kPrefix);
        return call(prelude_.division(u.op(), s));
      case Op::Shr:
        if (shift_is_plain(u)) return infix(u, ">>", kLoose, kPrefix, kPrefix);
        return call(prelude_.shift(u.op(), s));
      case Op::Shl:
        if (!shift_is_plain(u)) return call(prelude_.shift(u.op(), s));
        return {fmt::format("({})(({}){} << {})", c_type(s), c_wrapping_type(s), take(u.src(0), kPrefix),
                            take(u.src(1), kPrefix)),
                kPrefix};
      case Op::Max: return call(prelude_.maximum(s));
      case Op::And: return infix(u, "&", kLoose, kPrefix, kPrefix);
      case Op::Or: return infix(u, "|", kLoose, kPrefix, kPrefix);
      case Op::Xor: return infix(u, "^", kLoose, kPrefix, kPrefix);
      case Op::Mulacc: {
        std::string_view w = c_wrapping_type(s);
        return {fmt::format("({0})(({1}){2} * ({1}){3} + ({1}){4})", c_type(s), w, take(u.src(0), kPrefix),
                            take(u.src(1), kPrefix), take(u.src(2), kPrefix)),
                kPrefix};
      }
      default: cannot_render(u, "C");
    }
  }

  Expr bool_op(UOp u) {
    switch (u.op()) {
      case Op::Mul:
      case Op::Idiv:
      case Op::And: return infix(u, "&", kLoose, kPrefix, kPrefix);
      case Op::Add:
      case Op::Max:
      case Op::Or: return infix(u, "|", kLoose, kPrefix, kPrefix);
      case Op::Sub:
      case Op::Xor: return infix(u, "^", kLoose, kPrefix, kPrefix);
      case Op::Neg: return {take(u.src(0), kPrefix), kPrefix};
      case Op::Mod: return {"0"};
      case Op::Shl:
      case Op::Shr: return {fmt::format("{} & ({} == 0)", take(u.src(0), kPrefix), take(u.src(1), kSum)), kLoose};
      case Op::Mulacc:
        return {
            fmt::format("({} & {}) | {}", take(u.src(0), kPrefix), take(u.src(1), kPrefix), take(u.src(2), kPrefix)),
            kLoose};
      default: cannot_render(u, "C");
    }
  }

  Expr comparison(UOp u) {
    UOp a = u.src(0), b = u.src(1);
    if (a.dtype().is_bool()) {
      if (u.is(Op::Cmplt)) return {fmt::format("{} & !{}", take(b, kPrefix), take(a, kAtom)), kLoose};
      if (b.is_const_int(1)) return {"!" + take(a, kAtom), kPrefix};
    }
    std::string_view sign = u.is(Op::Cmplt) ? "<" : "!=";
    if (is_narrow_float(a.dtype().scalar)) return {fmt::format("{} {} {}", in_float(a), sign, in_float(b)), kLoose};
    return infix(u, sign, kLoose, kSum, kSum);
  }

  Expr cast(UOp u) {
    UOp x = u.src(0);
    Scalar from = x.dtype().scalar, to = u.dtype().scalar;
    if (from == to) return {take(x, kPrefix), kPrefix};
    if (to == Scalar::Bool) return {fmt::format("{} != 0", x.dtype().is_float() ? in_float(x) : take(x, kSum)), kLoose};
    auto as = [](std::string_view type, const std::string& text) {
      return Expr{fmt::format("({}){}", type, text), kPrefix};
    };
    if (!x.dtype().is_float()) {
      if (to == Scalar::Half) return as("half", "(float)" + take(x, kPrefix));  // exact below the largest half
      if (to == Scalar::BFloat16) return {fmt::format("{}({})", prelude_.bfloat16_from_int(from), call_argument(x))};
      return as(c_type(to), take(x, kPrefix));
    }
    if (!u.dtype().is_float()) {
      Scalar wide = from == Scalar::Double ? Scalar::Double : Scalar::Float;
      bool unsigned_long = to == Scalar::UInt64;
      std::string whole =
          fmt::format("{}({})", unsigned_long ? prelude_.to_ulong(wide) : prelude_.to_long(wide), in_float(x));
      return to == Scalar::Int64 || unsigned_long ? Expr{whole} : as(c_type(to), whole);
    }
    if (to == Scalar::Half && from != Scalar::Double) return as("half", in_float(x));
    if (to == Scalar::Half || to == Scalar::BFloat16)
      return {
          fmt::format("{}({})", prelude_.to_narrow(from == Scalar::Double ? from : Scalar::Float, to), in_float(x))};
    if (from == Scalar::BFloat16 && to == Scalar::Float) return {in_float(x)};
    return as(c_type(to), from == Scalar::BFloat16 ? in_float(x) : take(x, kPrefix));
  }

  Expr bitcast(UOp u) {
    Scalar from = u.src(0).dtype().scalar, to = u.dtype().scalar;
    if (from == to) return {take(u.src(0), kPrefix), kPrefix};
    if (to == Scalar::Bool) return {take(u.src(0), kSum) + " != 0", kLoose};
    auto is_int = [](Scalar s) { return (scalar_bit(s) & (kMachineInts | kBoolOnly)) != 0 || s == Scalar::BFloat16; };
    if (is_int(from) && is_int(to)) return {fmt::format("({}){}", prelude_.type(to), take(u.src(0), kPrefix)), kPrefix};
    return {fmt::format("{}({})", prelude_.bitcast(from, to), call_argument(u.src(0)))};
  }

  Expr vector(UOp u) {
    std::string text = fmt::format("({}){{", prelude_.type(u.dtype()));
    for (size_t i = 0; i < u.num_src(); ++i) text += (i == 0 ? "" : ", ") + take(u.src(i), kLoose);
    return {text + "}", kPrefix};
  }

  Expr lane(UOp u) {
    const Lanes& lanes = *std::get<const Lanes*>(u.arg());
    if (lanes.size() != 1) cannot_render(u, "C", "it takes several lanes");
    if (u.src(0).dtype().count == 1) return {take(u.src(0), kPrefix), kPrefix};
    return {fmt::format("{}[{}]", take(u.src(0), kAtom), lanes[0])};
  }

  Expr expression(UOp u) {
    if (u.is(Op::Vectorize)) return vector(u);
    if (u.is(Op::Gep)) return lane(u);
    if (u.dtype().count != 1) cannot_render(u, "C", "it is computed on several lanes at once");
    has_floats_ |= u.dtype().is_float();
    switch (u.op()) {
      case Op::Cast: return cast(u);
      case Op::Bitcast: return bitcast(u);
      case Op::Cmplt:
      case Op::Cmpne: return comparison(u);
      case Op::Where:
        return {fmt::format("{} ? {} : {}", take(u.src(0), kPrefix), take(u.src(1), kSum), take(u.src(2), kSum)),
                kLoose};
      default: break;
    }
    if (u.dtype().is_bool()) return bool_op(u);
    return u.dtype().is_float() ? float_arithmetic(u) : int_op(u);
  }

  /// Computes `u` in place of its use if it has one there, else into a variable.
  void write_expression(UOp u) {
    Use used = use(u);
    if (used.count == 0) return;
    depth_ = 0;
    accumulators_ = 0;
    Expr e = expression(u);
    e.depth = static_cast<uint16_t>(depth_ + 1);
    e.accumulators = accumulators_;
    bool elsewhere = used.scope != scope_id() || used.needs_name;
    bool bulky = e.text.size() > kMaxWidth || e.depth > kMaxDepth;
    if (u.is(Op::Gep) && e.binding == kAtom && e.accumulators == 0 && !used.needs_name) {
      expr(u) = std::move(e);  // as short as a name
    } else if (used.count > 1 || elsewhere || bulky) {
      name_value(u, std::move(e));
    } else {
      if (e.accumulators != 0) waiting_.push_back(u);
      expr(u) = std::move(e);
    }
  }

  // --- memory ---

  /// The place an address means, as an lvalue of its type.
  std::string place(UOp address, bool write) {
    Access access = access_of(address);
    std::string buffer = take(access.buffer, kAtom);
    if (address.dtype().count == 1)
      return fmt::format("{}[{}]", buffer, access.index ? take(access.index, kLoose) : "0");
    std::string sum = access.index ? fmt::format("({} + {})", buffer, take(access.index, kSum)) : buffer;
    return fmt::format("*({}{}*){}", write ? "" : "const ", prelude_.type(address.dtype().base()), sum);
  }

  void write_load(UOp u) {
    if (use(u).count == 0) return;
    depth_ = 0;
    accumulators_ = 0;
    std::string text = place(u.src(0), is_written(access_of(u.src(0)).buffer));
    // The one branch that is not taken is not evaluated: a load that is gated off touches no memory.
    if (UOp gate = gate_of(u))
      text = fmt::format("{} ? {} : {}", take(gate, kPrefix), text, take(alternative_of(u), kSum));
    name_value(u, {std::move(text), kLoose});
  }

  void write_store(UOp u) {
    std::string guard;
    if (u.num_src() > 2 && u.src(2).dtype().is_bool()) guard = fmt::format("if ({}) ", take(u.src(2), kLoose));
    std::string text = take(u.src(1), kLoose);
    line(fmt::format("{}{} = {};", guard, place(u.src(0), true), text));
  }

  // --- scopes and accumulators ---

  uint32_t scope_id() const { return scopes_.empty() ? 0 : scopes_.back().id; }
  void open_scope() { scopes_.push_back({++scope_count_, {}}); }
  void close_scope() {
    for (auto& [u, e] : scopes_.back().restore) expr(u) = std::move(e);
    scopes_.pop_back();
    line("}");
  }

  void write_range(UOp u) {
    const RangeArg& r = std::get<RangeArg>(u.arg());
    std::string name = unique(fmt::format("{}idx{}", r.reduce ? "r" : "g", r.axis));
    line(fmt::format("for ({0} {1} = {2}; {1} < {3}; {1}++) {{", c_type(u.dtype().scalar), name, take(u.src(0), kSum),
                     take(u.src(1), kSum)));
    open_scope();
    define(u, std::move(name));
  }

  void write_accumulator(UOp u) {
    std::string name = numbered("acc");
    line(fmt::format("{} {} = {};", prelude_.type(u.dtype()), name, take(u.src(0), kLoose)));
    expr(u) = Expr{std::move(name), kAtom, 0, false, accumulator_bit(u)};
  }

  static uint64_t accumulator_bit(UOp acc) { return uint64_t{1} << (acc.id() % 64); }

  void write_assign(UOp u) {
    UOp acc = accumulator_of(u);
    uint64_t bit = accumulator_bit(acc);
    accumulators_ = 0;
    std::string text = take(u.src(1), kLoose);
    // What still waits to be written and reads the old value has to be computed before it is lost.
    size_t kept = 0;
    for (UOp w : waiting_) {
      if (expr(w).consumed) continue;
      if (expr(w).accumulators & bit) {
        name_value(w, expr(w));
      } else {
        waiting_[kept++] = w;
      }
    }
    waiting_.resize(kept);
    std::string name = expr(acc).text;
    if (use(acc).last > at_ && !scopes_.empty()) {
      std::string before = unique(name + "_before");
      line(fmt::format("{} {} = {};", prelude_.type(acc.dtype()), before, name));
      scopes_.back().restore.emplace_back(acc, expr(acc));
      define(acc, std::move(before));
    }
    line(fmt::format("{} = {};", name, text));
    expr(u) = Expr{std::move(name), kAtom, 0, false, bit};
  }

  void write_wmma(UOp u) {
    if (use(u).count == 0) return;
    UOp a = u.src(0), b = u.src(1), c = u.src(2);
    std::string name = numbered("wmma");
    std::string function = prelude_.wmma(*std::get<const WmmaArg*>(u.arg()), a.dtype(), b.dtype(), c.dtype());
    line(fmt::format("{} {} = {};", prelude_.type(u.dtype()), name, take(c, kLoose)));
    line(fmt::format("{}(&{}, &{}, &{});", function, take(a, kAtom), take(b, kAtom), name));
    define(u, std::move(name));
  }

  void write(UOp u) {
    switch (u.op()) {
      case Op::DefineGlobal:
        if (u.dtype().is_image()) cannot_render(u, "C", "it has no images");
        return;
      case Op::DefineVar: return;
      case Op::Const: {
        std::string text = c_literal(u);
        Binding binding =
            text[0] == '-' || text.starts_with("(half)") || text.starts_with("(bfloat16)") ? kPrefix : kAtom;
        prelude_.type(u.dtype().scalar);
        expr(u) = Expr{std::move(text), binding};
        return;
      }
      case Op::DefineLocal: {
        const LocalArg& local = *std::get<const LocalArg*>(u.arg());
        std::string name = unique(local.name);
        prelude_.type(u.dtype().scalar);
        line(fmt::format("_Alignas(64) {} {}[{}];", c_memory_type(u.dtype().scalar), name, local.size));
        return define(u, std::move(name));
      }
      case Op::DefineAcc: return write_accumulator(u);
      case Op::Range: return write_range(u);
      case Op::If: line(fmt::format("if ({}) {{", take(u.src(0), kLoose))); return open_scope();
      case Op::Endrange:
      case Op::Endif: return close_scope();
      case Op::Assign: return write_assign(u);
      case Op::Index:
      case Op::Barrier:
      case Op::Sink:
      case Op::Noop: return;  // addresses are written where they are used; one thread waits for nobody
      case Op::Load: return write_load(u);
      case Op::Store: return write_store(u);
      case Op::Wmma: return write_wmma(u);
      default:
        if (u.is(Op::Cast) && u.dtype().is_ptr()) return;
        if (!is_expression(u)) cannot_render(u, "C");
        return write_expression(u);
    }
  }

  const LinearProgram& linear_;
  const Target& target_;
  CPrelude prelude_;
  NodeMap<uint32_t> place_;    // of a node in values_
  std::vector<Value> values_;  // [0]: of what is not in the program
  std::vector<UOp> buffers_, vars_, written_;
  std::vector<UOp> waiting_;  // expressions over accumulators that stand in no line yet
  std::vector<Scope> scopes_;
  std::vector<std::pair<std::string_view, int>> counters_;
  std::set<std::string, std::less<>> names_;
  std::string body_;
  size_t at_ = 0;
  uint32_t scope_count_ = 0;
  bool has_floats_ = false;
  // Gathered by take() while an expression is put together.
  uint16_t depth_ = 0;
  uint64_t accumulators_ = 0;
};

}  // namespace

std::string render_c(const std::string& name, const LinearProgram& linear, const Target& target) {
  return CWriter(linear, target).write(name);
}

std::string c_entry(const Program& program, const std::string& entry) {
  std::string arguments;
  for (size_t i = 0; i < program.globals.size(); ++i) arguments += fmt::format("{}buffers[{}]", i == 0 ? "" : ", ", i);
  for (size_t i = 0; i < program.vars.size(); ++i)
    arguments +=
        fmt::format("{}({})vars[{}]", arguments.empty() ? "" : ", ", c_type(program.vars[i].dtype().scalar), i);
  return fmt::format(
      "\nvoid {}(void* const* buffers, const long long* vars) {{ (void)buffers; (void)vars; {}({}); }}\n", entry,
      program.name, arguments);
}

}  // namespace quern
