#pragma once
#include "ir/node_map.h"
#include "ir/view.h"

namespace quern {

/// For the nodes of an AST, the view their values have: null for those without a shape.
using NodeViews = NodeScratch<const ShapeTracker*>;

/// verify_ast, setting for each node the view its shape comes from: a reduce's is plain, other nodes take their first source's.
void verify_views(UOp ast, NodeViews& views);

}  // namespace quern
