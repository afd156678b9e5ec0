#include "machined/config/controllers/hosts-controller.h"

#include "common/text/texts.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

kj::String ownAddress(Store& store) {
  KJ_IF_MAYBE (current, store.tryGet<rpc::NodeAddressSpec>("current")) {
    auto addresses = current->getAddresses();
    KJ_IF_MAYBE (known, store.tryGet<rpc::NodeAddressSpec>("default")) {
      for (auto chosen : known->getAddresses()) {
        if (contains(addresses, chosen)) return kj::str(chosen);
      }
    }
    if (addresses.size() > 0) return kj::str(addresses[0]);
  }
  return kj::str();
}

kj::Vector<HostLine> hostLines(config::Machine::Reader machine) {
  kj::Vector<HostLine> lines;
  for (auto entry : machine.getNetwork().getExtraHostEntries()) {
    HostLine line{kj::str(entry.getIp()), {}};
    for (auto alias : entry.getAliases()) line.names.add(kj::str(alias));
    lines.add(kj::mv(line));
  }
  return lines;
}

kj::Array<Controller::Input> HostsController::inputs() const {
  return kj::arr(input<rpc::HostnameSpecSpec>(), input<rpc::NodeAddressSpec>(),
                 input<rpc::MachineConfigSpec>(kMachineConfigId));
}

kj::Promise<void> HostsController::reconcile(Store& store) {
  auto entries = readEntries(store);
  auto address = ownAddress(store);
  // There is one spec, or none before the machine has a name: then the file stays as the boot made
  // it.
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
    auto content = hostsFile(spec.getHostname(), spec.getDomainname(), address, entries);
    if (content == written) continue;
    write(content);
    written = kj::mv(content);
  }
  return kj::READY_NOW;
}

kj::Own<Controller> hostsController(ControllerDependencies& deps) {
  return kj::heap<HostsController>(
      [&config = deps.config](Store& store) {
        return config.tryMachine(store).map(hostLines).orDefault(kj::Vector<HostLine>());
      },
      [](kj::StringPtr content) { writeEtcFile("", "hosts", content); });
}

}  // namespace talos::machined
