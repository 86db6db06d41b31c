#include "runtime/interp/interp.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "quern/error.h"

#include "ir/eval.h"
#include "runtime/interp/bytecode.h"

namespace quern {

namespace interp {
namespace {

constexpr size_t kPreferredLanes = 64;  // threads run together when groups are smaller than that

/// Local memory remembers who wrote each element since the last barrier.
struct LocalMemory {
  struct Cell {
    uint64_t bits = 0;
    uint32_t epoch = 0;  // of the last write; 0: never written
    uint32_t writer = 0;
  };
  std::vector<Cell> cells;
};

double as_double(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t as_bits(double v) { return std::bit_cast<uint64_t>(v); }

/// One run of a program over all its work groups.
class Run {
 public:
  Run(const Program& program, const Bytecode& code, std::span<Buffer* const> buffers, const VarValues& vars)
      : code_(code), buffers_(buffers) {
    if (program.global_size) global_ = launch_dims(*program.global_size, vars);
    if (program.local_size) local_ = launch_dims(*program.local_size, vars);
    group_threads_ = static_cast<size_t>(local_[0] * local_[1] * local_[2]);
    size_t groups_at_once = code.locals.empty() ? std::max<size_t>(1, kPreferredLanes / group_threads_) : 1;
    groups_ = static_cast<size_t>(global_[0] * global_[1] * global_[2]);
    groups_at_once = std::min(groups_at_once, std::max<size_t>(1, groups_));
    max_lanes_ = groups_at_once * group_threads_;
    regs_.resize(static_cast<size_t>(code.num_regs) * max_lanes_);
    for (const LocalBuffer& l : code.locals)
      memory_.push_back({std::vector<LocalMemory::Cell>(static_cast<size_t>(l.size))});
    for (size_t first = 0; first < groups_; first += groups_at_once) {
      size_t n = std::min(groups_at_once, groups_ - first);
      start(first, n, vars);
      execute();
    }
  }

 private:
  const Bytecode& code_;
  std::span<Buffer* const> buffers_;
  std::array<int64_t, 3> global_{1, 1, 1}, local_{1, 1, 1};
  size_t group_threads_ = 1, groups_ = 1, max_lanes_ = 1, lanes_ = 1, first_group_ = 0;
  std::vector<uint64_t> regs_;
  std::vector<LocalMemory> memory_;
  uint32_t epoch_ = 0;
  std::vector<std::vector<uint8_t>> masks_;  // of open IFs; the last is active

  uint64_t* reg(Reg r) { return regs_.data() + static_cast<size_t>(r) * lanes_; }
  bool active(size_t lane) const { return masks_.empty() || masks_.back()[lane]; }

  void start(size_t first_group, size_t groups, const VarValues& vars) {
    lanes_ = groups * group_threads_;
    first_group_ = first_group;
    ++epoch_;
    for (LocalMemory& m : memory_) std::fill(m.cells.begin(), m.cells.end(), LocalMemory::Cell{});
    for (const auto& [r, bits] : code_.constants) std::fill_n(reg(r), lanes_, bits);
    for (const auto& [r, name] : code_.variables) std::fill_n(reg(r), lanes_, static_cast<uint64_t>(vars.at(name)));
    for (const Bytecode::Thread& t : code_.threads)
      for (size_t lane = 0; lane < lanes_; ++lane) reg(t.reg)[lane] = static_cast<uint64_t>(thread_index(t, lane));
  }

  int64_t thread_index(const Bytecode::Thread& t, size_t lane) const {
    auto dim = static_cast<size_t>(t.dim);
    auto split = [&](const std::array<int64_t, 3>& sizes, int64_t linear) {
      for (size_t d = 0; d < dim; ++d) linear /= sizes[d];
      return linear % sizes[dim];
    };
    if (t.kind == 'l') return split(local_, static_cast<int64_t>(lane % group_threads_));
    return split(global_, static_cast<int64_t>(first_group_ + lane / group_threads_));
  }

  std::string where(size_t lane) const {
    return " (group " + std::to_string(first_group_ + lane / group_threads_) + ", thread " +
           std::to_string(lane % group_threads_) + ")";
  }

  void execute() {
    for (size_t pc = 0; pc < code_.insns.size(); ++pc) {
      const Insn& insn = code_.insns[pc];
      switch (insn.op) {
        case Op::Range: {
          auto begin = static_cast<int64_t>(reg(insn.src[0])[0]), end = static_cast<int64_t>(reg(insn.src[1])[0]);
          if (begin >= end)
            pc = insn.jump;
          else
            std::fill_n(reg(insn.dst), lanes_, static_cast<uint64_t>(begin));
          break;
        }
        case Op::Endrange: {
          const Insn& range = code_.insns[insn.jump];
          auto next = static_cast<int64_t>(reg(range.dst)[0]) + 1;
          std::fill_n(reg(range.dst), lanes_, static_cast<uint64_t>(next));
          if (next < static_cast<int64_t>(reg(range.src[1])[0])) pc = insn.jump;
          break;
        }
        case Op::If: {
          std::vector<uint8_t> mask(lanes_);
          for (size_t lane = 0; lane < lanes_; ++lane) mask[lane] = active(lane) && reg(insn.src[0])[lane] != 0;
          masks_.push_back(std::move(mask));
          break;
        }
        case Op::Endif: masks_.pop_back(); break;
        case Op::Barrier: ++epoch_; break;
        case Op::Load: load(insn); break;
        case Op::Store: store(insn); break;
        case Op::Assign:
          for (int i = 0; i < insn.count; ++i)
            for (size_t lane = 0; lane < lanes_; ++lane)
              if (active(lane)) reg(insn.dst + i)[lane] = reg(insn.src[0] + i)[lane];
          break;
        case Op::DefineAcc:
          for (int i = 0; i < insn.count; ++i) std::copy_n(reg(insn.src[0] + i), lanes_, reg(insn.dst + i));
          break;
        case Op::Vectorize:
          for (int i = 0; i < insn.count; ++i)
            std::copy_n(reg(insn.src[static_cast<size_t>(i)]), lanes_, reg(insn.dst + i));
          break;
        case Op::Wmma: run_wmma(insn, regs_.data(), lanes_); break;
        case Op::Cast:
          for (size_t lane = 0; lane < lanes_; ++lane)
            reg(insn.dst)[lane] = eval_cast(insn.type, insn.out, {reg(insn.src[0])[lane]}).bits;
          break;
        case Op::Bitcast:
          for (size_t lane = 0; lane < lanes_; ++lane)
            reg(insn.dst)[lane] = eval_bitcast(insn.type, insn.out, {reg(insn.src[0])[lane]}).bits;
          break;
        default: alu(insn); break;
      }
    }
  }

  template <class F>
  void map2(const Insn& insn, F f) {
    const uint64_t *a = reg(insn.src[0]), *b = reg(insn.src[1]);
    uint64_t* out = reg(insn.dst);
    for (size_t lane = 0; lane < lanes_; ++lane) out[lane] = f(a[lane], b[lane]);
  }

  /// The ops most programs are made of, without a call a lane; false for the rest.
  bool fast_alu(const Insn& insn) {
    if (insn.op == Op::Where) {
      const uint64_t *c = reg(insn.src[0]), *a = reg(insn.src[1]), *b = reg(insn.src[2]);
      for (size_t lane = 0; lane < lanes_; ++lane) reg(insn.dst)[lane] = c[lane] ? a[lane] : b[lane];
      return true;
    }
    if (insn.type == Scalar::Float) {
      // Sums and products of floats are exact enough in double to round once more without error.
      switch (insn.op) {
        case Op::Add:
          map2(insn, [](uint64_t a, uint64_t b) { return as_bits(static_cast<float>(as_double(a) + as_double(b))); });
          return true;
        case Op::Mul:
          map2(insn, [](uint64_t a, uint64_t b) { return as_bits(static_cast<float>(as_double(a) * as_double(b))); });
          return true;
        case Op::Cmplt:
          map2(insn, [](uint64_t a, uint64_t b) -> uint64_t { return as_double(a) < as_double(b); });
          return true;
        case Op::Cmpne:
          map2(insn, [](uint64_t a, uint64_t b) -> uint64_t { return as_double(a) != as_double(b); });
          return true;
        default: return false;
      }
    }
    if (insn.type == Scalar::Int32) {
      auto low = [](uint64_t v) { return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(v))); };
      switch (insn.op) {
        case Op::Add: map2(insn, [&](uint64_t a, uint64_t b) { return low(a + b); }); return true;
        case Op::Mul: map2(insn, [&](uint64_t a, uint64_t b) { return low(a * b); }); return true;
        case Op::And: map2(insn, [](uint64_t a, uint64_t b) { return a & b; }); return true;
        case Op::Cmplt:
          map2(insn,
               [](uint64_t a, uint64_t b) -> uint64_t { return static_cast<int64_t>(a) < static_cast<int64_t>(b); });
          return true;
        case Op::Cmpne: map2(insn, [](uint64_t a, uint64_t b) -> uint64_t { return a != b; }); return true;
        default: return false;
      }
    }
    return false;
  }

