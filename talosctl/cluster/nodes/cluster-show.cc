#include "talosctl/cluster/nodes/cluster-show.h"

#include "common/text/size.h"
#include "talosctl/cli/table.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

// Formats a number of CPUs: "2.00", "0.50".
kj::String cpusOf(rpc::LocalNode::Reader node) {
  auto milli = isContainer(node) ? node.getMilliCpus() : node.getCpus() * 1000;
  auto hundredths = milli % 1000 / 10;
  return kj::str(milli / 1000, hundredths < 10 ? ".0" : ".", hundredths);
}

}  // namespace

kj::String renderShow(rpc::LocalCluster::Reader cluster) {
  Table facts({"PROVISIONER", cluster.getProvisioner()});
  facts.add("NAME", cluster.getName());
  facts.add("NETWORK NAME", cluster.getNetworkName());
  auto both = [](kj::StringPtr first, kj::StringPtr second) {
    return kj::str(first, second.size() > 0 ? "," : "", second);
  };
  facts.add("NETWORK CIDR", both(cluster.getCidr(), cluster.getCidr6()));
  facts.add("NETWORK GATEWAY", both(cluster.getGateway(), cluster.getGateway6()));
  facts.add("NETWORK MTU", cluster.getMtu());
  if (hasVirtualMachines(cluster)) facts.add("ACCELERATOR", cluster.getAccelerator());
  Table nodes({"NAME", "TYPE", "IP", "CPU", "RAM", "DISK", "ENDPOINT", "PROVISIONER", "STATE"});
  for (auto node : cluster.getNodes()) {
    bool contained = isContainer(node);
    auto state = node.getError().size() > 0 ? kj::str(node.getState(), ": ", node.getError())
                                            : kj::str(node.getState());
    nodes.add(node.getName(), node.getType(), both(node.getAddress(), node.getAddress6()),
              cpusOf(node), decimalSize(node.getMemory()),
              contained ? kj::str("-") : decimalSize(node.getDisk()), node.getEndpoint(),
              contained ? "container" : "qemu", state);
  }
  return kj::str(facts.render(), "\nNODES:\n\n", nodes.render());
}

}  // namespace talos::cluster
