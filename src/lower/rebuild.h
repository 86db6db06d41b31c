#pragma once
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/node_map.h"

namespace quern {

/// Maps a graph from its leaves up: `step(node, sources, same)` gives the new node for an old one whose sources became `sources`
/// (`same`: none of them changed). Each node is visited once, without recursion; what a step makes is not visited again.
template <class Step>
UOp rebuild(std::span<const UOp> nodes, Step&& step) {
  NodeScratch<UOp> done;
  std::vector<UOp> src;
  for (UOp u : nodes) {
    src.clear();
    bool same = true;
    for (UOp s : u.src()) {
      src.push_back(done.get(s));
      same &= src.back() == s;
    }
    done.set(u, step(u, std::span<const UOp>(src), same));
  }
  return done.get(nodes.back());
}

/// The node itself on its new sources.
inline UOp on_sources(UOp u, std::span<const UOp> src, bool same) { return same ? u : u.with_src(src); }

}  // namespace quern
