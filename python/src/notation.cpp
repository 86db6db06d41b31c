#include <unordered_map>

#include <nanobind/stl/string.h>

#include "binding.h"

namespace quern::python {

namespace {

/// Writes a tree of Python objects that have op, dtype, arg and src, tinygrad's UOps, in the notation that Quern reads: on one line,
/// a node with more than one user named where it stands first. tinygrad's own repr gives the same, but takes a hundred times as long.
class NotationWriter {
 public:
  /// ops and dtypes: their texts; a dtype that is not there yet is added with its repr. other_arg: the text of a node's arg, where it
  /// is neither None nor a ShapeTracker nor an int.
  NotationWriter(nb::dict ops, nb::dict dtypes, nb::object other_arg)
      : ops_(std::move(ops)), dtypes_(std::move(dtypes)), other_arg_(std::move(other_arg)) {}

  std::string write(nb::object root) {
    count(root);
    pending_.push_back({std::move(root), {}});
    while (!pending_.empty()) {
      Item item = std::move(pending_.back());
      pending_.pop_back();
      if (item.node.is_valid())
        begin(item.node);
      else
        text_ += item.text;
    }
    return std::move(text_);
  }

 private:
  struct Use {
    int users = 0;
    int name = -1;
  };
  struct Item {
    nb::object node;  ///< or none, and text
    std::string_view text;
  };

  static nb::tuple sources(nb::handle node) { return nb::cast<nb::tuple>(node.attr("src")); }

  void count(nb::handle root) {
    std::vector<nb::object> stack{nb::borrow(root)};
    uses_[root.ptr()].users = 1;
    while (!stack.empty()) {
      const nb::tuple src = sources(stack.back());
      stack.pop_back();
      for (nb::handle s : src)
        if (++uses_[s.ptr()].users == 1) stack.push_back(nb::borrow(s));
    }
  }

  void begin(nb::handle node) {
    Use& use = uses_.at(node.ptr());
    if (use.name >= 0) {
      text_ += "x" + std::to_string(use.name);
      return;
    }
    if (use.users > 1) {
      use.name = names_++;
      text_ += "x" + std::to_string(use.name) + ":=";
    }
    const nb::object op = node.attr("op");
    text_ += "UOp(";
    append(nb::borrow(ops_[op]));
    text_ += ',';
    append(dtype_text(node.attr("dtype")));
    text_ += ",arg=";
    append_arg(node);
    text_ += ",src=(";
    const nb::tuple src = sources(node);
    pending_.push_back({{}, "))"});
    for (size_t i = src.size(); i-- > 0;) {
      pending_.push_back({{}, ","});
      pending_.push_back({nb::borrow(src[i]), {}});
    }
  }

  nb::object dtype_text(nb::object dtype) {
    if (PyObject* known = PyDict_GetItemWithError(dtypes_.ptr(), dtype.ptr())) return nb::borrow(known);
    if (PyErr_Occurred() != nullptr) nb::raise_python_error();
    nb::object text = nb::repr(dtype);
    dtypes_[dtype] = text;
    return text;
  }

  void append_arg(nb::handle node) {
    const nb::object arg = node.attr("arg");
    if (arg.is_none()) {
      text_ += "None";
    } else if (PyLong_CheckExact(arg.ptr())) {
      append_number(arg);
    } else if (nb::hasattr(arg, "views")) {
      text_ += "ShapeTracker(views=(";
      for (nb::handle view : nb::cast<nb::tuple>(arg.attr("views"))) {
        append_view(view);
        text_ += ',';
      }
      text_ += "))";
    } else {
      append(other_arg_(node));
    }
  }

  void append_view(nb::handle view) {
    text_ += "View(shape=";
    append_number(view.attr("shape"));
    text_ += ",strides=";
    append_number(view.attr("strides"));
    text_ += ",offset=";
    append_number(view.attr("offset"));
    text_ += ",mask=";
    append_number(view.attr("mask"));
    text_ += nb::cast<bool>(view.attr("contiguous")) ? ",contiguous=True)" : ",contiguous=False)";
  }

  /// An int, None, a tuple of such, or a symbolic int, which tinygrad writes itself.
  void append_number(nb::handle value) {
    if (PyLong_CheckExact(value.ptr())) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
      if (overflow == 0) {
        text_ += std::to_string(number);
        return;
      }
    }
    if (PyTuple_CheckExact(value.ptr())) {
      text_ += '(';
      for (nb::handle each : nb::borrow<nb::tuple>(value)) {
        append_number(each);
        text_ += ',';
      }
      text_ += ')';
      return;
    }
    append(nb::repr(value));
  }

  void append(nb::handle text) {
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (utf8 == nullptr) nb::raise_python_error();
    text_.append(utf8, static_cast<size_t>(size));
  }

  nb::dict ops_, dtypes_;
  nb::object other_arg_;
  std::unordered_map<PyObject*, Use> uses_;  ///< all of them live as long as the root
  std::vector<Item> pending_;                ///< what is still to be written, the next one last
  std::string text_;
  int names_ = 0;
};

}  // namespace

void bind_notation(nb::module_& m) {
  m.def(
      "_notation",
      [](nb::object root, nb::dict ops, nb::dict dtypes, nb::object other_arg) {
        return NotationWriter(std::move(ops), std::move(dtypes), std::move(other_arg)).write(std::move(root));
      },
      nb::arg("root"), nb::arg("ops"), nb::arg("dtypes"), nb::arg("other_arg"));
}

}  // namespace quern::python
