#include "runtime/interp/bytecode.h"

#include <algorithm>

#include "quern/error.h"

#include "ir/eval.h"
#include "ir/node_map.h"

namespace quern::interp {

namespace {

class Assembler {
 public:
  explicit Assembler(const Program& program) : program_(program) {
    for (UOp u : program.linear.uops) add(u);
    if (!open_.empty()) throw InternalError("interp: a loop or if is not closed");
    code_.num_regs = next_;
  }
  Bytecode take() { return std::move(code_); }

 private:
  const Program& program_;
  Bytecode code_;
  NodeMap<int> reg_;          // register + 1
  NodeMap<int> local_;        // index of a DEFINE_LOCAL + 1
  NodeMap<size_t> position_;  // of a RANGE's instruction
  std::vector<UOp> open_;
  int next_ = 0;

  Reg reg(UOp u) const {
    int r = reg_.get(u);
    if (r == 0) throw InternalError("interp: " + std::string(to_string(u.op())) + " is used before it is made");
    return r - 1;
  }
  Reg fresh(UOp u) {
    Reg r = next_;
    next_ += std::max(1, u.dtype().lanes());
    reg_[u] = r + 1;
    return r;
  }
  Insn& emit(UOp u) {
    code_.insns.push_back(Insn{u,
                               u.op(),
                               u.dtype().scalar,
                               u.dtype().scalar,
                               std::max(1, u.dtype().lanes()),
                               kNoReg,
                               {},
                               kNoReg,
                               kNoReg,
                               {},
                               0,
                               0});
    return code_.insns.back();
  }

  BufferRef buffer_of(UOp buffer) const {
    if (buffer.is(Op::DefineLocal)) return {true, local_.get(buffer) - 1};
    int number = static_cast<int>(std::get<int64_t>(buffer.arg()));
    auto it = std::find(program_.globals.begin(), program_.globals.end(), number);
    return {false, static_cast<int>(it - program_.globals.begin())};
  }

  /// Takes apart the address of a LOAD or STORE: [CAST of] INDEX(buffer, index).
  void address(UOp a, Insn& insn) {
    if (a.is(Op::Cast)) a = a.src(0);
    if (!a.is(Op::Index)) throw InternalError("interp: an address is an INDEX, not " + std::string(to_string(a.op())));
    insn.buffer = buffer_of(a.src(0));
    insn.type = a.src(0).dtype().scalar;
    Reg index = reg(a.src(1));
    insn.src = {index};
    if (a.src(0).dtype().is_image()) insn.src.push_back(index + 1);
  }

  /// With a gate a lane, each lane is an access of its own.
  static bool has_gate_of_lanes(UOp access) {
    return access.num_src() > 2 && access.src(2).dtype().is_bool() && access.src(2).dtype().count > 1;
  }

  void load(UOp u) {
    Reg dst = fresh(u);
    for (int i = 0; has_gate_of_lanes(u) && i < u.dtype().count; ++i) {
      Insn& insn = emit(u);
      insn.dst = dst + i;
      insn.count = 1;
      insn.offset = i;
      address(u.src(0), insn);
      insn.alternative = reg(u.src(1)) + i;
      insn.gate = reg(u.src(2)) + i;
    }
    if (has_gate_of_lanes(u)) return;
    Insn& insn = emit(u);
    insn.dst = dst;
    address(u.src(0), insn);
    if (u.num_src() >= 3 && u.src(2).dtype().is_bool()) {
      insn.alternative = reg(u.src(1));
      insn.gate = reg(u.src(2));
    }
  }

  void store(UOp u) {
    for (int i = 0; has_gate_of_lanes(u) && i < u.src(1).dtype().count; ++i) {
      Insn& insn = emit(u);
      insn.count = 1;
      insn.offset = i;
      address(u.src(0), insn);
      insn.out = u.src(1).dtype().scalar;
      insn.src.push_back(reg(u.src(1)) + i);
      insn.gate = reg(u.src(2)) + i;
    }
    if (has_gate_of_lanes(u)) return;
    Insn& insn = emit(u);
    insn.count = u.src(1).dtype().count;
    address(u.src(0), insn);
    insn.out = u.src(1).dtype().scalar;
    insn.src.push_back(reg(u.src(1)));
    if (u.num_src() > 2 && u.src(2).dtype().is_bool()) insn.gate = reg(u.src(2));
  }

