#include "machined/controllers/hosts-controller.h"

#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kHostnames = "HostnameSpecs.net.talos.dev"_kj,
                        kAddresses = "NodeAddresses.net.talos.dev"_kj,
                        kConfigs = "MachineConfigs.config.talos.dev"_kj;

kj::Vector<kj::String> addresses(Store& store, kj::StringPtr id) {
  kj::Vector<kj::String> result;
  KJ_IF_MAYBE (resource, store.tryGet("", kAddresses, id)) {
    for (auto address : resource->getSpec().getAs<rpc::NodeAddressSpec>().getAddresses())
      result.add(kj::str(address));
  }
  return result;
}

// The one that the machine is known by, as long as it has it; "" when it has none.
kj::String ownAddress(Store& store) {
  auto current = addresses(store, "current");
  for (auto& chosen : addresses(store, "default")) {
    for (auto& address : current) {
      if (address == chosen) return kj::mv(address);
    }
  }
  return current.empty() ? kj::str() : kj::mv(current[0]);
}

}  // namespace

kj::ArrayPtr<const Controller::Input> HostsController::inputs() const {
  static const Input kInputs[] = {{"", kHostnames}, {"", kAddresses}, {"", kConfigs, "v1alpha1"}};
  return kInputs;
}

kj::Promise<void> HostsController::reconcile(Store& store) {
  auto entries = readEntries(store);
  auto address = ownAddress(store);
  // One, or none before anybody named the machine: then the file stays as the boot made it.
  for (auto resource : store.list("", kHostnames)) {
    auto spec = resource.getSpec().getAs<rpc::HostnameSpecSpec>();
    auto content = hostsFile(spec.getHostname(), spec.getDomainname(), address, entries);
    if (content == written) continue;
    write(content);
    written = kj::mv(content);
  }
  return kj::READY_NOW;
}

}  // namespace talos::machined
