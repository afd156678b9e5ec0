#include "talosctl/cluster/nodes/cluster-tables.h"

#include "common/text/foreign-text.h"
#include "common/text/size.h"
#include "talosctl/cli/table.h"
#include "talosctl/cluster/nodes/cluster-plan.h"

namespace talos::cluster {
namespace {

kj::StringPtr stateOf(ListedCluster& cluster) {
  if (cluster.message == nullptr) return "unreadable";
  return cluster.running ? "running" : "off";
}

kj::Maybe<rpc::LocalCluster::Reader> readable(ListedCluster& cluster) {
  KJ_IF_MAYBE (message, cluster.message) {
    return (*message)->getRoot<rpc::LocalCluster>().asReader();
  }
  return nullptr;
}

struct ListedNodes {
  unsigned controlPlanes = 0, workers = 0;
  kj::StringPtr endpoint;  // endpoint of the first node
};

ListedNodes nodesOf(rpc::LocalCluster::Reader cluster) {
  ListedNodes nodes;
  for (auto node : cluster.getNodes()) {
    if (nodes.controlPlanes + nodes.workers == 0) nodes.endpoint = node.getEndpoint();
    ++(node.getType() == "join" ? nodes.workers : nodes.controlPlanes);
  }
  return nodes;
}

// A field of an object: a key, and its value as JSON, which is YAML as well.
struct ListedField {
  kj::StringPtr key;
  kj::String value;
};

kj::Vector<ListedField> fieldsOf(ListedCluster& listed) {
  kj::Vector<ListedField> all;
  all.add(ListedField{"name", jsonString(listed.name)});
  all.add(ListedField{"current", kj::str(listed.current)});
  all.add(ListedField{"state", jsonString(stateOf(listed))});
  KJ_IF_MAYBE (cluster, readable(listed)) {
    auto nodes = nodesOf(*cluster);
    all.add(ListedField{"provisioner", jsonString(cluster->getProvisioner())});
    all.add(ListedField{"cidr", jsonString(cluster->getCidr())});
    all.add(ListedField{"controlPlanes", kj::str(nodes.controlPlanes)});
    all.add(ListedField{"workers", kj::str(nodes.workers)});
    all.add(ListedField{"endpoint", jsonString(nodes.endpoint)});
  } else {
    all.add(ListedField{"error", jsonString(listed.error)});
  }
  return all;
}

}  // namespace

kj::String renderList(kj::ArrayPtr<ListedCluster> clusters) {
  Table table(
      {"CURRENT", "NAME", "PROVISIONER", "CIDR", "CONTROL PLANE", "WORKERS", "ENDPOINT", "STATE"});
  for (auto& listed : clusters) {
    auto current = listed.current ? "*" : "";
    KJ_IF_MAYBE (cluster, readable(listed)) {
      auto nodes = nodesOf(*cluster);
      table.add(current, listed.name, cluster->getProvisioner(), cluster->getCidr(),
                nodes.controlPlanes, nodes.workers, nodes.endpoint, stateOf(listed));
    } else {
      table.add(current, listed.name, "", "", "", "", "", stateOf(listed));
    }
  }
  return table.render();
}

kj::String listJson(kj::ArrayPtr<ListedCluster> clusters) {
  auto objects = KJ_MAP(listed, clusters) {
    auto members = KJ_MAP(m, fieldsOf(listed)) {
      return kj::str("\"", m.key, "\": ", m.value);
    };
    return kj::str("    {", kj::strArray(members, ", "), "}");
  };
  if (objects.size() == 0) return kj::str("[]\n");
  return kj::str("[\n", kj::strArray(objects, ",\n"), "\n]\n");
}

kj::String listYaml(kj::ArrayPtr<ListedCluster> clusters) {
  if (clusters.size() == 0) return kj::str("[]\n");
  kj::Vector<kj::String> lines;
  for (auto& listed : clusters) {
    kj::StringPtr indent = "- ";
    for (auto& m : fieldsOf(listed)) {
      lines.add(kj::str(indent, m.key, ": ", m.value, "\n"));
      indent = "  ";
    }
  }
  return kj::strArray(lines, "");
}

namespace {

// Formats a number of CPUs: "2.00", "0.50".
kj::String cpusOf(rpc::LocalNode::Reader node) {
  auto milli = isContainer(node) ? node.getMilliCpus() : node.getCpus() * 1000;
  auto hundredths = milli % 1000 / 10;
  return kj::str(milli / 1000, hundredths < 10 ? ".0" : ".", hundredths);
}

// Returns the table of the metrics; empty if the nodes do not serve them. The certificate of a
// worker names only the worker's address, not its endpoint on this host.
kj::String metricsOf(rpc::LocalCluster::Reader cluster) {
  if (!cluster.getWithMetrics()) return kj::String();
  Table table({"NAME", "URL", "SERVER NAME"});
  for (auto node : cluster.getNodes()) {
    table.add(node.getName(),
              kj::str("https://", node.getEndpoint(), ":", kMetricsPort, "/metrics"),
              node.getAddress());
  }
  return kj::str("\nMETRICS, for clients with a certificate of the talosconfig:\n\n",
                 table.render());
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
  return kj::str(facts.render(), "\nNODES:\n\n", nodes.render(), metricsOf(cluster));
}

}  // namespace talos::cluster
