#include "render/facts.h"

#include <algorithm>
#include <variant>

#include "quern/error.h"

#include "shape/sint.h"

namespace quern {

namespace {

/// a * b, or nothing where it could pass 128 bits.
std::optional<Int128> product(Int128 a, Int128 b) {
  Int128 r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

bool product_fits(UOp a, UOp b, Int128 low, Int128 high) {
  for (Int128 x : {a.vmin(), a.vmax()})
    for (Int128 y : {b.vmin(), b.vmax()}) {
      std::optional<Int128> p = product(x, y);
      if (!p || *p < low || *p > high) return false;
    }
  return true;
}

}  // namespace

int bits_of(Scalar s) { return s == Scalar::Bool ? 1 : bytes_of(s) * 8; }

bool cannot_overflow(UOp u) {
  Int128 low = min_value(u.dtype().scalar), high = max_value(u.dtype().scalar);
  auto fits = [&](Int128 a, Int128 b) { return a >= low && b <= high; };
  UOp a = u.src(0);
  if (u.is(Op::Neg)) return fits(-a.vmax(), -a.vmin());
  UOp b = u.src(1);
  switch (u.op()) {
    case Op::Add: return fits(a.vmin() + b.vmin(), a.vmax() + b.vmax());
    case Op::Sub: return fits(a.vmin() - b.vmax(), a.vmax() - b.vmin());
    case Op::Mul: return product_fits(a, b, low, high);
    case Op::Shl: return a.vmin() >= 0 && shift_is_plain(u) && fits(0, a.vmax() << static_cast<int>(b.vmax()));
    default: return false;
  }
}

bool may_be_zero(UOp u) { return u.vmin() <= 0 && u.vmax() >= 0; }

bool division_is_plain(UOp u) {
  UOp a = u.src(0), b = u.src(1);
  if (may_be_zero(b)) return false;
  bool minus_one = b.vmin() <= -1 && b.vmax() >= -1;
  return !minus_one || u.dtype().is_unsigned() || a.vmin() > min_value(u.dtype().scalar);
}

bool shift_is_plain(UOp u) { return u.src(1).vmin() >= 0 && u.src(1).vmax() < bits_of(u.dtype().scalar); }

Access access_of(UOp address) {
  while (address.is(Op::Cast) && address.dtype().is_ptr()) address = address.src(0);
  if (address.is(Op::Index)) return {address.src(0), address.src(1)};
  if (address.is({Op::DefineGlobal, Op::DefineLocal})) return {address, {}};
  throw InternalError("a " + std::string(to_string(address.op())) + " as the address of a load or store");
}

UOp gate_of(UOp load) { return load.num_src() >= 3 && load.src(2).dtype().is_bool() ? load.src(2) : UOp(); }
UOp alternative_of(UOp load) { return gate_of(load) ? load.src(1) : UOp(); }

UOp accumulator_of(UOp assign) {
  UOp acc = assign.src(0);
  while (acc.is(Op::Assign)) acc = acc.src(0);
  if (!acc.is(Op::DefineAcc)) throw InternalError("ASSIGN to a " + std::string(to_string(acc.op())));
  return acc;
}

std::vector<UOp> buffers_of(const LinearProgram& linear) {
  std::vector<UOp> found;
  for (UOp u : linear.uops)
    if (u.is(Op::DefineGlobal)) found.push_back(u);
  std::sort(found.begin(), found.end(),
            [](UOp a, UOp b) { return std::get<int64_t>(a.arg()) < std::get<int64_t>(b.arg()); });
  return found;
}

std::vector<UOp> variables_of(const LinearProgram& linear) {
  std::vector<UOp> found;
  for (UOp u : linear.uops)
    if (u.is(Op::DefineVar)) found.push_back(u);
  auto key = [](UOp u) -> const VarArg& { return *std::get<const VarArg*>(u.arg()); };
  std::sort(found.begin(), found.end(), [&](UOp a, UOp b) { return key(a).name < key(b).name; });
  for (size_t i = 1; i < found.size(); ++i)
    if (key(found[i - 1]).name == key(found[i]).name)
      throw InvalidKernel("two variables are called '" + key(found[i]).name + "'");
  return found;
}

int64_t Launch::items_of_group() const {
  int64_t n = 1;
  for (const SInt& size : items) n *= size.value();
  return n;
}

Launch launch_of(const LinearProgram& linear) {
  Launch launch;
  for (UOp u : linear.uops) {
    launch.has_tensor_core |= u.is(Op::Wmma);
    if (!u.is(Op::Special)) continue;
    const SpecialArg& special = *std::get<const SpecialArg*>(u.arg());
    auto dimension = static_cast<size_t>(special.name.back() - '0');
    if (dimension >= 3) throw InternalError("a work item called '" + special.name + "'");
    bool in_group = special.name[0] == 'l';
    if (in_group && !special.size.is_int())
      throw InternalError("a group of " + size_text(special.size) + " work items");
    launch.has_threads = true;
    launch.has_items |= in_group;
    launch.stand_alone |= special.name[0] == 'i';
    (in_group ? launch.items : launch.groups)[dimension] = special.size;
  }
  return launch;
}

std::string size_text(const SInt& size) {
  return size.is_int() ? std::to_string(size.value()) : to_string(min_of(size)) + ".." + to_string(max_of(size));
}

std::string to_string(const Launch& launch) {
  auto text = [](const std::array<SInt, 3>& n) {
    return size_text(n[0]) + " x " + size_text(n[1]) + " x " + size_text(n[2]);
  };
  if (!launch.has_threads) return {};
  if (launch.has_items) return text(launch.groups) + " groups of " + text(launch.items) + " work items";
  return text(launch.groups) + (launch.stand_alone ? " work items" : " groups of one");
}

void cannot_render(UOp u, std::string_view language, std::string_view why) {
  std::string message =
      "cannot write " + std::string(to_string(u.op())) + " of " + to_string(u.dtype()) + " in " + std::string(language);
  for (size_t i = 0; i < u.num_src(); ++i) message += (i == 0 ? ", of " : " and ") + to_string(u.src(i).dtype());
  if (!why.empty()) message += ": " + std::string(why);
  throw InternalError(message);
}

}  // namespace quern