  void alu(const Insn& insn) {
    if (fast_alu(insn)) return;
    ConstBits args[3];
    size_t n = insn.src.size();
    for (size_t lane = 0; lane < lanes_; ++lane) {
      for (size_t i = 0; i < n; ++i) args[i].bits = reg(insn.src[i])[lane];
      reg(insn.dst)[lane] = eval_alu(insn.op, insn.type, std::span(args, n)).bits;
    }
  }

  // ---- memory ----

  void load(const Insn& insn) {
    for (size_t lane = 0; lane < lanes_; ++lane) {
      if (!active(lane)) continue;
      if (insn.gate != kNoReg && reg(insn.gate)[lane] == 0) {
        for (int i = 0; i < insn.count; ++i) reg(insn.dst + i)[lane] = reg(insn.alternative + i)[lane];
        continue;
      }
      auto index = static_cast<int64_t>(reg(insn.src[0])[lane]) + insn.offset;
      if (insn.src.size() == 2)
        load_pixel(insn, lane, index, static_cast<int64_t>(reg(insn.src[1])[lane]));
      else if (insn.buffer.local)
        load_local(insn, lane, index);
      else
        load_global(insn, lane, index);
    }
  }

  void check(const Insn& insn, size_t lane, int64_t index, int64_t size) const {
    if (index < 0 || index + insn.count > size)
      throw DeviceError(std::string(to_string(insn.op)) + " at element " + std::to_string(index) +
                        (insn.count > 1 ? ".." + std::to_string(index + insn.count - 1) : "") + " of a buffer of " +
                        std::to_string(size) + where(lane));
  }

