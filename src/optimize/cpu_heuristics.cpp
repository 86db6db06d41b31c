#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/node_map.h"
#include "optimize/kernel_parts.h"

// Quern's own heuristics for CPUs with vectors. Lanes go along the axis that is contiguous in memory, whether it is an axis of the
// output or reduced; a tile of vectors is kept in registers where loads are shared by its rows; sizes that do not divide are padded,
// which masks lanes off; what is left is shared out among cores. Decisions hang on the kernel and the target alone, so that the same
// kernel gives the same code on every machine.

namespace quern {

namespace {

constexpr int64_t kWorkOfThread = 1 << 17;  ///< operations or elements for which it is worth to call another core
constexpr int64_t kMostParts = 64;
constexpr int64_t kLongReduce = 1024;
constexpr int64_t kShortReduce = 16,
                  kMostSteps = 160;        ///< steps of a reduce to unroll, and those of all vectors together
constexpr int64_t kSecondCache = 1 << 19;  ///< bytes of it that a kernel counts on
constexpr int64_t kPackedTurns = 4;        ///< of the loop inside of which an operand is packed, for that to pay
constexpr int64_t kMostPacked = 1 << 20;   ///< bytes to pack: they should stay in the second cache
constexpr int64_t kLastCache = 1 << 25;    ///< bytes: what a kernel reads more of comes from memory
constexpr int64_t kPage = 4096;            ///< steps that are multiples of it fall on few sets of a cache
constexpr int kMostRows =
    8;  ///< more rows of an operand share a set of the first cache where their distance is a power of two

/// Vectors of accumulators, or of what is stored, that are computed together.
struct Tile {
  std::optional<int> row;  ///< the axis of its rows
  int64_t rows = 1, columns = 1;
  int64_t width = 1;  ///< lanes of a vector
  int64_t of = 0;     ///< the size of the vectors' axis, padded
  bool can_pad = false;
  bool gathers = false;    ///< some load jumps along the lanes
  bool is_shared = false;  ///< some load is the same for all rows
};

}  // namespace

/// How the kernel's buffers move along its axes.
struct Kernel::CpuLayout {
  explicit CpuLayout(const Kernel& k) : kernel(k), graph(k.fixed_->graph()) {
    for (size_t i = 0; i < k.fixed_->buffers.size(); ++i) {
      if (k.fixed_->buffers[i].is(Op::Valid)) continue;
      const DType type = k.fixed_->memory_type(i);
      widest = std::max(widest, bytes_of(type.scalar));
      buffers.push_back({i, k.fixed_->buffers[i].is(Op::Store), 1});
    }
    widest = std::min(std::max(widest, 4), 8);
    for (BufferAt& b : buffers)
      for (int axis = k.first_reduce(); axis < k.num_axes(); ++axis)
        if (stride(b, axis) == 0) b.weight /= static_cast<double>(std::max<int64_t>(1, most_of(axis)));
  }

  struct BufferAt {
    size_t number;
    bool is_store;
    double weight;  ///< accesses in a step of the reduce: what does not move along it is accessed once for all steps
  };

  /// The size, of a symbolic one the most that it can be.
  int64_t most_of(int axis) const {
    const SInt& size = kernel.axes_[static_cast<size_t>(axis)].size;
    return size.is_int() ? size.value() : static_cast<int64_t>(std::min<Int128>(size.expr().vmax(), 1 << 30));
  }

  /// Does it read more than caches hold?
  bool reads_memory() const {
    return std::ranges::any_of(buffers, [&](const BufferAt& b) {
      Int128 bytes = kernel.fixed_->memory_type(b.number).itemsize();
      for (int axis = 0; axis < kernel.num_axes(); ++axis)
        if (stride(b, axis) != 0) bytes = std::min<Int128>(bytes * std::max<int64_t>(1, most_of(axis)), kUnbounded);
      return !b.is_store && bytes > kLastCache;
    });
  }

  int lanes() const { return kernel.target().vector_bytes / widest; }

  /// Elements between neighbours on the axis: 0 where the buffer stays, nothing where that is not one number.
  std::optional<int64_t> stride(const BufferAt& b, int axis) const {
    const TrackedView& view = kernel.buffer_view(b.number);
    if (view.size(axis) == 1) return 0;
    const std::optional<SInt>& s = view.strides(graph, true)[static_cast<size_t>(axis)];
    if (!s || !s->is_int()) return std::nullopt;
    return s->value();
  }

