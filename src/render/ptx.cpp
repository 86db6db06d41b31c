// PTX text: typed registers, loops as labels and branches, wide accesses, mma.
#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "quern/error.h"

#include "ir/node_map.h"
#include "render/facts.h"
#include "render/program.h"
#include "render/ptx_ops.h"

namespace quern {

namespace {

const OpSet kComputed = kAluOps | OpSet{Op::Cast, Op::Bitcast};

class PtxWriter {
 public:
  PtxWriter(const LinearProgram& linear, const Target& target)
      : linear_(linear), target_(target), lanes_(linear.uops.size() + 1), launch_(launch_of(linear)) {
    for (size_t i = linear.uops.size(); i-- > 0;) place_.set(linear.uops[i], static_cast<uint32_t>(i + 1));
  }

  std::string write(const std::string& name) {
    scopes_.push_back({});
    find_uses();
    load_arguments(name);
    for (at_ = 0; at_ < linear_.uops.size(); ++at_) write(linear_.uops[at_]);
    std::string body = ops_.take_lines();
    std::string sm = target_.name.substr(target_.name.find(':') + 1);
    return fmt::format(
        ".version 7.8\n.target {}\n.address_size 64\n\n.visible .entry {}({})\n{}{{\n{}{}{}  "
        "ret;\n}}\n",
        sm, name, parameters_, launch_bounds(), ops_.registers(), shared_, body);
  }

 private:
  using Lanes = std::vector<PtxValue>;
  struct Address {
    UOp buffer, root;
    PtxValue name;
  };
  /// What is known only until a loop or branch ends.
  struct Scope {
    std::vector<Address> addresses;
    std::vector<std::pair<UOp, Lanes>> restore;  // accumulators under another name
    std::string begin, end;                      // labels
  };

  Lanes& lanes(UOp u) {
    Lanes& found = lanes_[place_.get(u)];
    if (found.empty()) cannot_render(u, "PTX", "it is used before it is computed");
    return found;
  }
  void define(UOp u, Lanes values) { lanes_[place_.get(u)] = std::move(values); }
  const PtxValue& value(UOp u) { return lanes(u)[0]; }
  /// In a register.
  PtxValue held(UOp u, size_t lane = 0) { return ops_.in_register(u.dtype().scalar, lanes(u)[lane]); }
  /// As an operand: bools have no immediates.
  PtxValue operand(UOp u) { return u.dtype().is_bool() ? held(u) : value(u); }

  void find_uses() {
    for (size_t i = 0; i < linear_.uops.size(); ++i) {
      UOp u = linear_.uops[i];
      for (UOp s : u.src())
        if (s.is(Op::DefineAcc) && !u.is(Op::Assign)) last_read_.set(s, static_cast<uint32_t>(i));
      if (u.is(Op::Store)) written_.push_back(access_of(u.src(0)).buffer);
    }
  }

  std::string launch_bounds() const {
    if (!launch_.has_items) return {};
    return fmt::format(".maxntid {}, {}, {}\n", launch_.items[0].value(), launch_.items[1].value(),
                       launch_.items[2].value());
  }

  void load_arguments(const std::string& name) {
    int number = 0;
    auto add = [&](std::string_view type) {
      parameters_ += fmt::format("{}\n  .param .{} {}_{}", number == 0 ? "" : ",", type, name, number);
      return fmt::format("[{}_{}]", name, number++);
    };
    for (UOp b : buffers_of(linear_)) {
      PtxValue generic = ops_.emit('l', "ld.param.u64", {add("u64")});
      define(b, {ops_.emit('l', "cvta.to.global.u64", {generic})});
    }
    for (UOp v : variables_of(linear_)) {
      const PtxType& t = ptx_type(v.dtype().scalar);
      std::string from = add(t.memory);
      define(v, {ops_.emit(t.bank, fmt::format("ld.param.{}", t.memory), {from})});
    }
  }

  // --- memory ---

  /// The address of an element, "[%l3+16]": what is computed of it is kept while it is in scope.
  std::string address(UOp at, int64_t offset) {
    Access access = access_of(at);
    int64_t size = bytes_of(access.buffer.dtype().scalar);
    UOp root = access.index;
    if (root && root.is(Op::Add) && root.src(1).is_const() && cannot_overflow(root)) {
      offset += static_cast<int64_t>(root.src(1).const_int()) * size;
      root = root.src(0);
    }
    if (root && root.is_const()) {
      offset += static_cast<int64_t>(root.const_int()) * size;
      root = UOp();
    }
    PtxValue base = root ? element(access.buffer, root, size) : value(access.buffer);
    // Offsets in addresses have 32 bits.
    if (offset != static_cast<int32_t>(offset))
      return fmt::format("[{}]", ops_.emit('l', "add.s64", {base, std::to_string(offset)}));
    return offset == 0 ? fmt::format("[{}]", base) : fmt::format("[{}+{}]", base, offset);
  }

