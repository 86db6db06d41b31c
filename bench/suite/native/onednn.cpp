// oneDNN's primitives, on arrays laid out as Quern's are: operation= and its sizes, in_NAME= [output=] seconds=
// Where the library would rather have a layout of its own, that is tried too, the reorders in the time, and the faster way is timed.

#include <functional>
#include <memory>

#include <dnnl.hpp>

#include "peer.h"

namespace {

using dnnl::memory;
using Type = memory::data_type;
using Dims = memory::dims;
using Run = std::function<void()>;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

dnnl::stream& stream() {
  static dnnl::stream s(engine());
  return s;
}

memory::desc row_major(const Dims& dims, Type type = Type::f32) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) strides[i] = step;
  return {dims, type, strides};
}

memory::desc any(const Dims& dims, Type type = Type::f32) { return {dims, type, memory::format_tag::any}; }

/// The input `name`, which stays in memory as long as the program.
memory input(const peer::Arguments& a, const std::string& name, const memory::desc& desc) {
  static std::vector<std::unique_ptr<peer::Bytes>> kept;
  kept.push_back(std::make_unique<peer::Bytes>(peer::read_npy(a.text("in_" + name))));
  return {desc, engine(), kept.back()->as<void>()};
}

/// Seconds of the fastest of a few calls.
double quick_time(const Run& run) {
  double best = 1e30;
  for (int i = 0; i < 4; ++i) {
    const auto start = peer::Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(peer::Clock::now() - start).count());
  }
  return best;
}

void finish(const peer::Arguments& a, const peer::Bytes& out, const char* descr, const std::vector<Run>& ways) {
  const Run* best = &ways.front();
  if (ways.size() > 1 && quick_time(ways[1]) < quick_time(ways[0])) best = &ways[1];
  (*best)();
  const size_t each = descr[2] == '4' ? 4 : 1;
  if (a.has("output")) peer::write_npy(a.text("output"), out, descr, out.size() / each);
  peer::time_and_print(*best, a.real("seconds"));
}

Run one(dnnl::primitive primitive, std::unordered_map<int, memory> arguments) {
  return [primitive = std::move(primitive), arguments = std::move(arguments)]() mutable {
    primitive.execute(stream(), arguments);
    stream().wait();
  };
}

memory output(const peer::Bytes& bytes, const memory::desc& desc) { return {desc, engine(), bytes.as<void>()}; }

peer::Bytes room_for(const memory::desc& desc) { return peer::Bytes(desc.get_size()); }

Type type_of(const std::string& name) {
  if (name == "float") return Type::f32;
  if (name == "half") return Type::f16;
  if (name == "bfloat16") return Type::bf16;
  if (name == "char") return Type::s8;
  throw peer::Skip("no type " + name);
}

void matmul(const peer::Arguments& a) {
  const int64_t m = a.number("m"), n = a.number("n"), k = a.number("k"), batch = a.number("batch");
  const Type type = type_of(a.text("dtype")), total = type == Type::s8 ? Type::s32 : Type::f32;
  const bool ta = a.number("ta") != 0, tb = a.number("tb") != 0;
  auto desc = [&](int64_t rows, int64_t columns, bool transposed) {
    return memory::desc({batch, rows, columns}, type,
                        Dims{rows * columns, transposed ? 1 : columns, transposed ? rows : 1});
  };
  const memory::desc x = desc(m, k, ta), y = desc(k, n, tb), z = row_major({batch, m, n}, total);
  const peer::Bytes out = room_for(z);
  const dnnl::matmul::primitive_desc pd(engine(), x, y, z);
  finish(
      a, out, total == Type::s32 ? "<i4" : "<f4",
      {one(dnnl::matmul(pd),
           {{DNNL_ARG_SRC, input(a, "a", x)}, {DNNL_ARG_WEIGHTS, input(a, "b", y)}, {DNNL_ARG_DST, output(out, z)}})});
}

void matvec(const peer::Arguments& a) {
  const int64_t m = a.number("m"), k = a.number("k");
  const bool transposed = a.number("transposed") != 0;
  const memory::desc x({m, k}, Type::f32, Dims{transposed ? 1 : k, transposed ? m : 1});
  const memory::desc y = row_major({k, 1}), z = row_major({m, 1});
  const peer::Bytes out = room_for(z);
  const dnnl::matmul::primitive_desc pd(engine(), x, y, z);
  finish(
      a, out, "<f4",
      {one(dnnl::matmul(pd),
           {{DNNL_ARG_SRC, input(a, "a", x)}, {DNNL_ARG_WEIGHTS, input(a, "x", y)}, {DNNL_ARG_DST, output(out, z)}})});
}

/// What moves one memory to the other; nothing where they are the same.
Run mover(const memory& from, const memory& to) {
  if (from.get_data_handle() == to.get_data_handle()) return [] {};
  return [primitive = dnnl::reorder(from, to), a = memory(from), b = memory(to)]() mutable {
    primitive.execute(stream(), a, b);
  };
}

/// The array itself if it is in the wanted layout, or a memory that is.
memory in_layout(const memory& array, const memory::desc& wanted) {
  return array.get_desc() == wanted ? array : memory(wanted, engine());
}

