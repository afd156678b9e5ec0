#include "apid/gate/maintenance-mode.h"

#include "apid/gate/gate.h"

namespace talos::apid {
namespace {

// How long connections of anonymous clients stay open after maintenance mode: until then their
// calls fail with the cause.
constexpr auto kNotice = 2 * kj::SECONDS;

}  // namespace

kj::Promise<void> NodeMaintenance::ended() {
  return identity.maintenanceEnded().then([this] { return timer.afterDelay(kNotice); });
}

NodeOfRequest NodeMaintenance::node(kj::Own<Budget::Account> account) {
  return maintenanceNode(lowLevel, timer, machinedSocket, kj::mv(account));
}

}  // namespace talos::apid