  PtxValue element(UOp buffer, UOp index, int64_t size) {
    for (const Scope& scope : scopes_)
      for (const Address& known : scope.addresses)
        if (known.buffer == buffer && known.root == index) return known.name;
    std::string scale = std::to_string(size);
    PtxValue offset = index.dtype().scalar == Scalar::Int64
                          ? ops_.emit('l', "mul.lo.s64", {value(index), scale})
                          : ops_.emit('l', fmt::format("mul.wide.{}", index.dtype().is_unsigned() ? "u32" : "s32"),
                                      {value(index), scale});
    PtxValue name = ops_.emit('l', "add.s64", {value(buffer), offset});
    scopes_.back().addresses.push_back({buffer, index, name});
    return name;
  }

  std::string_view space(UOp buffer, bool load) const {
    if (buffer.dtype().is_local()) return "shared";
    bool changes = std::find(written_.begin(), written_.end(), buffer) != written_.end();
    return load && !changes ? "global.nc" : "global";
  }

  static std::string list(const Lanes& values) {
    return values.size() == 1 ? values[0] : fmt::format("{{{}}}", fmt::join(values, ", "));
  }
  static std::string width(size_t lanes) { return lanes == 1 ? "" : fmt::format(".v{}", lanes); }

  /// Bools are bytes in memory.
  static Scalar held_in_memory(Scalar s) { return s == Scalar::Bool ? Scalar::UInt8 : s; }

  /// One instruction moves 16 bytes and four lanes at most.
  template <class Part>
  void in_parts(size_t lanes, Scalar stored, const Part& part) {
    auto size = static_cast<size_t>(bytes_of(stored));
    size_t step = std::min({lanes, size_t{4}, 16 / size});
    for (size_t i = 0; i < lanes; i += step) part(i, std::min(step, lanes - i), static_cast<int64_t>(i * size));
  }

  void write_load(UOp u) {
    Scalar s = u.dtype().scalar, stored = held_in_memory(s);
    Lanes values;
    for (int i = 0; i < u.dtype().count; ++i) values.push_back(ops_.fresh(stored));
    std::string guard;
    if (UOp gate = gate_of(u)) {
      guard = fmt::format("@{} ", held(gate));
      for (size_t i = 0; i < values.size(); ++i) {
        const PtxValue& alternative = lanes(alternative_of(u))[i];
        if (s == Scalar::Bool) {
          ops_.line(fmt::format("selp.b16 {}, 1, 0, {};", values[i], ops_.in_register(s, alternative)));
        } else {
          ops_.move(s, values[i], alternative);
        }
      }
    }
    in_parts(values.size(), stored, [&](size_t first, size_t count, int64_t offset) {
      Lanes part(values.begin() + static_cast<std::ptrdiff_t>(first),
                 values.begin() + static_cast<std::ptrdiff_t>(first + count));
      std::string from = address(u.src(0), offset);
      ops_.line(fmt::format("{}ld.{}{}.{} {}, {};", guard, space(access_of(u.src(0)).buffer, true), width(count),
                            ptx_type(stored).memory, list(part), from));
    });
    if (s == Scalar::Bool)
      for (PtxValue& v : values) v = ops_.emit('p', "setp.ne.b16", {v, "0"});
    define(u, std::move(values));
  }

  void write_store(UOp u) {
    UOp v = u.src(1);
    Scalar s = v.dtype().scalar, stored = held_in_memory(s);
    std::string guard;
    if (u.num_src() > 2 && u.src(2).dtype().is_bool()) guard = fmt::format("@{} ", held(u.src(2)));
    in_parts(lanes(v).size(), stored, [&](size_t first, size_t count, int64_t offset) {
      Lanes part;
      for (size_t i = first; i < first + count; ++i)
        part.push_back(s == Scalar::Bool ? ops_.emit('h', "selp.b16", {"1", "0", held(v, i)}) : held(v, i));
      std::string to = address(u.src(0), offset);
      ops_.line(fmt::format("{}st.{}{}.{} {}, {};", guard, space(access_of(u.src(0)).buffer, false), width(count),
                            ptx_type(stored).memory, to, list(part)));
    });
  }

