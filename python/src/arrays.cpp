#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "binding.h"

namespace quern::python {

namespace {

using AnyArray = nb::ndarray<nb::ro>;
using Code = nb::dlpack::dtype_code;

struct TypeRow {
  DataType type;
  Code code;
  std::string_view also;  ///< what NumPy's users call it
};
constexpr std::array kTypes = {
    TypeRow{DataType::Bool, Code::Bool, "bool"},           TypeRow{DataType::Int8, Code::Int, "int8"},
    TypeRow{DataType::UInt8, Code::UInt, "uint8"},         TypeRow{DataType::Int16, Code::Int, "int16"},
    TypeRow{DataType::UInt16, Code::UInt, "uint16"},       TypeRow{DataType::Int32, Code::Int, "int32"},
    TypeRow{DataType::UInt32, Code::UInt, "uint32"},       TypeRow{DataType::Int64, Code::Int, "int64"},
    TypeRow{DataType::UInt64, Code::UInt, "uint64"},       TypeRow{DataType::Half, Code::Float, "float16"},
    TypeRow{DataType::BFloat16, Code::Bfloat, "bfloat16"}, TypeRow{DataType::Float, Code::Float, "float32"},
    TypeRow{DataType::Double, Code::Float, "float64"},
};

nb::dlpack::dtype dlpack_type(DataType type) {
  const TypeRow& row = kTypes.at(static_cast<size_t>(type));
  return {static_cast<uint8_t>(row.code), static_cast<uint8_t>(8 * size_of(type)), 1};
}

std::optional<DataType> type_of(nb::dlpack::dtype t) {
  for (const TypeRow& row : kTypes)
    if (dlpack_type(row.type) == t) return row.type;
  return std::nullopt;
}

DataType type_named(std::string_view name) {
  std::string known;
  for (const TypeRow& row : kTypes) {
    if (name == to_string(row.type) || name == row.also) return row.type;
    known += (known.empty() ? "" : ", ") + std::string(row.also);
  }
  constexpr size_t kShown = 40;
  const auto shown = nb::cast<std::string>(
      nb::repr(nb::bytes(name.data(), std::min(name.size(), kShown)).attr("decode")("utf-8", "replace")));
  throw nb::value_error(("no type is called " + shown + "; there are: " + known).c_str());
}

std::string text_of(nb::dlpack::dtype t) {
  constexpr std::array kNames = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  std::string text = t.code < kNames.size() ? kNames[t.code] : "type " + std::to_string(t.code) + " of ";
  text += std::to_string(t.bits);
  return t.lanes == 1 ? text : text + " x " + std::to_string(t.lanes);
}

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

template <class Get>
std::string tuple_text(size_t n, Get get) {
  std::string text = "(";
  for (size_t i = 0; i < n; ++i) text += (i ? ", " : "") + std::to_string(get(i));
  return text + (n == 1 ? ",)" : ")");
}

bool is_contiguous(const AnyArray& a) {
  if (a.size() == 0) return true;
  int64_t expected = 1;
  for (size_t i = a.ndim(); i-- > 0;) {
    if (a.shape(i) != 1 && a.stride(i) != expected) return false;
    expected *= static_cast<int64_t>(a.shape(i));
  }
  return true;
}

/// What to ask for the memory: the object, or a memoryview of one that does not speak DLPack. A memoryview has strides; buffers of
/// other objects, those of ctypes, may come without.
nb::object source_of(nb::handle object) {
  if (nb::hasattr(object, "__dlpack__") || PyObject_CheckBuffer(object.ptr()) == 0) return nb::borrow(object);
  return nb::steal(PyMemoryView_FromObject(object.ptr()));
}

template <class A>
std::optional<A> try_import(nb::handle source) {
  A array;
  const bool yes = nb::try_cast(source, array, false) && array.is_valid();
  PyErr_Clear();
  return yes ? std::optional(std::move(array)) : std::nullopt;
}

/// ": its __dlpack__ raises BufferError: ..." where it does. What is no Exception, KeyboardInterrupt, is raised.
std::string why_not(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return {};
  try {
    object.attr("__dlpack__")();
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_Exception)) throw;
    return ": its __dlpack__ raises " + text_of(e.value()) + ": " + nb::cast<std::string>(nb::str(e.value()));
  }
  return {};
}

