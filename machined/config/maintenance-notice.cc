#include "machined/config/maintenance-notice.h"

#include "common/base/node-layout.h"
#include "common/net/ip.h"
#include "common/tls/pki.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

kj::Vector<kj::String> reachableAddresses(rpc::NodeAddressSpec::Reader spec) {
  kj::Vector<kj::String> result;
  for (kj::StringPtr written : spec.getAddresses()) {
    auto text = kj::heapString(written.slice(0, written.findFirst('/').orDefault(written.size())));
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (!ip->isLoopback() && !ip->isLinkLocal()) result.add(kj::mv(text));
    }
  }
  return result;
}

kj::String applyCommand(kj::StringPtr address, kj::StringPtr fingerprint) {
  return kj::str("talosctl apply-config --insecure --nodes ", address, " --cert-fingerprint '",
                 fingerprint, "' --file controlplane.yaml");
}

kj::String maintenanceNotice(kj::ArrayPtr<const kj::String> addresses, kj::StringPtr fingerprint) {
  kj::Vector<kj::String> lines;
  lines.add(kj::str("this node is waiting for its config, on port ", kApidPort, " of"));
  for (auto& address : addresses) lines.add(kj::str("  ", address));
  if (addresses.size() == 0) {
    lines.add(kj::str("  no address yet; set one with the kernel parameter ip="));
  }
  lines.add(kj::str("the fingerprint of its certificate is ", fingerprint));
  if (addresses.size() > 0) lines.add(kj::str("apply a config with one of"));
  for (auto& address : addresses) {
    lines.add(kj::str("  ", applyCommand(address, fingerprint)));
  }
  return kj::str(kj::strArray(lines, "\n"), "\n");
}

MaintenanceNotice::MaintenanceNotice(Store& store, kj::Function<bool()> waiting,
                                     kj::Function<void(kj::StringPtr)> say)
    : store(store), waiting(kj::mv(waiting)), say(kj::mv(say)), lastPrinted(kj::str()) {
  certificates = store.onChange<rpc::ApiCertificateSpec>([this]() { print(); });
  addresses = store.onChange<rpc::NodeAddressSpec>([this]() { print(); });
}

void MaintenanceNotice::print() {
  KJ_IF_MAYBE (stored, store.tryGet<rpc::ApiCertificateSpec>("api")) {
    if (!stored->getMaintenance() || !waiting()) return;
    KJ_IF_MAYBE (current, store.tryGet<rpc::NodeAddressSpec>("current")) {
      auto notice =
          maintenanceNotice(reachableAddresses(*current),
                            pki::fingerprint(kj::str(stored->getServer().getCrt().asChars())));
      if (notice == lastPrinted) return;
      say(notice);
      lastPrinted = kj::mv(notice);
    }
  }
}

}  // namespace talos::machined