  void write_local(UOp u) {
    const LocalArg& local = *std::get<const LocalArg*>(u.arg());
    std::string name = fmt::format("shared{}", locals_++);
    shared_ += fmt::format("  .shared .align 16 .b8 {}[{}];\n", name, local.size * bytes_of(u.dtype().scalar));
    define(u, {ops_.emit('l', "mov.u64", {name})});
  }

  // --- scopes and accumulators ---

  void open_scope(std::string begin, std::string end) { scopes_.push_back({{}, {}, std::move(begin), std::move(end)}); }
  Scope close_scope() {
    if (scopes_.size() < 2) throw InternalError("a scope closed that was never opened");
    Scope closed = std::move(scopes_.back());
    scopes_.pop_back();
    for (auto& [acc, name] : closed.restore) define(acc, std::move(name));
    return closed;
  }

  void write_range(UOp u) {
    Scalar s = u.dtype().scalar;
    const PtxType& t = ptx_type(s);
    PtxValue counter = ops_.fresh(s);
    ops_.move(s, counter, value(u.src(0)));
    int number = labels_++;
    open_scope(fmt::format("LOOP_{}", number), fmt::format("DONE_{}", number));
    ops_.label(scopes_.back().begin);
    PtxValue done = ops_.emit('p', fmt::format("setp.ge.{}", t.arithmetic), {counter, value(u.src(1))});
    ops_.line(fmt::format("@{} bra {};", done, scopes_.back().end));
    define(u, {counter});
  }

  void close_range(UOp u) {
    UOp range = u.src(0);
    const PtxType& t = ptx_type(range.dtype().scalar);
    Scope closed = close_scope();
    ops_.line(fmt::format("add.{0} {1}, {1}, 1;", t.arithmetic, value(range)));
    ops_.line(fmt::format("bra {};", closed.begin));
    ops_.label(closed.end);
  }

  void write_if(UOp u) {
    PtxValue condition = held(u.src(0));
    open_scope("", fmt::format("ENDIF_{}", labels_++));
    ops_.line(fmt::format("@!{} bra {};", condition, scopes_.back().end));
  }

  void write_accumulator(UOp u) {
    Scalar s = u.dtype().scalar;
    Lanes registers;
    for (const PtxValue& start : Lanes(lanes(u.src(0)))) {
      registers.push_back(ops_.fresh(s));
      assign(s, registers.back(), start);
    }
    define(u, std::move(registers));
  }

  void assign(Scalar s, const PtxValue& to, const PtxValue& from) {
    ops_.move(s, to, s == Scalar::Bool ? ops_.in_register(s, from) : from);
  }

  void write_assign(UOp u) {
    UOp acc = accumulator_of(u);
    Scalar s = acc.dtype().scalar;
    Lanes registers = lanes(acc), values = lanes(u.src(1));
    // What reads the old value further on has to find it.
    if (last_read_.get(acc) > at_ && scopes_.size() > 1) {
      Lanes before;
      for (const PtxValue& r : registers) {
        before.push_back(ops_.fresh(s));
        ops_.move(s, before.back(), r);
      }
      scopes_.back().restore.emplace_back(acc, registers);
      define(acc, std::move(before));
    }
    for (size_t i = 0; i < registers.size(); ++i) assign(s, registers[i], values[i]);
    define(u, std::move(registers));
  }

  // --- threads and tensor cores ---

  void write_work_item(UOp u) {
    const SpecialArg& special = *std::get<const SpecialArg*>(u.arg());
    char axis = "xyz"[special.name.back() - '0'];
    auto read = [&](std::string_view name) { return ops_.emit('r', "mov.u32", {fmt::format("%{}.{}", name, axis)}); };
    if (special.name[0] == 'g') return define(u, {read("ctaid")});
    if (special.name[0] == 'l') return define(u, {read("tid")});
    PtxValue group = read("ctaid"), size = read("ntid"), item = read("tid");
    define(u, {ops_.emit('r', "mad.lo.s32", {group, size, item})});
  }

  /// Two halfs a register.
  Lanes packed(UOp vector) {
    Lanes words;
    for (size_t i = 0; i + 1 < lanes(vector).size(); i += 2)
      words.push_back(ops_.emit('r', "mov.b32", {fmt::format("{{{}, {}}}", held(vector, i), held(vector, i + 1))}));
    return words;
  }

