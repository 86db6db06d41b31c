#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/node_map.h"
#include "render/facts.h"
#include "render/llvm_ops.h"

namespace quern {

namespace {

constexpr int kLine = 64;  ///< bytes of a cache line
constexpr double kStreamedBytes = 1 << 25;
constexpr std::string_view kStreamed = "align 64, !nontemporal !0";

constexpr std::string_view kInt8Dot = "avx512.vpdpbusd", kBFloat16Dot = "avx512bf16.dpbf16ps";

/// What a DEFINE_LOCAL takes of the scratch memory.
int64_t bytes_of_scratch(UOp define_local) {
  const int64_t bytes = std::get<const LocalArg*>(define_local.arg())->size * define_local.dtype().base().itemsize();
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

/// Writes a linear program as one function in SSA form. Accumulators and loop counters are phis; a loop tests at its end, and
/// before it where it may not run at all.
class LlvmWriter {
 public:
  explicit LlvmWriter(const LinearProgram& linear) : linear_(linear), values_(linear.uops.size() + 1) {
    for (size_t i = linear.uops.size(); i-- > 0;) place_.set(linear.uops[i], static_cast<uint32_t>(i + 1));
  }

  std::string write(const std::string& name) {
    zero_ = "@" + name + ".zero";
    survey();
    std::string arguments = name_arguments();
    for (UOp u : linear_.uops) write(u);
    finish_chunk();
    if (!open_.empty()) throw InternalError("a loop or branch is never closed");
    std::string text = fmt::format("define void @{}({}) #0 {{\nentry:\n{}", name, arguments, locals_);
    for (const std::string& chunk : chunks_) text += chunk;
    const bool streams = text.find(kStreamed) != text.npos;
    // What went past the caches is to be seen by whoever learns that the kernel is over.
    text += (streams ? "  fence seq_cst\n  ret void\n}\n" : "  ret void\n}\n") + ops_.declarations();
    if (streams) text += "!0 = !{i32 1}\n";
    if (zero_bytes_ != 0)
      text =
          fmt::format("{} = private unnamed_addr constant [{} x i8] zeroinitializer, align 64\n", zero_, zero_bytes_) +
          text;
    return text + "attributes #0 = { nounwind \"stackrealign\" }\n";
  }

 private:
  struct Value {
    LlvmValue text;
    UOp assign;                     // of an accumulator: what gives its next value
    std::vector<UOp> accumulators;  // of a range
    bool sums = false;              // an accumulator, or a sum that starts with one
    bool contract = false;
    double stored_bytes = 0;  // of a buffer
    bool is_scalar = false;   // a GEP that is wanted by itself, not only in a shuffle
  };
  Value& value(UOp u) { return values_[place_.get(u)]; }
  const LlvmValue& text(UOp u) {
    const Value& v = value(u);
    if (v.text.empty()) cannot_render(u, "LLVM IR", "it is used before it is computed");
    return v.text;
  }

  struct Phi {
    UOp acc;
    LlvmValue before, name;
  };
  struct Open {  // a loop, or a branch (range empty)
    UOp range;
    std::string label, before, counter;
    size_t header = 0;  // the chunk of its phis
    bool guarded = false;
    std::vector<Phi> phis;
  };

  /// Which accumulators each loop carries, how much is stored to each buffer, and which products may fuse into the sum they are
  /// accumulated in.
  void survey() {
    std::vector<double> turns{1};  // of the open loops
    for (UOp u : linear_.uops) {
      if (u.is(Op::Range))
        turns.push_back(turns.back() * (u.src(1).is_const() ? static_cast<double>(u.src(1).const_int()) : 0));
      if (u.is(Op::If)) turns.push_back(turns.back());
      if (u.is({Op::Endrange, Op::Endif})) turns.pop_back();
      if (u.is(Op::Special)) turns.back() *= static_cast<double>(u.vmax() + 1);
      if (u.is(Op::DefineAcc)) {
        for (UOp s : u.src().subspan(1))
          if (s.is(Op::Range)) value(s).accumulators.push_back(u);
        value(u).sums = u.dtype().scalar == Scalar::Float || u.dtype().scalar == Scalar::Double;
      } else if (u.is(Op::Assign)) {
        value(accumulator_of(u)).assign = u;
      } else if (u.is(Op::Store)) {
        written_.push_back(access_of(u.src(0)).buffer);
        value(written_.back()).stored_bytes += turns.back() * u.src(1).dtype().itemsize();
      } else if (u.is(Op::Add) && (value(u.src(0)).sums || value(u.src(1)).sums)) {
        value(u).sums = value(u).contract = true;
        for (UOp s : u.src())
          if (s.is(Op::Mul)) value(s).contract = true;
      }
      if (u.is(Op::Vectorize) && shuffled(u)[0]) continue;
      for (UOp s : u.src())
        if (s.is(Op::Gep)) value(s).is_scalar = true;
    }
  }

  std::string name_arguments() {
    std::string arguments;
    for (UOp b : buffers_of(linear_)) {
      LlvmValue name = concat("%data", std::get<int64_t>(b.arg()));
      bool written = std::find(written_.begin(), written_.end(), b) != written_.end();
      arguments +=
          fmt::format("{}ptr noalias nocapture {}{}", arguments.empty() ? "" : ", ", written ? "" : "readonly ", name);
      value(b).text = std::move(name);
    }
    int number = 0;
    for (UOp v : variables_of(linear_)) {
      LlvmValue name = concat("%var", number++);
      arguments += fmt::format("{}{} {}", arguments.empty() ? "" : ", ", llvm_type(v.dtype()), name);
      value(v).text = std::move(name);
    }
    for (UOp u : linear_.uops) {
      if (!u.is(Op::Special)) continue;
      arguments += concat(arguments.empty() ? "" : ", ", llvm_type(u.dtype()), " %thread");
      value(u).text = "%thread";
    }
    if (scratch_bytes(linear_) != 0)
      arguments +=
          fmt::format("{}ptr noalias nocapture align {} %scratch", arguments.empty() ? "" : ", ", kScratchAlignment);
    return arguments;
  }

  // --- control ---

  void finish_chunk() { chunks_.push_back(ops_.take_lines()); }
  void start_block(std::string label) {
    block_ = std::move(label);
    finish_chunk();
    chunks_.back() += block_ + ":\n";
  }

  void open_loop(UOp u) {
    const auto& r = std::get<RangeArg>(u.arg());
    Open loop;
    loop.range = u;
    loop.label = concat("loop", labels_++);
    loop.before = block_;
    loop.counter = concat(r.reduce ? "%ridx" : "%gidx", r.axis, '.', loop.label);
    loop.guarded = u.src(0).vmax() >= u.src(1).vmin();
    if (loop.guarded) {
      LlvmValue runs = ops_.emit("icmp slt ", llvm_type(u.dtype()), ' ', text(u.src(0)), ", ", text(u.src(1)));
      ops_.line("br i1 ", runs, ", label %", loop.label, ", label %", loop.label, ".end");
    } else {
      ops_.line("br label %", loop.label);
    }
    start_block(loop.label);
    loop.header = chunks_.size();
    chunks_.emplace_back();
    for (UOp acc : value(u).accumulators) {
      LlvmValue name = concat("%acc", accumulators_++);
      loop.phis.push_back({acc, text(acc), name});
      value(acc).text = name;
    }
    value(u).text = loop.counter;
    open_.push_back(std::move(loop));
  }

  LlvmValue next_value(const Phi& phi) {
    UOp assign = value(phi.acc).assign;
    return assign ? text(assign) : phi.name;
  }

  void close_loop(UOp end) {
    if (open_.empty() || open_.back().range != end.src(0))
      throw InternalError("an ENDRANGE that closes another loop than its own");
    Open loop = std::move(open_.back());
    open_.pop_back();
    UOp range = loop.range;
    std::string t = llvm_type(range.dtype());
    ops_.line(loop.counter, ".next = add nsw ", t, ' ', loop.counter, ", 1");
    ops_.line(loop.counter, ".more = icmp slt ", t, ' ', loop.counter, ".next, ", text(range.src(1)));
    ops_.line("br i1 ", loop.counter, ".more, label %", loop.label, ", label %", loop.label, ".end");
    std::string phis;
    append(phis, "  ", loop.counter, " = phi ", t, " [ ", text(range.src(0)), ", %", loop.before, " ], [ ",
           loop.counter, ".next, %", block_, " ]\n");
    std::string latch = block_;
    start_block(loop.label + ".end");
    for (const Phi& phi : loop.phis) {
      LlvmValue next = next_value(phi);
      std::string type = llvm_type(phi.acc.dtype());
      append(phis, "  ", phi.name, " = phi ", type, " [ ", phi.before, ", %", loop.before, " ], [ ", next, ", %", latch,
             " ]\n");
      // The assigned value is what the loop leaves behind; where it may not have run, that can be the value before it.
      UOp assign = value(phi.acc).assign;
      if (assign && loop.guarded)
        value(assign).text =
            ops_.emit("phi ", type, " [ ", phi.before, ", %", loop.before, " ], [ ", next, ", %", latch, " ]");
    }
    chunks_[loop.header] = std::move(phis);
  }

  void open_branch(UOp u) {
    Open branch;
    branch.label = concat("if", labels_++);
    ops_.line("br i1 ", text(u.src(0)), ", label %", branch.label, ", label %", branch.label, ".end");
    start_block(branch.label);
    open_.push_back(std::move(branch));
  }

  void close_branch() {
    if (open_.empty() || open_.back().range) throw InternalError("an ENDIF without its IF");
    std::string label = open_.back().label + ".end";
    open_.pop_back();
    ops_.line("br label %", label);
    start_block(label);
  }

  // --- memory ---

  LlvmValue address(UOp u) {
    Access access = access_of(u);
    if (!access.index) return text(access.buffer);
    return ops_.emit("getelementptr inbounds ", llvm_memory_type(u.dtype().base().scalar_type()), ", ptr ",
                     text(access.buffer), ", ", llvm_type(access.index.dtype()), ' ', text(access.index));
  }

  static bool is_zero(UOp u) {
    if (u.is(Op::Vectorize)) return std::all_of(u.src().begin(), u.src().end(), is_zero);
    return u.is_const() && std::get<ConstBits>(u.arg()).bits == 0;
  }

  /// A load or store of those lanes whose gate holds; the others' memory is not touched.
  LlvmValue masked_load(UOp u, const LlvmValue& place, UOp gate) {
    DType memory = u.dtype().is_bool() ? DType(Scalar::UInt8, u.dtype().count) : u.dtype();
    std::string type = llvm_type(memory), suffix = llvm_lanes_suffix(memory), mask = llvm_type(gate.dtype());
    ops_.declare(concat("declare ", type, " @llvm.masked.load.", suffix, ".p0(ptr, i32, ", mask, ", ", type, ")\n"));
    LlvmValue otherwise = text(alternative_of(u));
    if (u.dtype().is_bool()) otherwise = ops_.emit("zext ", llvm_type(u.dtype()), ' ', otherwise, " to ", type);
    return ops_.emit("call ", type, " @llvm.masked.load.", suffix, ".p0(ptr ", place, ", i32 ",
                     bytes_of(u.dtype().scalar), ", ", mask, ' ', text(gate), ", ", type, ' ', otherwise, ')');
  }

  void masked_store(const LlvmValue& stored, const DType& memory, const LlvmValue& place, UOp gate) {
    std::string type = llvm_type(memory), suffix = llvm_lanes_suffix(memory), mask = llvm_type(gate.dtype());
    ops_.declare(concat("declare void @llvm.masked.store.", suffix, ".p0(", type, ", ptr, i32, ", mask, ")\n"));
    ops_.line("call void @llvm.masked.store.", suffix, ".p0(", type, ' ', stored, ", ptr ", place, ", i32 ",
              bytes_of(memory.scalar), ", ", mask, ' ', text(gate), ')');
  }

  void load(UOp u) {
    LlvmValue place = address(u.src(0));
    UOp gate = gate_of(u);
    if (gate && gate.dtype().count > 1) {
      LlvmValue v = masked_load(u, place, gate);
      if (u.dtype().is_bool()) v = ops_.emit("icmp ne ", llvm_memory_type(u.dtype()), ' ', v, ", zeroinitializer");
      value(u).text = std::move(v);
      return;
    }
    // Gated off, it reads zeros of our own instead: no branch, and the buffer is not touched.
    if (gate) {
      zero_bytes_ = std::max(zero_bytes_, std::max(64, u.dtype().itemsize()));
      place = ops_.emit("select i1 ", text(gate), ", ptr ", place, ", ptr ", zero_);
    }
    std::string type = llvm_type(u.dtype()), memory = llvm_memory_type(u.dtype());
    LlvmValue v = ops_.emit("load ", memory, ", ptr ", place, ", align ", bytes_of(u.dtype().scalar));
    if (u.dtype().is_bool()) v = ops_.emit("icmp ne ", memory, ' ', v, ", zeroinitializer");
    UOp otherwise = alternative_of(u);
    if (gate && !is_zero(otherwise))
      v = ops_.emit("select i1 ", text(gate), ", ", type, ' ', v, ", ", type, ' ', text(otherwise));
    value(u).text = std::move(v);
  }

  void store(UOp u) {
    bool has_gate = u.num_src() > 2 && u.src(2).dtype().is_bool(), masked = has_gate && u.src(2).dtype().count > 1;
    bool gated = has_gate && !masked;
    if (gated) {
      std::string label = concat("store", labels_++);
      ops_.line("br i1 ", text(u.src(2)), ", label %", label, ", label %", label, ".end");
      start_block(label);
    }
    UOp stored = u.src(1);
    LlvmValue v = text(stored);
    std::string memory = llvm_memory_type(stored.dtype());
    if (stored.dtype().is_bool()) v = ops_.emit("zext ", llvm_type(stored.dtype()), ' ', v, " to ", memory);
    if (masked) {
      DType type = stored.dtype().is_bool() ? DType(Scalar::UInt8, stored.dtype().count) : stored.dtype();
      return masked_store(v, type, address(u.src(0)), u.src(2));
    }
    const bool past_caches = !gated && is_streamed(u);
    ops_.line("store ", memory, ' ', v, ", ptr ", address(u.src(0)), ", ",
              past_caches ? LlvmValue(kStreamed) : concat("align ", bytes_of(stored.dtype().scalar)));
    if (gated) {
      std::string after = block_ + ".end";
      ops_.line("br label %", after);
      start_block(after);
    }
  }

  /// Whole lines of a buffer that is written once and is more than caches hold: they are not worth a place there.
  bool is_streamed(UOp store) {
    const DType type = store.src(1).dtype();
    if (type.count == 1 || type.itemsize() != kLine || type.is_bool()) return false;
    const Access access = access_of(store.src(0));
    if (!access.buffer.is(Op::DefineGlobal) || value(access.buffer).stored_bytes < kStreamedBytes) return false;
    int nodes = 64;
    return !access.index || (int64_t{1} << low_zeros(access.index, nodes)) >= type.count;
  }

  /// Zero bits that the number surely ends with, looking at up to `nodes` nodes.
  static int low_zeros(UOp u, int& nodes) {
    if (nodes-- == 0) return 0;
    if (u.is_const()) return u.const_int() == 0 ? 62 : std::countr_zero(static_cast<uint64_t>(u.const_int()));
    switch (u.op()) {
      case Op::Cast: return u.src(0).dtype().is_int() ? low_zeros(u.src(0), nodes) : 0;
      case Op::Add: return std::min(low_zeros(u.src(0), nodes), low_zeros(u.src(1), nodes));
      case Op::Mul: return std::min(62, low_zeros(u.src(0), nodes) + low_zeros(u.src(1), nodes));
      case Op::Shl:
        return u.src(1).is_const() ? std::min(62, low_zeros(u.src(0), nodes) + static_cast<int>(u.src(1).const_int()))
                                   : 0;
      default: return 0;
    }
  }

  void define_local(UOp u) {
    LlvmValue name = concat("%local", labels_++);
    locals_ += fmt::format("  {} = getelementptr i8, ptr %scratch, i64 {}\n", name, scratch_used_);
    scratch_used_ += bytes_of_scratch(u);
    value(u).text = std::move(name);
  }

  // --- values ---

  void vectorize(UOp u) {
    std::string type = llvm_type(u.dtype()), element = llvm_type(u.dtype().scalar_type());
    std::span<const UOp> lanes = u.src();
    bool constant = std::all_of(lanes.begin(), lanes.end(), [](UOp s) { return s.is_const(); });
    bool splat = std::all_of(lanes.begin(), lanes.end(), [&](UOp s) { return s == lanes[0]; });
    if (constant && splat) {
      value(u).text = concat("splat (", element, ' ', text(lanes[0]), ')');
      return;
    }
    if (constant) {
      std::string literal;
      for (UOp s : lanes) append(literal, literal.empty() ? "<" : ", ", element, ' ', text(s));
      value(u).text = literal + ">";
      return;
    }
    if (shuffle(u)) return;
    LlvmValue v = "poison";
    for (size_t i = 0; i < (splat ? 1 : lanes.size()); ++i)
      v = ops_.emit("insertelement ", type, ' ', v, ", ", element, ' ', text(lanes[i]), ", i64 ", i);
    if (splat)
      v = ops_.emit("shufflevector ", type, ' ', v, ", ", type, " poison, <", lanes.size(), " x i32> zeroinitializer");
    value(u).text = std::move(v);
  }

  /// The one or two vectors whose lanes the vector `u` takes, if it takes nothing else.
  static std::array<UOp, 2> shuffled(UOp u) {
    std::array<UOp, 2> from;
    for (UOp s : u.src()) {
      if (!s.is(Op::Gep) || std::get<const Lanes*>(s.arg())->size() != 1) return {};
      UOp vector = s.src(0);
      if (vector.dtype().count == 1 || (from[0] && vector.dtype() != from[0].dtype())) return {};
      size_t side = 0;
      while (side < 2 && from[side] && from[side] != vector) ++side;
      if (side == 2) return {};
      from[side] = vector;
    }
    return from;
  }

  /// Lanes of one vector or of two of the same type are shuffled, not moved one by one.
  bool shuffle(UOp u) {
    const std::array<UOp, 2> from = shuffled(u);
    if (!from[0]) return false;
    std::string which;
    for (UOp s : u.src())
      append(which, which.empty() ? "i32 " : ", i32 ",
             (*std::get<const Lanes*>(s.arg()))[0] + (s.src(0) == from[0] ? 0 : s.src(0).dtype().count));
    const std::string type = llvm_type(from[0].dtype());
    value(u).text =
        ops_.emit("shufflevector ", type, ' ', text(from[0]), ", ", type, ' ',
                  from[1] ? text(from[1]) : LlvmValue("poison"), ", <", u.num_src(), " x i32> <", which, '>');
    return true;
  }

  void lane(UOp u) {
    const Lanes& lanes = *std::get<const Lanes*>(u.arg());
    UOp from = u.src(0);
    if (lanes.size() == 1 && !value(u).is_scalar) return;
    if (lanes.size() != 1) {
      std::string type = llvm_type(from.dtype()), which;
      for (int32_t lane : lanes) append(which, which.empty() ? "i32 " : ", i32 ", lane);
      value(u).text = ops_.emit("shufflevector ", type, ' ', text(from), ", ", type, " poison, <", lanes.size(),
                                " x i32> <", which, ">");
      return;
    }
    value(u).text = from.dtype().count == 1
                        ? text(from)
                        : ops_.emit("extractelement ", llvm_type(from.dtype()), ' ', text(from), ", i64 ", lanes[0]);
  }

  /// The row of A stands in each lane as one number of 32 bits, like each lane's column of B.
  void dot_product(UOp u) {
    const WmmaArg& arg = *std::get<const WmmaArg*>(u.arg());
    const std::string type = llvm_type(u.dtype()), words = llvm_type(DType(Scalar::Int32, u.dtype().count));
    const int bits = u.dtype().count * 32;
    const LlvmValue row = ops_.emit("bitcast ", llvm_type(u.src(0).dtype()), ' ', text(u.src(0)), " to i32");
    const bool is_int = arg.dtype_in == Scalar::Int8;
    LlvmValue rows = ops_.emit("insertelement ", words, " poison, i32 ", row, ", i64 0");
    rows = ops_.emit("shufflevector ", words, ' ', rows, ", ", words, " poison, <", u.dtype().count,
                     " x i32> zeroinitializer");
    const LlvmValue columns = ops_.emit("bitcast ", llvm_type(u.src(1).dtype()), ' ', text(u.src(1)), " to ", words);
    const auto call = [&](std::string_view name, const LlvmValue& sums, std::string_view operands, const LlvmValue& a,
                          const LlvmValue& b) {
      ops_.declare(
          concat("declare ", type, " @llvm.x86.", name, '.', bits, '(', type, ", ", operands, ", ", operands, ")\n"));
      return ops_.emit("call ", type, " @llvm.x86.", name, '.', bits, '(', type, ' ', sums, ", ", operands, ' ', a,
                       ", ", operands, ' ', b, ')');
    };
    if (is_int) {
      value(u).text = call(kInt8Dot, text(u.src(2)), words, rows, columns);
      return;
    }
    const std::string numbers = concat('<', 2 * u.dtype().count, " x bfloat>");
    const auto as_numbers = [&](const LlvmValue& x) { return ops_.emit("bitcast ", words, ' ', x, " to ", numbers); };
    value(u).text = call(kBFloat16Dot, text(u.src(2)), numbers, as_numbers(rows), as_numbers(columns));
  }

  void write(UOp u) {
    switch (u.op()) {
      case Op::DefineGlobal:
        if (u.dtype().is_image()) cannot_render(u, "LLVM IR", "it has no images");
        return;
      case Op::DefineVar:
      case Op::Index:
      case Op::Barrier:
      case Op::Sink:
      case Op::Special:
      case Op::Noop: return;
      case Op::Const: value(u).text = llvm_literal(u); return;
      case Op::DefineLocal: return define_local(u);
      case Op::DefineAcc: value(u).text = text(u.src(0)); return;
      case Op::Assign: value(u).text = text(u.src(1)); return;
      case Op::Range: return open_loop(u);
      case Op::Endrange: return close_loop(u);
      case Op::If: return open_branch(u);
      case Op::Endif: return close_branch();
      case Op::Load: return load(u);
      case Op::Store: return store(u);
      case Op::Vectorize: return vectorize(u);
      case Op::Gep: return lane(u);
      case Op::Wmma: return dot_product(u);
      default: break;
    }
    if (u.is(Op::Cast) && u.dtype().is_ptr()) return;
    if (!u.is(kAluOps | OpSet{Op::Cast, Op::Bitcast})) cannot_render(u, "LLVM IR");
    std::vector<LlvmValue> src;
    for (UOp s : u.src()) src.push_back(text(s));
    value(u).text = ops_.compute(u, src, value(u).contract);
  }

  const LinearProgram& linear_;
  LlvmOps ops_;
  NodeScratch<uint32_t> place_;  // of a node in values_
  std::vector<Value> values_;    // [0]: of what is not in the program
  std::vector<UOp> written_;
  std::vector<Open> open_;
  std::vector<std::string> chunks_;  // the body; loop headers are filled in when their loop closes
  std::string locals_, zero_;
  int64_t scratch_used_ = 0;
  std::string block_ = "entry";
  int labels_ = 0, accumulators_ = 0, zero_bytes_ = 0;
};

}  // namespace

std::string render_llvm(const std::string& name, const LinearProgram& linear) { return LlvmWriter(linear).write(name); }

int64_t scratch_bytes(const LinearProgram& linear) {
  int64_t bytes = 0;
  for (UOp u : linear.uops)
    if (u.is(Op::DefineLocal)) bytes += bytes_of_scratch(u);
  return bytes;
}

std::optional<std::string> without_streaming(const std::string& source) {
  if (source.find(kStreamed) == source.npos) return std::nullopt;
  std::string plain;
  size_t from = 0;
  for (size_t at = 0; (at = source.find(kStreamed, from)) != source.npos; from = at + kStreamed.size())
    plain += source.substr(from, at - from) + "align 1";
  return plain + source.substr(from);
}

std::string llvm_entry(const Program& program, const std::string& entry) {
  std::string body, arguments;
  for (size_t i = 0; i < program.globals.size(); ++i) {
    body += fmt::format("  %b{0}.at = getelementptr ptr, ptr %buffers, i64 {0}\n  %b{0} = load ptr, ptr %b{0}.at\n", i);
    arguments += fmt::format("{}ptr %b{}", arguments.empty() ? "" : ", ", i);
  }
  for (size_t i = 0; i < program.vars.size(); ++i) {
    bool narrow = bits_of(program.vars[i].dtype().scalar) < 64;
    std::string type = llvm_type(program.vars[i].dtype());
    body += fmt::format("  %w{0}.at = getelementptr i64, ptr %vars, i64 {0}\n  %w{0} = load i64, ptr %w{0}.at\n", i);
    if (narrow) body += fmt::format("  %n{0} = trunc i64 %w{0} to {1}\n", i, type);
    arguments += fmt::format("{}{} %{}{}", arguments.empty() ? "" : ", ", type, narrow ? "n" : "w", i);
  }
  if (program.global_size) arguments += fmt::format("{}i32 %thread", arguments.empty() ? "" : ", ");
  if (scratch_bytes(program.linear) != 0) arguments += fmt::format("{}ptr %scratch", arguments.empty() ? "" : ", ");
  return fmt::format(
      "\ndefine void @{}(ptr %buffers, ptr %vars, i32 %thread, ptr %scratch) {{\n{}  call void @{}({})\n  ret "
      "void\n}}\n",
      entry, body, program.name, arguments);
}

}  // namespace quern
