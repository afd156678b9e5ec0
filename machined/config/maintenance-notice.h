// What the console of a node in maintenance mode shows: its addresses, the fingerprint of its
// certificate, and the command to type (spec boot-and-services.md §5.7, talosctl.md §6.1).
#pragma once

#include "machined/resources/store.h"

namespace talos::machined {

// Lines, each with its newline. `addresses` are those that somebody else can reach; there may be
// none.
kj::String maintenanceNotice(kj::ArrayPtr<const kj::String> addresses, kj::StringPtr fingerprint);

// Says it when the certificate is there and networkd has told the addresses, and again when either
// is another one.
class MaintenanceNotice {
 public:
  // `waiting`: whether the machine accepts a config from anybody, as the text says.
  MaintenanceNotice(Store& store, kj::Function<bool()> waiting,
                    kj::Function<void(kj::StringPtr)> say);
  KJ_DISALLOW_COPY_AND_MOVE(MaintenanceNotice);

 private:
  Store& store;
  kj::Function<bool()> waiting;
  kj::Function<void(kj::StringPtr)> say;
  kj::String said;
  kj::Own<void> certificates, addresses;

  void look();
};

}  // namespace talos::machined