  /// A float a register, rounded.
  Lanes rounded_to_tf32(UOp vector) {
    Lanes words;
    for (size_t i = 0; i < lanes(vector).size(); ++i)
      words.push_back(ops_.emit('r', "cvt.rna.tf32.f32", {held(vector, i)}));
    return words;
  }

  /// PTX ISA, "mma.m16n8k16" and, of tf32, "mma.m16n8k8": four registers of A, two of B.
  void write_wmma(UOp u) {
    const WmmaArg& arg = *std::get<const WmmaArg*>(u.arg());
    const bool tf32 = arg.dtype_in == Scalar::Float;
    const int k = tf32 ? 8 : 16, lanes_a = tf32 ? 4 : 8;
    if (arg.dims != std::array<int32_t, 3>{8, 16, k} || arg.dtype_out != Scalar::Float ||
        u.src(0).dtype().count != lanes_a || u.src(1).dtype().count != lanes_a / 2 || u.dtype().count != 4)
      throw InternalError("PTX has no form for tensor core " + arg.name);
    Lanes a = tf32 ? rounded_to_tf32(u.src(0)) : packed(u.src(0));
    Lanes b = tf32 ? rounded_to_tf32(u.src(1)) : packed(u.src(1));
    Lanes c, d;
    for (size_t i = 0; i < 4; ++i) {
      c.push_back(held(u.src(2), i));
      d.push_back(ops_.fresh(Scalar::Float));
    }
    std::string_view type = tf32 ? "tf32" : arg.dtype_in == Scalar::Half ? "f16" : "bf16";
    ops_.line(fmt::format("mma.sync.aligned.m16n8k{0}.row.col.f32.{1}.{1}.f32 {2}, {3}, {4}, {5};", k, type, list(d),
                          list(a), list(b), list(c)));
    define(u, std::move(d));
  }

  void write_computed(UOp u) {
    if (u.dtype().is_ptr()) return;
    if (u.dtype().count != 1) cannot_render(u, "PTX", "it is computed on several lanes at once");
    sources_.clear();
    for (UOp s : u.src()) sources_.push_back(operand(s));
    define(u, {ops_.compute(u, sources_)});
  }

  void write_lanes(UOp u) {
    if (u.is(Op::Gep)) {
      const quern::Lanes& taken = *std::get<const quern::Lanes*>(u.arg());
      Lanes values;
      for (int32_t lane : taken) values.push_back(lanes(u.src(0)).at(static_cast<size_t>(lane)));
      return define(u, std::move(values));
    }
    Lanes values;
    for (UOp s : u.src()) values.push_back(value(s));
    define(u, std::move(values));
  }

  void write(UOp u) {
    switch (u.op()) {
      case Op::DefineGlobal:
        if (u.dtype().is_image()) cannot_render(u, "PTX", "it has no images");
        return;
      case Op::DefineVar:
      case Op::Index:
      case Op::Sink:
      case Op::Noop: return;
      case Op::Const: return define(u, {ptx_literal(u)});
      case Op::DefineLocal: return write_local(u);
      case Op::DefineAcc: return write_accumulator(u);
      case Op::Special: return write_work_item(u);
      case Op::Range: return write_range(u);
      case Op::Endrange: return close_range(u);
      case Op::If: return write_if(u);
      case Op::Endif: return ops_.label(close_scope().end);
      case Op::Assign: return write_assign(u);
      case Op::Barrier: return ops_.line("bar.sync 0;");
      case Op::Load: return write_load(u);
      case Op::Store: return write_store(u);
      case Op::Wmma: return write_wmma(u);
      case Op::Gep:
      case Op::Vectorize: return write_lanes(u);
      default:
        if (!u.is(kComputed)) cannot_render(u, "PTX");
        return write_computed(u);
    }
  }

  const LinearProgram& linear_;
  const Target& target_;
  PtxOps ops_;
  NodeScratch<uint32_t> place_;  // of a node in lanes_
  std::vector<Lanes> lanes_;     // [0]: of what is not in the program
  NodeScratch<uint32_t> last_read_;
  std::vector<UOp> written_;
  std::vector<Scope> scopes_;
  std::vector<PtxValue> sources_;
  std::string parameters_, shared_;
  Launch launch_;
  size_t at_ = 0;
  int labels_ = 0, locals_ = 0;
};

}  // namespace

std::string render_ptx(const std::string& name, const LinearProgram& linear, const Target& target) {
  return PtxWriter(linear, target).write(name);
}

}  // namespace quern
