#include "common/config/kubernetes/cluster-networks.h"

#include "common/base/fill-list.h"
#include "common/config/kubernetes/endpoint.h"

namespace talos::config {
namespace {

struct DefaultNetworks {
  kj::StringPtr pods, services;
};
constexpr DefaultNetworks kOfIpv4 = {"10.244.0.0/16"_kj, "10.96.0.0/12"_kj};
constexpr DefaultNetworks kOfIpv6 = {"fc00:db8:10::/56"_kj, "fc00:db8:20::/112"_kj};

const DefaultNetworks& defaultsOf(Cluster::Reader cluster) {
  auto endpoint = parseEndpoint(clusterEndpoint(cluster));
  return endpoint.value.host.findFirst(':') == nullptr ? kOfIpv4 : kOfIpv6;
}

kj::Vector<kj::String> listOr(capnp::List<capnp::Text>::Reader list, kj::StringPtr otherwise) {
  return list.size() > 0 ? textsOf(list) : kj::arr(kj::str(otherwise));
}

}  // namespace

kj::String clusterEndpoint(Cluster::Reader cluster) {
  return kj::str(cluster.getControlPlane().getEndpoint());
}

kj::String clusterName(Cluster::Reader cluster) {
  return kj::str(cluster.getClusterName());
}

kj::String dnsDomain(Cluster::Reader cluster) {
  auto domain = cluster.getNetwork().getDnsDomain();
  return kj::str(domain.size() > 0 ? kj::StringPtr(domain) : "cluster.local"_kj);
}

kj::Vector<kj::String> podSubnets(Cluster::Reader cluster) {
  return listOr(cluster.getNetwork().getPodSubnets(), defaultsOf(cluster).pods);
}

kj::Vector<kj::String> serviceSubnets(Cluster::Reader cluster) {
  return listOr(cluster.getNetwork().getServiceSubnets(), defaultsOf(cluster).services);
}

kj::Vector<kj::String> serviceAddresses(Cluster::Reader cluster, unsigned number) {
  kj::Vector<kj::String> result;
  for (auto& subnet : serviceSubnets(cluster)) {
    KJ_IF_MAYBE (prefix, Prefix::parse(subnet)) {  // others were refused with the config
      auto address = prefix->masked().address;
      auto bytes = kj::heapArray(address.bytes());
      // A network has room for it by the config's checks: nothing is carried.
      bytes.back() = static_cast<kj::byte>(bytes.back() + number);
      KJ_IF_MAYBE (found, Ip::fromBytes(bytes)) result.add(found->toString());
    }
  }
  return result;
}

SubnetFilter::SubnetFilter(capnp::List<capnp::Text>::Reader subnets) {
  for (kj::StringPtr text : subnets) {
    bool excludes = text.startsWith("!");
    KJ_IF_MAYBE (subnet, Prefix::parse(excludes ? text.slice(1) : text)) {
      (excludes ? excluded : included).add(subnet->masked());
    }
  }
}

bool SubnetFilter::selects(const Ip& address, bool ofPods) const {
  auto isIn = [&](const kj::Vector<Prefix>& subnets) {
    for (auto& subnet : subnets) {
      if (subnet.contains(address)) return true;
    }
    return false;
  };
  if (isIn(excluded)) return false;
  return included.empty() ? !ofPods : isIn(included);
}

kj::String SubnetFilter::describe() const {
  auto text =
      included.empty() ? kj::str("of this node") : kj::str("in ", kj::strArray(included, " or "));
  if (excluded.empty()) return text;
  return kj::str(text, " that is not in ", kj::strArray(excluded, " or "));
}

kj::Maybe<Prefix> destinationOf(Route::Reader route) {
  if (route.getNetwork().size() > 0) {
    KJ_IF_MAYBE (network, Prefix::parse(route.getNetwork())) return network->masked();
  } else if (route.getType() == RouteType::UNICAST) {
    KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) return Prefix::all(gateway->family());
  }
  return nullptr;
}

}  // namespace talos::config
