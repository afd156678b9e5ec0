// interfaces, routes
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using Interfaces = rpc::Network::InterfacesResults;
using Routes = rpc::Network::RoutesResults;

kj::Promise<int> runInterfaces(Invocation& call) {
  return tabulate<Interfaces>(
      call,
      [](rpc::Node::Client node) {
        return node.networkRequest().send().getNetwork().interfacesRequest().send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Interfaces>> replies) {
        return renderInterfaces(replies);
      });
}

kj::Promise<int> runRoutes(Invocation& call) {
  return tabulate<Routes>(
      call,
      [](rpc::Node::Client node) {
        return node.networkRequest().send().getNetwork().routesRequest().send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Routes>> replies) { return renderRoutes(replies); });
}

}  // namespace

kj::String renderInterfaces(kj::ArrayPtr<const Reply<Interfaces>> replies) {
  Table table({"NODE", "INDEX", "NAME", "MAC", "MTU", "ADDRESS"});
  for (auto& r : replies) {
    for (auto i : r.value.getInterfaces()) {
      for (auto address : i.getAddresses()) {
        table.add(r.node, i.getIndex(), i.getName(), i.getHardwareAddress(), i.getMtu(), address);
      }
    }
  }
  return table.render();
}

kj::String renderRoutes(kj::ArrayPtr<const Reply<Routes>> replies) {
  Table table({"NODE", "INTERFACE", "DESTINATION", "GATEWAY", "METRIC"});
  for (auto& r : replies) {
    for (auto route : r.value.getRoutes()) {
      table.add(r.node, route.getInterface(), route.getDestination(), route.getGateway(),
                route.getMetric());
    }
  }
  return table.render();
}

void addNetworkCommands(Command& root) {
  auto& interfaces = root.add("interfaces", "List network interfaces and their addresses");
  addOutputFlag(interfaces);
  addInsecureFlags(interfaces);
  interfaces.run = runInterfaces;

  auto& routes = root.add("routes", "List routes");
  routes.aliases = {"route"};
  addOutputFlag(routes);
  routes.run = runRoutes;
}

}  // namespace talos::talosctl
