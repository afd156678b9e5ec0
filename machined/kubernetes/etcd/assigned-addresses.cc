#include "machined/kubernetes/etcd/assigned-addresses.h"

#include "common/text/texts.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

// Links of pods: those of the usual network plugins, of kube-proxy, and of the node itself for
// pods.
constexpr kj::StringPtr kPodLinks[] = {"cni"_kj,    "flannel"_kj,     "veth"_kj,   "kube-"_kj,
                                       "cali"_kj,   "tunl"_kj,        "cilium"_kj, "lxc"_kj,
                                       "docker"_kj, "vxlan.calico"_kj};

bool isOfPods(kj::StringPtr link) {
  for (auto prefix : kPodLinks) {
    if (link.startsWith(prefix)) return true;
  }
  return false;
}

}  // namespace

kj::String withoutLength(kj::StringPtr address) {
  KJ_IF_MAYBE (slash, address.findFirst('/')) return kj::heapString(address.slice(0, *slash));
  return kj::str(address);
}

kj::Vector<kj::String> currentAddresses(Store& store) {
  kj::Vector<kj::String> current, all;
  KJ_IF_MAYBE (known, store.tryGet<rpc::NodeAddressSpec>("current")) {
    for (auto address : known->getAddresses()) current.add(withoutLength(address));
  }
  // The default address stays in the record after the node has lost it.
  KJ_IF_MAYBE (known, store.tryGet<rpc::NodeAddressSpec>("default")) {
    for (auto chosen : known->getAddresses()) {
      auto address = withoutLength(chosen);
      if (contains(current, address)) addOnce(all, kj::mv(address));
    }
  }
  for (auto& address : current) addOnce(all, kj::mv(address));
  return all;
}

AssignedAddresses assignedAddresses(Store& store) {
  AssignedAddresses found;
  for (auto address : store.list<rpc::AddressStatusSpec>()) {
    auto link = address.getLinkName();
    kj::String kind;
    KJ_IF_MAYBE (status, store.tryGet<rpc::LinkStatusSpec>(link)) kind = kj::str(status->getKind());
    auto text = withoutLength(address.getAddress());
    if (store.tryGet<rpc::VipSpecSpec>(text) == nullptr) found.all.add(kj::str(text));
    if (kind == "wireguard") {
      found.tunnels.add(kj::mv(text));
    } else if (isOfPods(link)) {
      found.pods.add(kj::mv(text));
    }
  }
  return found;
}

}  // namespace talos::machined
