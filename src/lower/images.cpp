// Images: an element's number becomes the coordinates of its texel.
#include <algorithm>

#include "ir/graph.h"
#include "lower/memory.h"
#include "symbolic/simplify.h"

namespace quern {

namespace {

UOp simplified(UOp x) { return graph_rewrite(x, symbolic_flat()); }

UOp with_value(UOp x, UOp from, UOp to) {
  std::pair<UOp, UOp> replacement{from, to};
  return simplified(substitute(x, std::span(&replacement, 1)));
}

/// True if the coordinates are outside the image wherever `clause` fails.
bool is_outside_unless(UOp clause, std::span<const UOp> coordinates, std::span<const int64_t> sizes) {
  auto constraint = parse_constraint(clause);
  if (!constraint) return false;
  UOp x = constraint->expr;
  if (!constraint->upper && constraint->limit == 1) {
    // x0 + x1 + ... >= 1 over non-negative atoms fails only where all of them are 0.
    std::vector<UOp> atoms = split(x, Op::Add);
    if (std::all_of(atoms.begin(), atoms.end(), [](UOp a) { return a.is(kIrreducibleOps) && a.vmin() == 0; })) {
      std::vector<std::pair<UOp, UOp>> zeros;
      for (UOp a : atoms) zeros.emplace_back(a, a.const_like(0));
      for (UOp c : coordinates)
        if (simplified(substitute(c, zeros)).vmax() < 0) return true;
    }
  }
  // The coordinates grow with x: if the first x that fails is outside on that side, so are all beyond it.
  Int128 failing = constraint->upper ? constraint->limit + 1 : constraint->limit - 1;
  UOp first = x.graph().const_int(x.dtype(), failing);
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (!is_increasing(coordinates[i])) continue;
    UOp there = with_value(coordinates[i], x, first);
    if (constraint->upper ? there.vmin() >= sizes[i] : there.vmax() < 0) return true;
  }
  return false;
}

}  // namespace

UOp texel_index(UOp image, UOp idx, UOp gate, bool stores) {
  Graph& graph = image.graph();
  int64_t width = image.dtype().image_width, height = image.dtype().image_height;
  UOp texel = idx.idiv(graph.const_index(4));
  UOp x = simplified(texel.mod(graph.const_index(width))), y = simplified(idx.idiv(graph.const_index(4 * width)));
  if (gate) {
    auto given_x = simplify_given(gate, x), given_y = simplify_given(gate, y);
    if (!given_x || !given_y) return UOp();
    x = *given_x, y = *given_y;
    UOp left;
    std::array<UOp, 2> coordinates = {x, y};
    std::array<int64_t, 2> sizes = {width, height};
    for (UOp clause : split(gate, Op::And))
      if (stores || !is_outside_unless(clause, coordinates, sizes)) left = left ? left & clause : clause;
    gate = left;
  }
  std::array<UOp, 2> coordinates = {x, y};
  UOp at = graph.vectorize(coordinates);
  return gate ? graph.node(Op::Index, image.dtype(), {image, at, gate})
              : graph.node(Op::Index, image.dtype(), {image, at});
}

}  // namespace quern
