#include "talosctl/cluster/cluster-show.h"

#include "talosctl/cli/table.h"

namespace talos::cluster {

kj::String renderShow(rpc::LocalCluster::Reader cluster) {
  Table facts({"PROVISIONER", cluster.getProvisioner()});
  facts.add("NAME", cluster.getName());
  facts.add("NETWORK NAME", cluster.getNetworkName());
  facts.add("NETWORK CIDR", cluster.getCidr());
  facts.add("NETWORK GATEWAY", cluster.getGateway());
  facts.add("NETWORK MTU", cluster.getMtu());
  facts.add("ACCELERATOR", cluster.getAccelerator());
  Table nodes({"NAME", "TYPE", "IP", "CPU", "RAM", "DISK", "ENDPOINT"});
  for (auto node : cluster.getNodes()) {
    nodes.add(node.getName(), node.getType(), node.getAddress(), kj::str(node.getCpus(), ".00"),
              humanSize(node.getMemory()), humanSize(node.getDisk()), node.getEndpoint());
  }
  return kj::str(facts.render(), "\nNODES:\n\n", nodes.render());
}

}  // namespace talos::cluster