  /// What lanes along the axis gain: the accesses that are contiguous there, less those that jump about. A store weighs more than a
  /// load.
  double gain(int axis) const {
    double sum = 0;
    const bool in_order =
        std::ranges::all_of(buffers, [&](const BufferAt& b) { return !b.is_store || stride(b, axis) == 1; });
    for (const BufferAt& b : buffers) {
      const std::optional<int64_t> s = stride(b, axis);
      const double weight = b.is_store ? 1.5 * b.weight : b.weight;
      if (s == 1)
        sum += weight;
      else if (s && s != 0 && !b.is_store && in_order && is_packable(b, axis))
        sum += s == 2 ? weight : 0.99 * weight;
      else if (s == 2)
        sum += weight / 2;  // every other lane of two vectors
      else if (s != 0)
        sum -= weight;
    }
    return sum;
  }

  /// Can lanes along `vector` be gathered once, for the many places on another axis of the output that read them?
  bool is_packable(const BufferAt& b, int vector) const {
    for (int row = 0; row < kernel.first_reduce(); ++row)
      if (row != vector && stride(b, row) == 0 && most_of(row) >= 16 * kPackedTurns) return true;
    return false;
  }

  /// Loads with lanes along `vector` that need not be repeated for each place on `axis`, or the other way round.
  int shared(int axis, int vector) const {
    int both = 0;
    for (const BufferAt& b : buffers) {
      if (b.is_store) continue;
      const std::optional<int64_t> along = stride(b, axis), lanes = stride(b, vector);
      if (along == 0 && lanes != 0) ++both;
    }
    return both;
  }

  int64_t size(int axis) const { return size_of(kernel.axes_[static_cast<size_t>(axis)]); }

  void choose_rows(int vector, Tile& tile) const;
  bool choose_width(int vector, Tile& tile) const;
  void choose_strip(Tile& tile) const;
  void choose_tile(Tile& tile) const;