  void close(UOp u) {
    if (open_.empty() || open_.back() != u.src(0)) throw InternalError("interp: scopes are not nested");
    open_.pop_back();
    size_t end = code_.insns.size();
    Insn& insn = emit(u);
    insn.jump = position_.get(u.src(0));
    code_.insns[insn.jump].jump = end;
  }

  void add(UOp u) {
    switch (u.op()) {
      case Op::DefineGlobal:
      case Op::Index: return;
      case Op::DefineLocal: {
        const LocalArg& arg = *std::get<const LocalArg*>(u.arg());
        code_.locals.push_back({arg.name, arg.size});
        local_[u] = static_cast<int>(code_.locals.size());
        return;
      }
      case Op::DefineVar: code_.variables.emplace_back(fresh(u), std::get<const VarArg*>(u.arg())->name); return;
      case Op::Special: {
        const std::string& name = std::get<const SpecialArg*>(u.arg())->name;
        code_.threads.push_back({fresh(u), name[0], name.back() - '0'});
        return;
      }
      case Op::Const: {
        ConstBits bits = std::get<ConstBits>(u.arg());
        if (u.dtype().is_float()) bits = const_of_float(u.dtype().scalar, float_of_const(bits));
        code_.constants.emplace_back(fresh(u), bits.bits);
        return;
      }
      case Op::Range: {
        open_.push_back(u);
        position_[u] = code_.insns.size();
        Reg dst = fresh(u);
        Insn& insn = emit(u);
        insn.dst = dst;
        insn.src = {reg(u.src(0)), reg(u.src(1))};
        return;
      }
      case Op::If: {
        open_.push_back(u);
        position_[u] = code_.insns.size();
        Insn& insn = emit(u);
        insn.src = {reg(u.src(0))};
        return;
      }
      case Op::Endrange:
      case Op::Endif: return close(u);
      case Op::Load: return load(u);
      case Op::Store: return store(u);
      case Op::Barrier: emit(u); return;
      case Op::Noop: return;
      case Op::Assign: {
        Insn& insn = emit(u);
        insn.dst = reg(u.src(0));
        insn.src = {reg(u.src(1))};
        reg_[u] = insn.dst + 1;
        return;
      }
      case Op::Cast:
        if (u.dtype().is_ptr()) return;  // part of an address
        break;
      case Op::Gep: return lanes(u);
      default: break;
    }
    value(u);
  }

  void lanes(UOp u) {
    const Lanes& taken = *std::get<const Lanes*>(u.arg());
    Reg from = reg(u.src(0));
    if (taken.size() == 1) {
      reg_[u] = from + taken[0] + 1;
      return;
    }
    Reg dst = fresh(u);
    Insn& insn = emit(u);
    insn.op = Op::Vectorize;
    insn.dst = dst;
    for (int32_t lane : taken) insn.src.push_back(from + lane);
  }

  /// Lane by lane.
  void vector_value(UOp u) {
    Reg dst = fresh(u);
    for (int i = 0; i < u.dtype().count; ++i) {
      Insn& insn = emit(u);
      insn.dst = dst + i;
      insn.count = 1;
      for (UOp s : u.src()) insn.src.push_back(reg(s) + i);
      insn.type = u.is(Op::Where) ? u.dtype().scalar : u.src(0).dtype().scalar;
    }
  }

  void value(UOp u) {
    if (u.dtype().count > 1 && u.is(kAluOps | OpSet{Op::Cast, Op::Bitcast})) return vector_value(u);
    Reg dst = fresh(u);
    Insn& insn = emit(u);
    insn.dst = dst;
    for (UOp s : u.src()) {
      if (u.is(Op::DefineAcc) && s.is(Op::Range)) continue;
      insn.src.push_back(reg(s));
    }
    if (u.is(Op::Wmma)) code_.warp = std::get<const WmmaArg*>(u.arg())->threads;
    if (u.is(Op::Where))
      insn.type = u.dtype().scalar;
    else if (u.num_src() > 0)
      insn.type = u.src(0).dtype().scalar;
  }
};

}  // namespace

Bytecode assemble(const Program& program) { return Assembler(program).take(); }

}  // namespace quern::interp
