// The Upgrades capability (rpc/upgrade.capnp): what it does is the Upgrader's.
#pragma once

#include "machined/upgrade/upgrader.h"

namespace talos::machined {

rpc::Upgrades::Client serveUpgrades(Upgrader& upgrader, kj::StringPtr bootId);

}  // namespace talos::machined
