// inspect dependencies: the controllers that read and write resources, as a graph (DOT, of
// Graphviz).
#include "common/wire/resource-registry.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/views/dependency-graph.h"

namespace talos::talosctl {

namespace {

using rpc::Machine;
using Listed = rpc::Resources::ListResults;

// Returns the resources of each type that a controller reads or writes and that every role may see,
// by type.
kj::Promise<kj::Vector<GraphResources>> listAll(Session& session, rpc::Node::Client node,
                                                Machine::DependenciesResults::Reader all) {
  Registry registry;
  auto resources = node.resourcesRequest().send().getResources();
  kj::Vector<GraphResources> found;
  for (auto& type : registry.types()) {
    if (type.sensitive || !isInGraph(all, type.name)) continue;
    auto request = resources.listRequest();
    request.initKind().setType(type.name);
    kj::Promise<capnp::Response<Listed>> answer = request.send();
    auto list = co_await within(session.client.deps.timer, session.deadline, kj::mv(answer));
    GraphResources ids{.type = kj::str(type.name), .ids = {}};
    for (auto resource : list.getResources()) ids.ids.add(kj::str(resource.getMetadata().getId()));
    found.add(kj::mv(ids));
  }
  co_return kj::mv(found);
}

kj::Promise<int> runDependencies(Invocation& call) {
  auto session = co_await openSingle(call);
  auto& name = session->client.nodes()[0];
  auto node = session->client.node(name);
  kj::Promise<capnp::Response<Machine::DependenciesResults>> pending =
      node.machineRequest().send().getMachine().dependenciesRequest().send();
  auto answer = co_await within(call.deps.timer, session->deadline, kj::mv(pending));
  auto format = call.text("output");
  if (format == "dot") {
    kj::Vector<GraphResources> resources;
    if (call.on("with-resources")) resources = co_await listAll(*session, node, answer);
    call.out(drawDependencies(answer, resources));
  } else if (format == "json") {
    call.out(jsonAnswer(name, dynamic<Machine::DependenciesResults>(answer)));
  } else {
    call.outBytes(yamlAnswer(name, dynamic<Machine::DependenciesResults>(answer)));
  }
  co_return 0;
}

}  // namespace

void addInspectCommands(Command& root) {
  auto& inspect = root.add("inspect", "Look into the system of one node");
  auto& dependencies = inspect.add("dependencies",
                                   "Print which controllers and daemons read and write which "
                                   "resources, as a graph");
  dependencies.details =
      "The graph is text for Graphviz: talosctl inspect dependencies | dot -Tsvg > graph.svg. A "
      "bold arrow leads from a controller to a type that it writes, a thin one to it from a type "
      "that it reads, with the id if it reads only that resource.";
  dependencies.flag({.name = "with-resources", .help = "show each resource as well"});
  dependencies.flag({.name = "output",
                     .letter = "o",
                     .kind = FlagKind::kText,
                     .fallback = "dot",
                     .help = "output format",
                     .choices = {"dot", "yaml", "json"}});
  dependencies.run = runDependencies;
}

}  // namespace talos::talosctl