void expect_axes(size_t axes) {
  constexpr size_t kMost = 64;  // as NumPy 2
  if (axes > kMost)
    throw nb::value_error(
        ("an array has up to " + std::to_string(kMost) + " axes, not " + std::to_string(axes)).c_str());
}

template <class Framework>
nb::object exported(const HostArray& a) {
  const Array& array = a.array();
  const nb::dlpack::dtype type = dlpack_type(array.type);
  const size_t n = a.shape().size();
  const size_t* shape = a.shape().data();
  constexpr int kDevice = nb::device::cpu::value;
  if (array.writable) return nb::cast(nb::ndarray<Framework>(array.data, n, shape, a.owner(), nullptr, type, kDevice));
  return nb::cast(nb::ndarray<Framework, nb::ro>(array.data, n, shape, a.owner(), nullptr, type, kDevice));
}

std::string repr(const HostArray& a) {
  const Array& array = a.array();
  return "Buffer(" + std::string(to_string(array.type)) + ", " +
         tuple_text(a.shape().size(), [&](size_t i) { return a.shape()[i]; }) + (array.writable ? ")" : ", read-only)");
}

nb::object numpy_array(const HostArray& a) {
  nb::object made = exported<nb::numpy>(a);
  // Of what it has no type for, or has fewer axes than, NumPy makes an array of one Python object.
  if (nb::cast<std::string>(made.attr("dtype").attr("kind")) == "O")
    throw nb::type_error(("NumPy has no array for " + repr(a)).c_str());
  return made;
}

}  // namespace

HostArray::HostArray(nb::handle object, const std::string& as) {
  const nb::object source = source_of(object);
  std::optional<AnyArray> imported = source.is_valid() ? try_import<AnyArray>(source) : std::nullopt;
  PyErr_Clear();
  if (!imported)
    throw nb::type_error(
        ("a " + text_of(object) +
         " is no array in host memory: it gives its memory neither through DLPack nor as a buffer of plain "
         "numbers in this machine's byte order" +
         why_not(object))
            .c_str());
  AnyArray& a = *imported;
  if (a.device_type() != nb::device::cpu::value && a.device_type() != nb::device::none::value)
    throw nb::type_error(("the memory of this " + text_of(object) + " is not the host's (DLPack device " +
                          std::to_string(a.device_type()) + ")")
                             .c_str());
  expect_axes(a.ndim());
  const size_t bytes = static_cast<size_t>(a.dtype().bits) * a.dtype().lanes / 8;
  if (as.empty()) {
    const std::optional<DataType> type = type_of(a.dtype());
    if (!type) throw nb::type_error(("kernels have no elements of type " + text_of(a.dtype())).c_str());
    array_.type = *type;
  } else {
    array_.type = type_named(as);
    if (static_cast<size_t>(size_of(array_.type)) != bytes)
      throw nb::type_error(("elements of type " + text_of(a.dtype()) + " cannot be taken for " + as + ": " +
                            std::to_string(bytes) + " bytes, not " + std::to_string(size_of(array_.type)))
                               .c_str());
  }
  if (!is_contiguous(a))
    throw nb::value_error(("an array has to be row-major without gaps: this one has shape " +
                           tuple_text(a.ndim(), [&](size_t i) { return a.shape(i); }) + " and strides, in elements, " +
                           tuple_text(a.ndim(), [&](size_t i) { return a.stride(i); }) +
                           " (numpy.ascontiguousarray copies it)")
                              .c_str());
  for (size_t i = 0; i < a.ndim(); ++i) shape_.push_back(a.shape(i));
  array_.data = const_cast<void*>(a.data());
  array_.elements = static_cast<int64_t>(a.size());
  array_.writable = try_import<nb::ndarray<>>(source).has_value();
  owner_ = nb::capsule(new AnyArray(std::move(a)), [](void* p) noexcept { delete static_cast<AnyArray*>(p); });
}

