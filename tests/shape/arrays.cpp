#include "arrays.h"

#include <algorithm>
#include <numeric>

#include "base/int128.h"
#include "ir/node_map.h"

namespace quern::test {

namespace {

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

int64_t count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> unflatten(int64_t at, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indices(shape.size());
  for (size_t i = shape.size(); i-- > 0; at /= shape[i]) indices[i] = at % shape[i];
  return indices;
}

int64_t flatten(const std::vector<int64_t>& indices, const std::vector<int64_t>& shape) {
  int64_t at = 0;
  for (size_t i = 0; i < shape.size(); ++i) at = at * shape[i] + indices[i];
  return at;
}

/// An array of `shape` whose element at an index is that of `a` at `source(index)`, zero where it is outside of `a`.
Array gather(const Array& a, std::vector<int64_t> shape, auto&& source) {
  Array result{std::move(shape), {}};
  for (int64_t at = 0; at < count(result.shape); ++at) {
    std::vector<int64_t> from = source(unflatten(at, result.shape));
    bool inside = true;
    for (size_t i = 0; i < from.size(); ++i) inside &= from[i] >= 0 && from[i] < a.shape[i];
    result.elements.push_back(inside ? a.elements[static_cast<size_t>(flatten(from, a.shape))] : kZero);
  }
  return result;
}

std::string text(const auto& items) {
  std::string s;
  for (auto item : items) s += " " + std::to_string(item);
  return s;
}

std::string pairs_text(const Pairs& items) {
  std::string s;
  for (auto [a, b] : items) s += " " + std::to_string(a) + ":" + std::to_string(b);
  return s;
}

std::vector<int64_t> ints(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const SInt& s : shape) sizes.push_back(s.value());
  return sizes;
}

}  // namespace

Array iota(std::vector<int64_t> shape) {
  Array a{std::move(shape), {}};
  a.elements.resize(static_cast<size_t>(count(a.shape)));
  std::iota(a.elements.begin(), a.elements.end(), 0);
  return a;
}

Array reshape(const Array& a, const std::vector<int64_t>& shape) { return {shape, a.elements}; }

Array permute(const Array& a, const std::vector<int>& axes) {
  std::vector<int64_t> shape;
  for (int axis : axes) shape.push_back(a.shape[static_cast<size_t>(axis)]);
  return gather(a, shape, [&](const std::vector<int64_t>& index) {
    std::vector<int64_t> from(index.size());
    for (size_t i = 0; i < index.size(); ++i) from[static_cast<size_t>(axes[i])] = index[i];
    return from;
  });
}

Array expand(const Array& a, const std::vector<int64_t>& shape) {
  return gather(a, shape, [&](std::vector<int64_t> index) {
    for (size_t i = 0; i < index.size(); ++i)
      if (a.shape[i] == 1) index[i] = 0;
    return index;
  });
}

Array pad(const Array& a, const Pairs& amounts) {
  std::vector<int64_t> shape = a.shape;
  for (size_t i = 0; i < shape.size(); ++i) shape[i] += amounts[i].first + amounts[i].second;
  return gather(a, shape, [&](std::vector<int64_t> index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] -= amounts[i].first;
    return index;
  });
}

Array shrink(const Array& a, const Pairs& ranges) {
  std::vector<int64_t> shape;
  for (auto [begin, end] : ranges) shape.push_back(end - begin);
  return gather(a, shape, [&](std::vector<int64_t> index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] += ranges[i].first;
    return index;
  });
}

Array stride(const Array& a, const std::vector<int64_t>& steps) {
  std::vector<int64_t> shape = a.shape;
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = ceil_div(shape[i], std::abs(steps[i]));
  return gather(a, shape, [&](std::vector<int64_t> index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] = index[i] * steps[i] + (steps[i] < 0 ? a.shape[i] - 1 : 0);
    return index;
  });
}

Array through(const Array& a, const Array& below) {
  Array result = a;
  for (int64_t& e : result.elements)
    if (e != kZero) e = below.elements.at(static_cast<size_t>(e));
  return result;
}

Array elements_of(const View& v) {
  Array result{ints(v.shape), {}};
  for (int64_t at = 0; at < count(result.shape); ++at) {
    std::vector<int64_t> index = unflatten(at, result.shape);
    int64_t place = v.offset.value();
    for (size_t i = 0; i < index.size(); ++i) {
      place += index[i] * v.strides[i].value();
      if (v.mask && (index[i] < (*v.mask)[i].first.value() || index[i] >= (*v.mask)[i].second.value())) place = kZero;
      if (place == kZero) break;
    }
    result.elements.push_back(place);
  }
  return result;
}

Array elements_of(const ShapeTracker& st) {
  Array result = elements_of(st.views.back());
  for (size_t i = st.views.size() - 1; i-- > 0;) result = through(result, elements_of(st.views[i]));
  return result;
}

int64_t evaluate(UOp expr, const std::function<int64_t(UOp)>& value_of) {
  NodeMap<int64_t> values;
  for (UOp u : toposort(expr)) {
    auto src = [&](size_t i) { return values.get(u.src(i)); };
    int64_t& value = values[u];
    switch (u.op()) {
      case Op::Const: value = static_cast<int64_t>(u.const_int()); break;
      case Op::Add: value = src(0) + src(1); break;
      case Op::Mul: value = src(0) * src(1); break;
      case Op::Max: value = std::max(src(0), src(1)); break;
      case Op::And: value = src(0) & src(1); break;
      case Op::Idiv: value = floor_div(src(0), src(1)); break;
      case Op::Mod: value = floor_mod(src(0), src(1)); break;
      case Op::Cmplt: value = src(0) < src(1); break;
      case Op::Cmpne: value = src(0) != src(1); break;
      case Op::Range:
      case Op::DefineVar: value = value_of(u); break;
      default: throw std::logic_error("an index expression has " + std::string(to_string(u.op())));
    }
  }
  return values.get(expr);
}

