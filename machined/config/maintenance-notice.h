// Prints the addresses of a node in maintenance mode, the fingerprint of its certificate, and the
// command that applies a config, on its console.
#pragma once

#include "machined/resources/store.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

// Returns the machine's addresses without prefix lengths, and without those that only the machine
// itself or its link can reach.
kj::Vector<kj::String> reachableAddresses(rpc::NodeAddressSpec::Reader spec);

// Returns the command that gives a config to a node without one.
kj::String applyCommand(kj::StringPtr address, kj::StringPtr fingerprint);

// Returns lines, each with its newline. `addresses` are those that other machines can reach; may be
// empty.
kj::String maintenanceNotice(kj::ArrayPtr<const kj::String> addresses, kj::StringPtr fingerprint);

// Prints when the certificate exists and networkd has published the addresses, and again when
// either changes.
class MaintenanceNotice {
 public:
  // `waiting` returns true while the machine accepts a config from anybody.
  MaintenanceNotice(Store& store, kj::Function<bool()> waiting,
                    kj::Function<void(kj::StringPtr)> say);
  KJ_DISALLOW_COPY_AND_MOVE(MaintenanceNotice);

 private:
  Store& store;
  kj::Function<bool()> waiting;
  kj::Function<void(kj::StringPtr)> say;
  kj::String lastPrinted;
  kj::Own<void> certificates, addresses;

  void print();
};

}  // namespace talos::machined
