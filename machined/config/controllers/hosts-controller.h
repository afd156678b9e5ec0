// network.HostsController: writes /etc/hosts (a link to /system/etc/hosts) from the host name, the
// node's own address and machine.network.extraHostEntries, whenever one of them changes.
#pragma once

#include "machined/resources/controller-runtime.h"
#include "machined/system/etc-files.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

// Returns the address by which the machine is known, as long as the machine has it; "" if it has
// none.
kj::String ownAddress(Store& store);
// Returns machine.network.extraHostEntries.
kj::Vector<HostLine> hostLines(config::Machine::Reader machine);

class HostsController final : public Controller {
 public:
  using ReadEntries = kj::Function<kj::Vector<HostLine>(Store&)>;
  using Write = kj::Function<void(kj::StringPtr content)>;
  HostsController(ReadEntries readEntries, Write write)
      : readEntries(kj::mv(readEntries)), write(kj::mv(write)) {}

  kj::StringPtr name() const override { return "network.HostsController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadEntries readEntries;
  Write write;
  kj::String written;
};

}  // namespace talos::machined