void conv(const peer::Arguments& a) {
  const int64_t n = a.number("n"), c = a.number("c"), h = a.number("h"), w = a.number("w"), o = a.number("o");
  const int64_t size = a.number("size"), stride = a.number("stride"), pad = a.number("pad");
  const bool depthwise = a.number("depthwise") != 0;
  const Dims src{n, c, h, w}, dst{n, o, (h + 2 * pad - size) / stride + 1, (w + 2 * pad - size) / stride + 1};
  const Dims weights = depthwise ? Dims{c, 1, 1, size, size} : Dims{o, c, size, size};
  const memory x = input(a, "x", row_major(src)), f = input(a, "w", row_major(weights));
  const peer::Bytes out = room_for(row_major(dst));
  const memory y = output(out, row_major(dst));
  auto made = [&](auto&& layout) {
    return dnnl::convolution_forward::primitive_desc(engine(), dnnl::prop_kind::forward_inference,
                                                     dnnl::algorithm::convolution_direct, layout(src), layout(weights),
                                                     layout(dst), Dims{stride, stride}, Dims{pad, pad}, Dims{pad, pad});
  };
  const auto plain = made([](const Dims& dims) { return row_major(dims); });
  const auto own = made([](const Dims& dims) { return any(dims); });
  const memory ox = in_layout(x, own.src_desc()), of = in_layout(f, own.weights_desc()),
               oy = in_layout(y, own.dst_desc());
  const std::vector<Run> parts{
      mover(x, ox), mover(f, of),
      one(dnnl::convolution_forward(own), {{DNNL_ARG_SRC, ox}, {DNNL_ARG_WEIGHTS, of}, {DNNL_ARG_DST, oy}}),
      mover(oy, y)};
  finish(a, out, "<f4",
         {one(dnnl::convolution_forward(plain), {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, f}, {DNNL_ARG_DST, y}}), [&] {
            for (const Run& part : parts) part();
            stream().wait();
          }});
}

void softmax(const peer::Arguments& a) {
  const memory::desc desc = row_major({a.number("rows"), a.number("columns")});
  const peer::Bytes out = room_for(desc);
  const dnnl::softmax_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference,
                                                 dnnl::algorithm::softmax_accurate, desc, desc, 1);
  finish(a, out, "<f4",
         {one(dnnl::softmax_forward(pd), {{DNNL_ARG_SRC, input(a, "x", desc)}, {DNNL_ARG_DST, output(out, desc)}})});
}

void layernorm(const peer::Arguments& a) {
  const memory::desc desc = row_major({a.number("rows"), a.number("columns")}),
                     one_row = row_major({a.number("columns")});
  const peer::Bytes out = room_for(desc);
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  const dnnl::layer_normalization_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference, desc, desc,
                                                             1e-5F, flags);
  finish(a, out, "<f4",
         {one(dnnl::layer_normalization_forward(pd), {{DNNL_ARG_SRC, input(a, "x", desc)},
                                                      {DNNL_ARG_SCALE, input(a, "w", one_row)},
                                                      {DNNL_ARG_SHIFT, input(a, "b", one_row)},
                                                      {DNNL_ARG_DST, output(out, desc)}})});
}

void gelu(const peer::Arguments& a) {
  const memory::desc desc = row_major({a.number("n")});
  const peer::Bytes out = room_for(desc);
  const dnnl::eltwise_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference,
                                                 dnnl::algorithm::eltwise_gelu_tanh, desc, desc);
  finish(a, out, "<f4",
         {one(dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, input(a, "a", desc)}, {DNNL_ARG_DST, output(out, desc)}})});
}

void reduce(const peer::Arguments& a, dnnl::algorithm algorithm, const Dims& from, const Dims& to) {
  const memory::desc x = row_major(from), y = row_major(to);
  const peer::Bytes out = room_for(y);
  const dnnl::reduction::primitive_desc pd(engine(), algorithm, x, y, 0, 0);
  finish(a, out, "<f4", {one(dnnl::reduction(pd), {{DNNL_ARG_SRC, input(a, "x", x)}, {DNNL_ARG_DST, output(out, y)}})});
}

/// Moves an array: `in` and `out` are two descriptions of the same elements.
void reorder(const peer::Arguments& a, const memory::desc& in, const memory::desc& out_desc) {
  const peer::Bytes out = room_for(out_desc);
  const memory from = input(a, "x", in), to = output(out, out_desc);
  const dnnl::reorder primitive(from, to);
  finish(a, out, "<f4", {one(primitive, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}})});
}

void measure(const peer::Arguments& a) {
  const std::string& operation = a.text("operation");
  if (operation == "matmul") return matmul(a);
  if (operation == "matvec") return matvec(a);
  if (operation == "conv") return conv(a);
  if (operation == "softmax") return softmax(a);
  if (operation == "layernorm") return layernorm(a);
  if (operation == "gelu") return gelu(a);
  if (operation == "sum_rows" || operation == "sum_columns" || operation == "max_rows") {
    const int64_t rows = a.number("rows"), columns = a.number("columns");
    const auto algorithm = operation == "max_rows" ? dnnl::algorithm::reduction_max : dnnl::algorithm::reduction_sum;
    return reduce(a, algorithm, {rows, columns}, operation == "sum_columns" ? Dims{1, columns} : Dims{rows, 1});
  }
  if (operation == "sum_all") return reduce(a, dnnl::algorithm::reduction_sum, {1, a.number("n")}, {1, 1});
  if (operation == "transpose") {
    const int64_t rows = a.number("rows"), columns = a.number("columns");
    return reorder(a, row_major({rows, columns}), {{rows, columns}, Type::f32, Dims{1, rows}});
  }
  if (operation == "permute_021") {
    const int64_t x = a.number("a"), y = a.number("b"), z = a.number("c");
    return reorder(a, row_major({x, y, z}), {{x, y, z}, Type::f32, Dims{y * z, 1, y}});
  }
  throw peer::Skip("no primitive of oneDNN does it");
}

}  // namespace

int main(int argc, char** argv) {
  return peer::run_peer(argc, argv, [](const peer::Arguments& a) {
    try {
      measure(a);
    } catch (const dnnl::error& e) {
      if (e.status == dnnl_unimplemented) throw peer::Skip("not implemented for this machine");
      throw;
    }
  });
}
