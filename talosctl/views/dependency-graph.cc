#include "talosctl/views/dependency-graph.h"

#include <kj/map.h>

#include "common/wire/resource-registry.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

// Quotes a string of DOT.
kj::String quotedDot(kj::StringPtr text) {
  auto safe = printable(text);
  kj::Vector<char> out;
  out.add('"');
  for (char c : safe) {
    if (c == '"' || c == '\\') out.add('\\');
    out.add(c);
  }
  out.add('"');
  return kj::heapString(out.asPtr());
}

class DependencyGraph {
 public:
  explicit DependencyGraph(kj::ArrayPtr<const GraphResources> resources) : resources(resources) {}

  void add(rpc::ControllerLinks::Reader links) {
    auto name = quotedDot(links.getName());
    lines.add(kj::str("  ", name, " [shape=\"box\"", links.getDaemon() ? ", style=\"rounded\"" : "",
                      "];\n"));
    for (auto input : links.getReads()) {
      auto from = typeNode(input.getNamespace(), input.getType());
      if (input.getId().size() > 0) {
        lines.add(kj::str("  ", from, " -> ", name, " [label=", quotedDot(input.getId()), "];\n"));
      } else {
        lines.add(kj::str("  ", from, " -> ", name, ";\n"));
      }
    }
    for (auto type : links.getWrites()) {
      lines.add(kj::str("  ", name, " -> ", typeNode("", type), " [style=\"bold\"];\n"));
    }
  }

  kj::String finish() {
    return kj::str("digraph {\n", kj::strArray(types, ""), kj::strArray(lines, ""), "}\n");
  }

 private:
  kj::ArrayPtr<const GraphResources> resources;
  Registry registry;
  kj::HashSet<kj::String> known;
  kj::Vector<kj::String> types, lines;

  // Returns the node of a type, and declares it the first time.
  kj::String typeNode(kj::StringPtr ns, kj::StringPtr type) {
    kj::StringPtr space = ns;
    KJ_IF_MAYBE (found, registry.byName(type)) {
      if (space.size() == 0) space = found->defaultNamespace;
    }
    auto node = quotedDot(kj::str(space, ":", type));
    if (known.contains(node)) return node;
    known.insert(kj::str(node));
    auto look = "shape=\"note\", style=\"filled\", fillcolor=\"azure2\""_kj;
    for (auto& listed : resources) {
      if (listed.type != type) continue;
      types.add(kj::str("  subgraph ", quotedDot(kj::str("cluster_", space, ":", type)), " {\n    ",
                        node, " [", look, "];\n"));
      for (auto& id : listed.ids) {
        types.add(kj::str("    ", quotedDot(kj::str(space, ":", type, "/", id)),
                          " [label=", quotedDot(id), ", ", look, "];\n"));
      }
      types.add(kj::str("  }\n"));
      return node;
    }
    types.add(kj::str("  ", node, " [", look, "];\n"));
    return node;
  }
};

}  // namespace

bool isInGraph(rpc::Machine::DependenciesResults::Reader all, kj::StringPtr type) {
  for (auto links : all.getControllers()) {
    for (auto input : links.getReads()) {
      if (input.getType() == type) return true;
    }
    for (auto written : links.getWrites()) {
      if (written == type) return true;
    }
  }
  return false;
}

kj::String drawDependencies(rpc::Machine::DependenciesResults::Reader all,
                            kj::ArrayPtr<const GraphResources> resources) {
  DependencyGraph graph(resources);
  for (auto links : all.getControllers()) graph.add(links);
  return graph.finish();
}

}  // namespace talos::talosctl
