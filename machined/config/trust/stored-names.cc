#include "machined/config/trust/stored-names.h"

#include "rpc/network-resources.capnp.h"

namespace talos::machined {

kj::Vector<kj::String> storedAddresses(Store& store) {
  kj::Vector<kj::String> result;
  for (auto known : store.list<rpc::NodeAddressSpec>()) {
    for (auto text : known.getAddresses()) {
      auto slash = text.findFirst('/').orDefault(text.size());
      result.add(kj::heapString(text.begin(), slash));
    }
  }
  // An address of the platform's gateway, which forwards to this node.
  for (auto config : store.list<rpc::PlatformConfigSpec>()) {
    for (auto address : config.getExternalIPs()) result.add(kj::str(address));
  }
  return result;
}

NodeNames storedNames(Store& store, kj::ArrayPtr<const kj::String> certSans) {
  kj::StringPtr hostname, domain;
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
    hostname = spec.getHostname();
    domain = spec.getDomainname();
  }
  return nodeNames(hostname, domain, storedAddresses(store), certSans);
}

bool isControlPlaneMember(rpc::MemberSpec::Reader member) {
  return member.getMachineType() == "controlplane";
}

}  // namespace talos::machined