  const Kernel& kernel;
  Graph& graph;
  std::vector<BufferAt> buffers;
  int widest = 0;  ///< bytes of the widest element, from 4 to 8
};

void Kernel::cpu_optimizations() {
  if (axes_.empty()) return;
  required_optimizations();
  const auto elements_of = [this](int axes) {
    Int128 product = 1;
    for (int a = 0; a < axes; ++a)
      product = std::min<Int128>(product * std::max<int64_t>(1, size_of(axes_[static_cast<size_t>(a)])), kUnbounded);
    return static_cast<int64_t>(std::min<Int128>(product, int64_t{1} << 60));
  };
  const int64_t work = elements_of(num_axes());

  if (const std::optional<int> carrier = axis_of_scan()) {
    const int64_t outputs = elements_of(first_reduce());
    return share_among_threads(outputs, tile_scan(*carrier));
  }
  if (const std::optional<int64_t> elements = tile_passes()) return share_among_threads(*elements);
  const int lanes = CpuLayout(*this).lanes();
  // The axis of the lanes.
  std::optional<int> vector;
  {
    const CpuLayout layout(*this);
    double best = 0;
    for (int axis = 0; axis < num_axes(); ++axis) {
      if (size_of(axes_[static_cast<size_t>(axis)]) < 4) continue;
      const bool reduced = axis >= first_reduce();
      const double gain = layout.gain(axis) - (reduced ? 0.1 : 0);  // partial results have to be combined
      if (gain > best) best = gain, vector = axis;
    }
    if (!vector && !fixed_->reduces.empty()) vector = gathered_lanes(lanes, false);
  }
  if (vector && *vector >= first_reduce()) {
    const bool is_short = size_of(axes_[static_cast<size_t>(*vector)]) < kLongReduce;
    if (const std::optional<int> other = gathered_lanes(lanes, !is_short)) vector = other;
  }
  if (vector && *vector >= first_reduce()) {
    reduce_on_lanes(*vector, lanes);
  } else if (vector) {
    tile_registers(*vector);
  }
  share_among_threads(work);
}

/// An axis of the output whose lanes are stored in order, and on which a single load jumps about that many rows share: for a short
/// reduce to gather that load costs less than to combine partial results for each output. With `packed` only where it can be packed.
std::optional<int> Kernel::gathered_lanes(int lanes, bool packed) const {
  const CpuLayout layout(*this);
  for (int v = 0; v < first_reduce(); ++v) {
    int jumps = 0;
    bool in_order = true;
    for (const CpuLayout::BufferAt& b : layout.buffers) {
      const std::optional<int64_t> s = layout.stride(b, v);
      if (b.is_store)
        in_order &= s == 1;
      else if (s != 0 && s != 1)
        jumps += packed && !layout.is_packable(b, v) ? 2 : 1;
    }
    if (!in_order || jumps != 1 || size_of(axes_[static_cast<size_t>(v)]) < lanes / 2) continue;
    for (int row = 0; row < first_reduce(); ++row)
      if (row != v && layout.shared(row, v) > 0 && size_of(axes_[static_cast<size_t>(row)]) % 4 == 0) return v;
  }
  return std::nullopt;
}

/// Lanes along a reduced axis, several vectors of them where the reduce is long; rows share what they can.
void Kernel::reduce_on_lanes(int axis, int lanes) {
  const int64_t size = size_of(axes_[static_cast<size_t>(axis)]);
  const int first = first_reduce();
  // Rows: axes of the output along which a load of lanes stays, the last two at most.
  std::vector<std::pair<int, int64_t>> tile;
  int64_t rows = 1;
  bool streams = false;
  {
    const CpuLayout layout(*this);
    streams = layout.reads_memory();
    for (int a = first; a-- > 0 && tile.size() < 2;) {
      if (layout.shared(a, axis) == 0) continue;
      const int64_t divisor = largest_divisor(size_of(axes_[static_cast<size_t>(a)]), {4, 6, 5, 3, 2});
      if (divisor < 2) continue;
      tile.emplace_back(a, divisor);
      rows *= divisor;
    }
  }
  const int64_t vectors = rows >= 8 ? 1 : rows >= 4 ? 2 : 4;
  int64_t amount = 1;
  // Memory is read fastest in several rows at once, a little of each.
  if (streams && tile.empty() && size % (lanes / 2) == 0 && fixed_->reduces.size() == 1) {
    amount = lanes / 2;
    for (int a = first; a-- > 0 && tile.empty();)
      if (size_of(axes_[static_cast<size_t>(a)]) % 8 == 0) tile.emplace_back(a, 8);
  }
  for (int64_t n = vectors; n >= 1 && amount == 1; n /= 2)
    if (size % (n * lanes) == 0) amount = n * lanes;
  // A reduce of several in a kernel may be one that counts, which folds away unless it is padded.
  for (int64_t n = vectors; n >= 1 && amount < lanes && fixed_->reduces.size() == 1; n /= 2) {
    const int64_t padded = (size + n * lanes - 1) / (n * lanes) * (n * lanes);
    if (10 * padded <= 11 * size && !try_apply({OptOp::PADTO, axis, static_cast<int>(n * lanes)})) amount = n * lanes;
  }
  if (amount == 1) amount = largest_divisor(size, {lanes / 2, lanes / 4});
  if (amount < 4) return;
  if (try_apply({OptOp::RFACTOR, axis - first, static_cast<int>(amount)})) return;
  for (const auto& [row, n] : tile)
    apply_if_legal(OptOp::UPCAST, row, n);  // from the last: what becomes of one moves no other
}

/// Another axis of the output for rows of vectors along `vector`: the one along which most loads stay.
void Kernel::CpuLayout::choose_rows(int vector, Tile& tile) const {
  const bool reduces = !kernel.fixed_->reduces.empty();
  for (const BufferAt& b : buffers) {
    const std::optional<int64_t> s = stride(b, vector);
    tile.gathers |= !b.is_store && (!s || *s < -1 || *s > 2) && !is_packable(b, vector);
  }
  int best = 0;
  for (int a = 0; reduces && a < kernel.first_reduce(); ++a) {
    if (a == vector || size(a) < 2) continue;
    const int count = shared(a, vector);
    if (count > best) best = count, tile.row = a;
  }
  tile.is_shared = best > 0;
  // With nothing to share, rows are still accumulators that do not wait for each other.
  for (int a = kernel.first_reduce(); reduces && !tile.row && a-- > 0;)
    if (a != vector && size(a) % 4 == 0) tile.row = a;
}

/// What the lanes make of the axis: whole vectors, padded where that costs little, else parts of vectors. False if nothing.
bool Kernel::CpuLayout::choose_width(int vector, Tile& tile) const {
  tile.of = size(vector);
  tile.width = lanes();
  // Whatever the amount: whether the axis may be padded at all.
  tile.can_pad = !Kernel(kernel).try_apply({OptOp::PADTO, vector, static_cast<int>(tile.of) - 1});
  if (tile.of % tile.width == 0) return true;
  const int64_t padded = (tile.of + tile.width - 1) / tile.width * tile.width;
  const int64_t part = largest_divisor(tile.of, {tile.width / 2, tile.width / 4});
  // Squares to transpose have no masks.
  const bool has_squares =
      kernel.fixed_->reduces.empty() && part >= 4 && kernel.square_to_transpose(vector, static_cast<int>(part));
  // Lanes that are masked off against lanes that are not there.
  if (tile.of * tile.width > part * padded && tile.can_pad && !has_squares) {
    tile.of = padded;
    return true;
  }
  tile.width = part;
  return part >= 4;
}

/// Without rows to choose: a reduce that goes down columns takes wide strips.
void Kernel::CpuLayout::choose_strip(Tile& tile) const {
  const bool reduces = !kernel.fixed_->reduces.empty();
  for (int64_t n : {reduces && reads_memory() ? 16 : 8, 8, 4, 3, 2})
    if (tile.of % (n * tile.width) == 0 && ((reduces && !tile.gathers) || n <= 4)) {
      tile.columns = n;
      return;
    }
}

/// Of the tiles that fit the registers the one that does most work a load.
void Kernel::CpuLayout::choose_tile(Tile& tile) const {
  const int64_t extent = size(*tile.row), registers = kernel.target().vector_registers;
  const DotProduct* dot = kernel.dot_product();
  const bool has_excess = dot != nullptr && dot->in == Scalar::Int8;  // a vector of it for each column
  double best = 0;
  // What is gathered for one vector comes from as many cache lines as it has lanes.
  for (int64_t n = 1; n <= (tile.gathers ? 1 : 6); ++n) {
    const int64_t strip = n * tile.width, padded = (tile.of + strip - 1) / strip * strip;
    if (padded != tile.of && (!tile.can_pad || tile.width != lanes() || !tile.is_shared || 10 * padded > 11 * tile.of))
      continue;
    // What is computed for nothing, and what does not stay in the cache from one row to the next.
    double worth = static_cast<double>(tile.of) / static_cast<double>(padded);
    if (padded != tile.of) worth *= 0.97;
    if (Int128{strip} * kernel.prod_of_reduce() * 4 > kMostPacked) worth *= 0.7;
    for (int64_t m = 1; m <= kMostRows; ++m) {
      if (extent % m != 0 || m * n + (has_excess ? 2 : 1) * n + 1 > registers) continue;
      // The more multiply-adds a load, the less it matters; held back where too few of them are in flight.
      const double reuse = static_cast<double>(m * n) / static_cast<double>(m + n);
      const double score = worth * reuse / (reuse + 0.5) * std::min(1.0, static_cast<double>(m * n) / 10);
      if (score > best) best = score, tile.rows = m, tile.columns = n;
    }
  }
  const int64_t strip = tile.columns * tile.width;
  tile.of = (tile.of + strip - 1) / strip * strip;
}

/// Vectors along an axis of the output, and rows of them along another one if loads are shared by rows.
void Kernel::tile_registers(int vector) {
  const bool reduces = !fixed_->reduces.empty();
  const int64_t size = size_of(axes_[static_cast<size_t>(vector)]);
  Tile tile;
  bool streams = false;
  {
    const CpuLayout layout(*this);
    layout.choose_rows(vector, tile);
    if (!layout.choose_width(vector, tile)) return;
    streams = layout.reads_memory();
    if (tile.row)
      layout.choose_tile(tile);
    else
      layout.choose_strip(tile);
  }
  // What jumps along the lanes, but is contiguous along another axis, is read in squares.
  const std::optional<int> square = reduces ? std::nullopt : square_to_transpose(vector, static_cast<int>(tile.width));
  if (square) tile.row = square, tile.rows = tile.width, tile.columns = 1;
  const int64_t amount = tile.columns * tile.width;
  if (tile.of != size && try_apply({OptOp::PADTO, vector, static_cast<int>(amount)})) return;
  const std::vector<int64_t> operands =
      tile.row ? worth_packing(*tile.row, size_of(axes_[static_cast<size_t>(*tile.row)]) / tile.rows, vector, amount)
               : std::vector<int64_t>();
  const std::optional<int> dot = tile.row ? axis_of_dots(vector, operands) : std::nullopt;
  int removed = 0;
  bool whole = tile.of == amount;
  if (tile.row && tile.rows > 1) {
    const bool all_rows = size_of(axes_[static_cast<size_t>(*tile.row)]) == tile.rows;
    if (apply_if_legal(OptOp::UPCAST, *tile.row, tile.rows) && all_rows && *tile.row < vector) removed = 1;
    whole |= all_rows;
  }
  if (prod_of_reduce() <= kShortReduce && tile.columns * tile.rows * prod_of_reduce() <= kMostSteps)
    while (first_reduce() < first_upcast() && apply_if_legal(OptOp::UNROLL, first_upcast() - 1 - first_reduce(), 0)) {
    }
  else if (reduces && !tile.row && !tile.gathers && prod_of_reduce() >= kLongReduce)
    apply_if_legal(OptOp::UNROLL, first_upcast() - 1 - first_reduce(), streams ? 16 : 8);
  apply_if_legal(OptOp::UPCAST, vector - removed, amount);
  if (dot) apply_if_legal(OptOp::UNROLL, *dot, dot_product()->steps);
  if (!tile.row) return;
  int row = *tile.row;
  if (tile.of == amount && vector < row) --row;
  if (square && streams && !whole && row < vector && vector < global_dims())
    apply_if_legal(OptOp::SWAP, row, vector);  // squares of what comes from memory are read in order
  if (!square) order_rows(row, vector, whole, tile.of, operands);
}

/// The reduced axis, counted among those, of which an instruction for dot products takes some steps at once: one operand has them side
/// by side for all lanes, the other one has lanes side by side or is packed.
std::optional<int> Kernel::axis_of_dots(int vector, const std::vector<int64_t>& packed) const {
  const DotProduct* dot = dot_product();
  const int axis = first_upcast() - 1;
  if (dot == nullptr || axis < first_reduce() || size_of(axes_[static_cast<size_t>(axis)]) % dot->steps != 0)
    return std::nullopt;
  const CpuLayout layout(*this);
  for (const CpuLayout::BufferAt& b : layout.buffers) {
    if (b.is_store) continue;
    const std::optional<int64_t> lanes = layout.stride(b, vector);
    const bool is_packed =
        std::ranges::find(packed, std::get<int64_t>(fixed_->buffers[b.number].src(0).arg())) != packed.end();
    if (lanes == 0 ? layout.stride(b, axis) != 1 : lanes != 1 && !is_packed) return std::nullopt;
  }
  return axis - first_reduce();
}

/// The order of the loops over rows and over strips of vectors, and what is packed inside.
void Kernel::order_rows(int row, int vector, bool whole, int64_t of, const std::vector<int64_t>& operands) {
  if (row >= global_dims() || size_of(axes_[static_cast<size_t>(row)]) < 2) return;
  // A strip of what the rows share stays in the cache while they go by, where all of it does not fit.
  const Int128 shared = Int128{of} * prod_of_reduce() * 4;
  if (!whole && row < vector && shared > kSecondCache && apply_if_legal(OptOp::SWAP, row, vector)) row = vector;
  // What is packed is packed for the loop over rows alone.
  if (!operands.empty() && row < global_dims() - 1 && apply_if_legal(OptOp::SWAP, row, global_dims() - 1))
    row = global_dims() - 1;
  for (int64_t operand : operands) apply_if_legal(OptOp::PACK, row, operand);
}

/// The axis of the output along which a load is contiguous that jumps along the axis of the lanes.
std::optional<int> Kernel::square_to_transpose(int vector, int lanes) const {
  const CpuLayout layout(*this);
  for (const CpuLayout::BufferAt& b : layout.buffers) {
    if (b.is_store || std::abs(layout.stride(b, vector).value_or(0)) < lanes) continue;
    for (int axis = 0; axis < first_reduce(); ++axis)
      if (axis != vector && layout.stride(b, axis) == 1 && size_of(axes_[static_cast<size_t>(axis)]) % lanes == 0)
        return axis;
  }
  return std::nullopt;
}

/// The buffers, by number, that are worth a copy before the loop over rows: those that many turns of it read in an order that is bad
/// for caches.
std::vector<int64_t> Kernel::worth_packing(int row, int64_t turns, int vector, int64_t amount) const {
  std::vector<int64_t> numbers;
  if (turns < kPackedTurns) return numbers;
  const CpuLayout layout(*this);
  for (const CpuLayout::BufferAt& b : layout.buffers) {
    const std::optional<int64_t> lanes = layout.stride(b, vector);
    if (b.is_store || layout.stride(b, row) != 0 || lanes == 0) continue;
    const int64_t item = fixed_->memory_type(b.number).itemsize();
    Int128 tile = Int128{amount} * item, all = tile;
    int64_t pitch = 0;
    bool masked = false;
    for (int axis = 0; axis < first_upcast(); ++axis) {
      const std::optional<int64_t> stride = layout.stride(b, axis);
      // Along the lanes only the last strip is.
      masked |= axis != vector && buffer_view(b.number).is_masked(fixed_->graph(), axis);
      if (axis == vector || stride == 0) continue;
      const int64_t size = std::max<int64_t>(1, layout.most_of(axis));
      all = std::min<Int128>(all * size, kUnbounded);
      if (axis < first_reduce()) continue;
      tile = std::min<Int128>(tile * size, kUnbounded);
      pitch = std::max(pitch, stride ? std::abs(*stride) * item : 0);
    }
    all = std::min<Int128>(all * size_of(axes_[static_cast<size_t>(vector)]) / amount, kUnbounded);
    if (tile > kMostPacked) continue;
    // In order already, and near.
    const bool is_plain = lanes == 1 && !masked && dot_product() == nullptr;
    const bool is_far = (pitch != 0 && pitch % kPage == 0) || all > 2 * kSecondCache;
    if (!is_plain || (is_far && turns >= 2 * kPackedTurns))
      numbers.push_back(std::get<int64_t>(fixed_->buffers[b.number].src(0).arg()));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

/// Steps of the reduce.
int64_t Kernel::prod_of_reduce() const {
  int64_t steps = 1;
  for (int i = first_reduce(); i < first_upcast(); ++i)
    steps = std::min(steps * std::max<int64_t>(1, size_of(axes_[static_cast<size_t>(i)])), int64_t{1} << 40);
  return steps;
}

/// The outermost axis that gives each core enough to do; not the one whose turns have to come in order.
void Kernel::share_among_threads(int64_t work, std::optional<int> in_order) {
  const int64_t wanted = std::min(work / kWorkOfThread, kMostParts);
  if (!target().has_threads || wanted < 2) return;
  std::optional<int> best;
  int64_t parts = 1;
  for (int axis = 0; axis < first_reduce(); ++axis) {
    const int64_t size = size_of(axes_[static_cast<size_t>(axis)]);
    if (size < 2 || axis == in_order) continue;
    int64_t n = std::min(wanted, size);
    // Each part packs for itself what is packed inside of the axis.
    for (const Packed& p : packed_)
      if (axis >= p.axis) n = std::min(n, parts >= 4 ? 1 : size / kPackedTurns);
    while (n > 1 && size % n != 0) --n;
    // An even number of parts serves most machines better than a few more.
    if (n % 2 != 0 && size % 2 == 0)
      for (int64_t even = n - 1; even >= 2; --even)
        if (even % 2 == 0 && size % even == 0) {
          n = even;
          break;
        }
    if (n > parts && (parts < 8 || n > 4 * parts)) parts = n, best = axis;
  }
  if (best) apply_if_legal(OptOp::THREAD, *best, parts);
}

}  // namespace quern
