#include "lower/vectors.h"

namespace quern {

UOp whole_vector(std::span<const UOp> each) {
  UOp from = each[0].is(Op::Gep) ? each[0].src(0) : UOp();
  bool whole = from && from.dtype().lanes() == static_cast<int>(each.size());
  for (size_t i = 0; i < each.size() && whole; ++i)
    whole = each[i].is(Op::Gep) && each[i].src(0) == from &&
            *std::get<const Lanes*>(each[i].arg()) == Lanes{static_cast<int32_t>(i)};
  return whole ? from : each[0].graph().vectorize(each);
}

UOp zero_of(Graph& graph, DType dtype) { return graph.constant(dtype.scalar_type(), 0).broadcast(dtype.lanes()); }

}  // namespace quern