  static uint64_t read(const Buffer& b, int64_t index) {
    uint64_t raw = 0;
    auto width = static_cast<size_t>(bytes_of(b.dtype()));
    std::memcpy(&raw, b.data() + static_cast<size_t>(index) * width, width);
    return from_memory_bits(b.dtype(), raw).bits;
  }
  static void write(Buffer& b, int64_t index, uint64_t bits) {
    uint64_t raw = memory_bits(b.dtype(), {bits});
    auto width = static_cast<size_t>(bytes_of(b.dtype()));
    std::memcpy(b.data() + static_cast<size_t>(index) * width, &raw, width);
  }

  void load_global(const Insn& insn, size_t lane, int64_t index) {
    const Buffer& b = *buffers_[static_cast<size_t>(insn.buffer.index)];
    check(insn, lane, index, b.size());
    for (int i = 0; i < insn.count; ++i) reg(insn.dst + i)[lane] = read(b, index + i);
  }

  void load_local(const Insn& insn, size_t lane, int64_t index) {
    LocalMemory& m = memory_[static_cast<size_t>(insn.buffer.index)];
    check(insn, lane, index, static_cast<int64_t>(m.cells.size()));
    for (int i = 0; i < insn.count; ++i) {
      const LocalMemory::Cell& cell = m.cells[static_cast<size_t>(index + i)];
      if (cell.epoch == 0)
        throw DeviceError("local element " + std::to_string(index + i) + " is read but was never written" +
                          where(lane));
      if (cell.epoch == epoch_ && cell.writer != lane)
        throw DeviceError("local element " + std::to_string(index + i) + " is read before a barrier after thread " +
                          std::to_string(cell.writer) + " wrote it" + where(lane));
      reg(insn.dst + i)[lane] = cell.bits;
    }
  }

