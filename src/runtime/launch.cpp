#include <algorithm>
#include <cstdint>

#include "quern/error.h"

#include "ir/eval.h"
#include "ir/node_map.h"
#include "render/facts.h"
#include "runtime/device.h"

namespace quern {

namespace {

const VarArg& var_of(UOp u) { return *std::get<const VarArg*>(u.arg()); }

std::string buffer_text(size_t position, int number) {
  return "buffer " + std::to_string(number) + " (argument " + std::to_string(position) + ")";
}

[[noreturn]] void refuse(const Program& program, const std::string& what) {
  throw DeviceError("cannot launch " + program.name + ": " + what);
}

void check_buffer(const Program& program, size_t position, const Buffer* buffer, const std::map<int, int64_t>& sizes) {
  int number = program.globals[position];
  std::string text = buffer_text(position, number);
  if (buffer == nullptr) refuse(program, text + " is missing");
  auto type = program.buffer_types.find(number);
  if (type != program.buffer_types.end() && buffer->dtype() != storage_type(type->second))
    refuse(program, text + " holds " + std::string(to_string(buffer->dtype())) + ", not " +
                        std::string(to_string(storage_type(type->second))));
  auto size = sizes.find(number);
  if (size != sizes.end() && buffer->size() < size->second)
    refuse(program, text + " has " + std::to_string(buffer->size()) + " elements, and the kernel needs " +
                        std::to_string(size->second));
  auto element = static_cast<uintptr_t>(bytes_of(buffer->dtype()));
  if (buffer->data() == nullptr) refuse(program, text + " is missing: it has no memory");
  if (reinterpret_cast<uintptr_t>(buffer->data()) % element != 0)
    refuse(program, text + " is not aligned to the " + std::to_string(element) + " bytes of its elements");
}

bool overlap(const Buffer& a, const Buffer& b) {
  return a.bytes() != 0 && b.bytes() != 0 && a.data() < b.data() + b.bytes() && b.data() < a.data() + a.bytes();
}

/// A kernel assumes that what it writes is nobody else's memory.
void check_aliases(const Program& program, std::span<Buffer* const> buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (std::find(program.outs.begin(), program.outs.end(), program.globals[i]) == program.outs.end()) continue;
    for (size_t j = 0; j < buffers.size(); ++j)
      if (i != j && overlap(*buffers[i], *buffers[j]))
        refuse(program, buffer_text(i, program.globals[i]) + " is written and shares memory with " +
                            buffer_text(j, program.globals[j]));
  }
}

}  // namespace

Scalar storage_type(const DType& type) { return type.is_image() && type.image_half ? Scalar::Half : type.scalar; }

std::map<int, int64_t> buffer_sizes(const Program& program) {
  if (!program.buffer_sizes.empty()) return program.buffer_sizes;
  std::map<int, int64_t> sizes;
  for (int number : program.globals) sizes[number] = 0;
  for (UOp u : program.linear.uops) {
    if (!u.is({Op::Load, Op::Store})) continue;
    auto [buffer, index] = access_of(u.src(0));
    if (!buffer.is(Op::DefineGlobal)) continue;
    int64_t& size = sizes[static_cast<int>(std::get<int64_t>(buffer.arg()))];
    if (buffer.dtype().is_image()) {
      size = int64_t{buffer.dtype().image_height} * buffer.dtype().image_width * 4;
      continue;
    }
    if (gate_of(u)) continue;
    Int128 last = (index ? index.vmax() : Int128{0}) + u.src(0).dtype().count;
    size = std::max(size, static_cast<int64_t>(std::min<Int128>(last, INT64_MAX)));
  }
  return sizes;
}

std::vector<UOp> launch_variables(const Program& program) {
  std::vector<UOp> all = program.vars;
  for (const auto& dims : {program.global_size, program.local_size}) {
    if (!dims) continue;
    for (const SInt& size : *dims) {
      if (size.is_int()) continue;
      for (UOp u : toposort(size.expr())) {
        auto same_name = [&](UOp v) { return var_of(v).name == var_of(u).name; };
        if (u.is(Op::DefineVar) && std::none_of(all.begin(), all.end(), same_name)) all.push_back(u);
      }
    }
  }
  return all;
}

void check_launch(const Program& program, std::span<Buffer* const> buffers, const VarValues& vars) {
  if (buffers.size() != program.globals.size())
    refuse(program,
           std::to_string(buffers.size()) + " buffers given, and it takes " + std::to_string(program.globals.size()));
  std::map<int, int64_t> computed;
  if (program.buffer_sizes.empty()) computed = buffer_sizes(program);
  const std::map<int, int64_t>& sizes = program.buffer_sizes.empty() ? computed : program.buffer_sizes;
  for (size_t i = 0; i < buffers.size(); ++i) check_buffer(program, i, buffers[i], sizes);
  check_aliases(program, buffers);
  for (UOp v : launch_variables(program)) {
    const VarArg& var = var_of(v);
    auto given = vars.find(var.name);
    if (given == vars.end()) refuse(program, "variable " + var.name + " has no value");
    if (given->second < var.min || given->second > var.max)
      refuse(program, "variable " + var.name + " is " + std::to_string(given->second) + ", outside " +
                          std::to_string(var.min) + " to " + std::to_string(var.max));
  }
}

std::vector<int64_t> variable_values(const Program& program, const VarValues& vars) {
  std::vector<int64_t> values;
  for (UOp v : program.vars) values.push_back(vars.at(var_of(v).name));
  return values;
}

namespace {

/// The value of an index expression over variables.
int64_t evaluate(UOp root, const VarValues& vars) {
  NodeMap<ConstBits> values;
  for (UOp u : toposort(root)) {
    if (u.is_const()) {
      values[u] = std::get<ConstBits>(u.arg());
    } else if (u.is(Op::DefineVar)) {
      auto given = vars.find(var_of(u).name);
      if (given == vars.end()) throw DeviceError("variable " + var_of(u).name + " has no value");
      values[u] = const_of_int(u.dtype().scalar, given->second);
    } else if (u.is(Op::Cast)) {
      values[u] = eval_cast(u.src(0).dtype().scalar, u.dtype().scalar, values[u.src(0)]);
    } else if (u.is(Op::Bind)) {
      values[u] = values[u.src(0)];
    } else {
      std::vector<ConstBits> args;
      for (UOp s : u.src()) args.push_back(values[s]);
      values[u] = eval_alu(u.op(), u.num_src() > 1 ? u.src(1).dtype().scalar : u.dtype().scalar, args);
    }
  }
  return static_cast<int64_t>(values[root].bits);
}

}  // namespace

std::array<int64_t, 3> launch_dims(const std::array<SInt, 3>& dims, const VarValues& vars) {
  std::array<int64_t, 3> result{};
  for (size_t i = 0; i < 3; ++i) result[i] = dims[i].is_int() ? dims[i].value() : evaluate(dims[i].expr(), vars);
  return result;
}

}  // namespace quern