HostArray HostArray::zeros(const std::vector<size_t>& shape, const std::string& name) {
  expect_axes(shape.size());
  HostArray a;
  a.shape_ = shape;
  a.array_.type = type_named(name);
  size_t elements = 1;
  for (size_t size : shape)
    if (__builtin_mul_overflow(elements, size, &elements) || elements > (size_t{1} << 60))
      throw nb::value_error("an array of more elements than there is memory for");
  const size_t bytes = elements * static_cast<size_t>(size_of(a.array_.type));
  constexpr size_t kAlignment = 64;
  void* memory =
      std::aligned_alloc(kAlignment, (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  a.owner_ = nb::capsule(memory, [](void* p) noexcept { std::free(p); });  // NOLINT: aligned_alloc'ed
  std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
  a.array_.data = memory;
  a.array_.elements = static_cast<int64_t>(elements);
  return a;
}

Arguments::Arguments(nb::args args) {
  for (nb::handle arg : args) {
    if (nb::isinstance<HostArray>(arg)) {
      const auto& buffer = nb::cast<const HostArray&>(arg);
      arrays.push_back(buffer.array());
      owners.push_back(buffer.owner());
    } else {
      try {
        HostArray made(arg, {});
        arrays.push_back(made.array());
        owners.push_back(made.owner());
      } catch (const nb::builtin_exception& e) {
        const std::string text = "argument " + std::to_string(arrays.size()) + ": " + e.what();
        if (e.type() == nb::exception_type::type_error) throw nb::type_error(text.c_str());
        throw nb::value_error(text.c_str());
      }
    }
  }
}

void bind_arrays(nb::module_& m) {
  nb::class_<HostArray>(
      m, "Buffer",
      "A kernel's buffer: memory of an array, never a copy.\n\n"
      "Takes anything in host memory that speaks DLPack or the buffer protocol: NumPy arrays, CPU tensors of "
      "PyTorch or JAX, `array.array`, `bytearray`. It has to be row-major without gaps. `run` makes Buffers of "
      "arrays by itself.\n\n"
      "dtype: take the elements for another type of the same size, such as \"bfloat16\" for uint16.\n\n"
      "Raises TypeError for an object without host memory or with elements that kernels do not have, ValueError "
      "for one with gaps.")
      .def(nb::init<nb::handle, const std::string&>(), nb::arg("array"), nb::kw_only(), nb::arg("dtype") = "",
           nb::sig("def __init__(self, array: object, *, dtype: str = '') -> None"))
      .def_static(
          "zeros",
          [](const std::variant<size_t, std::vector<size_t>>& shape, const std::string& dtype) {
            if (const size_t* n = std::get_if<size_t>(&shape)) return HostArray::zeros({*n}, dtype);
            return HostArray::zeros(std::get<std::vector<size_t>>(shape), dtype);
          },
          nb::arg("shape"), nb::arg("dtype") = "float",
          "New memory of zeros, aligned to 64 bytes. Raises ValueError for a type there is not, MemoryError.")
      .def_prop_ro(
          "dtype", [](const HostArray& a) { return std::string(to_string(a.array().type)); },
          "Type of the elements: \"float\", \"half\", \"int\", \"uchar\", ...")
      .def_prop_ro("shape", [](const HostArray& a) { return nb::tuple(nb::cast(a.shape())); })
      .def_prop_ro(
          "size", [](const HostArray& a) { return a.array().elements; }, "Number of elements.")
      .def_prop_ro("nbytes", [](const HostArray& a) { return a.array().elements * size_of(a.array().type); })
      .def_prop_ro(
          "writable", [](const HostArray& a) { return a.array().writable; }, "Whether a kernel may write it.")
      .def("numpy", numpy_array, nb::sig("def numpy(self) -> object"),
           "The same memory as a NumPy array. Raises TypeError where NumPy has none: of bfloat16.")
      .def(
          "__dlpack__",
          [](const HostArray& a, nb::kwargs kwargs) { return exported<nb::array_api>(a).attr("__dlpack__")(**kwargs); },
          nb::sig("def __dlpack__(self, **kwargs: object) -> object"),
          "The same memory for numpy.from_dlpack and its like.")
      .def(
          "__dlpack_device__", [](const HostArray&) { return nb::make_tuple(int{nb::device::cpu::value}, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__len__",
           [](const HostArray& a) {
             if (a.shape().empty()) throw nb::type_error("a buffer without axes has no length");
             return a.shape()[0];
           })
      .def("__repr__", repr);
}

}  // namespace quern::python
