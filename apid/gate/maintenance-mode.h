// Maintenance mode: while a node has no config, clients without a certificate are admitted.
#pragma once

#include "apid/gate/local-node.h"
#include "apid/identity/node-identity.h"
#include "common/wire/budget.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

class MaintenanceMode {
 public:
  // Returns true if the node has no config, as far as this process knows.
  virtual bool active() = 0;
  // Resolves when the connections of anonymous clients must be closed.
  virtual kj::Promise<void> ended() = 0;
  // Returns this node's Node for each request of an anonymous client, charged to its account.
  virtual NodeOfRequest node(kj::Own<Budget::Account> account) = 0;

 protected:
  ~MaintenanceMode() noexcept(false) = default;
};

// Maintenance mode of this node, which ends with the certificates of the identity. The arguments
// outlive it.
class NodeMaintenance final : public MaintenanceMode {
 public:
  NodeMaintenance(NodeIdentity& identity, kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                  kj::StringPtr machinedSocket)
      : identity(identity), lowLevel(lowLevel), timer(timer), machinedSocket(machinedSocket) {}

  bool active() override { return identity.inMaintenance(); }
  kj::Promise<void> ended() override;
  NodeOfRequest node(kj::Own<Budget::Account> account) override;

 private:
  NodeIdentity& identity;
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  kj::StringPtr machinedSocket;
};

}  // namespace talos::apid
