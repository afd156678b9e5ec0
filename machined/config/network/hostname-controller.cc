#include "machined/config/network/hostname-controller.h"

#include "rpc/network-resources.capnp.h"

namespace talos::machined {
kj::Array<Controller::Input> HostnameController::inputs() const {
  return kj::arr(input<rpc::HostnameSpecSpec>());
}

// There is one spec, or none before the machine has a name: then the machine keeps its present
// name.
kj::Promise<void> HostnameController::reconcile(Store& store) {
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
    if (spec.getHostname() == hostname && spec.getDomainname() == domainname) continue;
    apply(spec.getHostname(), spec.getDomainname());
    hostname = kj::heapString(spec.getHostname());
    domainname = kj::heapString(spec.getDomainname());
  }
  return kj::READY_NOW;
}

}  // namespace talos::machined