  /// Outside the image a read gives zeros (clamp to border).
  void load_pixel(const Insn& insn, size_t lane, int64_t x, int64_t y) {
    const Buffer& b = *buffers_[static_cast<size_t>(insn.buffer.index)];
    const DType image = image_of(insn);
    bool inside = x >= 0 && y >= 0 && x < image.image_width && y < image.image_height;
    for (int i = 0; i < 4; ++i)
      reg(insn.dst + i)[lane] = inside ? read(b, (y * image.image_width + x) * 4 + i) : as_bits(0.0);
  }

  static DType image_of(const Insn& insn) {
    UOp address = insn.uop.src(0);
    return address.is(Op::Cast) ? address.src(0).src(0).dtype() : address.src(0).dtype();
  }

  void store(const Insn& insn) {
    Reg value = insn.src.back();
    for (size_t lane = 0; lane < lanes_; ++lane) {
      if (!active(lane) || (insn.gate != kNoReg && reg(insn.gate)[lane] == 0)) continue;
      auto index = static_cast<int64_t>(reg(insn.src[0])[lane]) + insn.offset;
      if (insn.src.size() == 3) {
        store_pixel(insn, lane, index, static_cast<int64_t>(reg(insn.src[1])[lane]), value);
        continue;
      }
      if (insn.buffer.local) {
        LocalMemory& m = memory_[static_cast<size_t>(insn.buffer.index)];
        check(insn, lane, index, static_cast<int64_t>(m.cells.size()));
        for (int i = 0; i < insn.count; ++i)
          m.cells[static_cast<size_t>(index + i)] = {reg(value + i)[lane], epoch_, static_cast<uint32_t>(lane)};
        continue;
      }
      Buffer& b = *buffers_[static_cast<size_t>(insn.buffer.index)];
      check(insn, lane, index, b.size());
      for (int i = 0; i < insn.count; ++i) write(b, index + i, reg(value + i)[lane]);
    }
  }

  void store_pixel(const Insn& insn, size_t lane, int64_t x, int64_t y, Reg value) {
    Buffer& b = *buffers_[static_cast<size_t>(insn.buffer.index)];
    const DType image = image_of(insn);
    if (x < 0 || y < 0 || x >= image.image_width || y >= image.image_height)
      throw DeviceError("STORE at pixel (" + std::to_string(x) + ", " + std::to_string(y) + ") of an image of " +
                        std::to_string(image.image_width) + " x " + std::to_string(image.image_height) + where(lane));
    for (int i = 0; i < 4; ++i)
      write(b, (y * image.image_width + x) * 4 + i, eval_cast(Scalar::Float, b.dtype(), {reg(value + i)[lane]}).bits);
  }
};

class InterpExecutable : public Executable {
 public:
  explicit InterpExecutable(const Program& program) : program_(program), code_(assemble(program)) {}

  double run(std::span<Buffer* const> buffers, const VarValues& vars) override {
    check_launch(program_, buffers, vars);
    auto start = std::chrono::steady_clock::now();
    const Run launch(program_, code_, buffers, vars);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Program program_;
  Bytecode code_;
};

class InterpDevice : public Device {
 public:
  std::string name() const override { return "INTERP"; }
  const Target& default_target() const override { return find_target("opencl"); }
  bool accepts(const Target&) const override { return true; }
  bool survives_fork() const override { return true; }
  std::unique_ptr<Executable> compile(const Program& program) override {
    return std::make_unique<InterpExecutable>(program);
  }
};

}  // namespace
}  // namespace interp

std::shared_ptr<Device> make_interp_device() { return std::make_shared<interp::InterpDevice>(); }

}  // namespace quern
