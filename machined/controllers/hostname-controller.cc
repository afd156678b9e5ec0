#include "machined/controllers/hostname-controller.h"

#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kType = "HostnameSpecs.net.talos.dev"_kj;

}  // namespace

kj::ArrayPtr<const Controller::Input> HostnameController::inputs() const {
  static const Input kInputs[] = {{"", kType}};
  return kInputs;
}

// There is one spec, or none before anybody named the machine: then it keeps the name that it has.
kj::Promise<void> HostnameController::reconcile(Store& store) {
  for (auto resource : store.list("", kType)) {
    auto spec = resource.getSpec().getAs<rpc::HostnameSpecSpec>();
    if (spec.getHostname() == hostname && spec.getDomainname() == domainname) continue;
    apply(spec.getHostname(), spec.getDomainname());
    hostname = kj::heapString(spec.getHostname());
    domainname = kj::heapString(spec.getDomainname());
  }
  return kj::READY_NOW;
}

}  // namespace talos::machined