Array elements_by_index(Graph& graph, const ShapeTracker& st, int64_t variable) {
  Indexed at = index_tracker(graph, st);
  Array result;
  auto size_of_axis = [&](const SInt& s) {
    return s.is_int() ? s.value() : evaluate(s.expr(), [&](UOp) { return variable; });
  };
  for (const SInt& s : st.shape()) result.shape.push_back(size_of_axis(s));
  for (int64_t i = 0; i < count(result.shape); ++i) {
    std::vector<int64_t> index = unflatten(i, result.shape);
    auto value_of = [&](UOp u) {
      return u.is(Op::Range) ? index[static_cast<size_t>(std::get<RangeArg>(u.arg()).axis)] : variable;
    };
    result.elements.push_back(evaluate(at.valid, value_of) ? evaluate(at.index, value_of) : kZero);
  }
  return result;
}

int64_t uniform(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::vector<int64_t> random_shape(Random& random, int64_t most_elements) {
  for (;;) {
    std::vector<int64_t> shape(static_cast<size_t>(uniform(random, 1, 5)));
    for (int64_t& s : shape) s = uniform(random, 0, 2) ? uniform(random, 1, 4) : uniform(random, 1, 8);
    if (count(shape) <= most_elements) return shape;
  }
}

namespace {

/// Joins neighbours, or splits an axis, or adds or drops a one: or all sizes anew from the factors.
std::vector<int64_t> random_reshape(Random& random, std::vector<int64_t> shape) {
  for (int64_t steps = uniform(random, 1, 3); steps > 0; --steps) {
    auto at =
        static_cast<std::ptrdiff_t>(uniform(random, 0, std::max<int64_t>(0, static_cast<int64_t>(shape.size()) - 1)));
    switch (uniform(random, 0, 3)) {
      case 0:
        if (at + 1 >= static_cast<std::ptrdiff_t>(shape.size())) break;
        shape[static_cast<size_t>(at)] *= shape[static_cast<size_t>(at) + 1];
        shape.erase(shape.begin() + at + 1);
        break;
      case 1:
      case 2: {
        if (shape.empty()) break;
        int64_t size = shape[static_cast<size_t>(at)], factor = uniform(random, 1, size);
        while (size % factor != 0) --factor;
        shape[static_cast<size_t>(at)] = size / factor;
        shape.insert(shape.begin() + at + uniform(random, 0, 1), factor);
        break;
      }
      default:
        if (uniform(random, 0, 1))
          shape.insert(shape.begin() + (shape.empty() ? 0 : at), 1);
        else
          std::erase(shape, 1);
    }
  }
  return shape;
}

Movement random_window(Random& random, const std::vector<int64_t>& shape, bool grow) {
  Pairs pairs;
  for (int64_t s : shape) {
    bool whole = uniform(random, 0, 1);
    if (grow)
      pairs.emplace_back(whole ? 0 : uniform(random, 0, 3), whole ? 0 : uniform(random, 0, 2));
    else {
      int64_t begin = whole ? 0 : uniform(random, 0, s - 1);
      pairs.emplace_back(begin, whole ? s : uniform(random, begin + 1, s));
    }
  }
  if (grow)
    return {"pad" + pairs_text(pairs), [=](const ShapeTracker& st) { return quern::pad(st, to_mask(pairs)); },
            [=](const Array& a) { return pad(a, pairs); }};
  return {"shrink" + pairs_text(pairs), [=](const ShapeTracker& st) { return quern::shrink(st, to_mask(pairs)); },
          [=](const Array& a) { return shrink(a, pairs); }};
}

}  // namespace

Movement random_movement(Random& random, const std::vector<int64_t>& shape, int64_t most_elements) {
  for (;;) {
    switch (uniform(random, 0, 7)) {
      case 0: {
        std::vector<int> axes(shape.size());
        std::iota(axes.begin(), axes.end(), 0);
        std::shuffle(axes.begin(), axes.end(), random);
        return {"permute" + text(axes), [=](const ShapeTracker& st) { return quern::permute(st, axes); },
                [=](const Array& a) { return permute(a, axes); }};
      }
      case 1: {
        std::vector<int64_t> grown = shape;
        for (int64_t& s : grown)
          if (s == 1) s = uniform(random, 1, 4);
        if (count(grown) > most_elements) break;
        return {"expand" + text(grown), [=](const ShapeTracker& st) { return quern::expand(st, to_shape(grown)); },
                [=](const Array& a) { return expand(a, grown); }};
      }
      case 2: {
        std::vector<int64_t> steps(shape.size());
        for (int64_t& s : steps)
          s = std::array<int64_t, 6>{1, 1, 1, -1, 2, -2}[static_cast<size_t>(uniform(random, 0, 5))];
        return {"stride" + text(steps), [=](const ShapeTracker& st) { return quern::stride(st, steps); },
                [=](const Array& a) { return stride(a, steps); }};
      }
      case 3: return random_window(random, shape, false);
      case 4:
        if (count(shape) * 8 > most_elements) break;
        return random_window(random, shape, true);
      default: {
        std::vector<int64_t> to = random_reshape(random, shape);
        return {"reshape" + text(to), [=](const ShapeTracker& st) { return quern::reshape(st, to_shape(to)); },
                [=](const Array& a) { return reshape(a, to); }};
      }
    }
  }
}

Shape to_shape(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }
Mask to_mask(const Pairs& bounds) { return Mask(bounds.begin(), bounds.end()); }

}  // namespace quern::test
