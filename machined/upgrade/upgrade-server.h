// The Upgrades capability (rpc/upgrade.capnp), which passes calls to the Upgrader.
#pragma once

#include "machined/upgrade/upgrader.h"

namespace talos::machined {

rpc::Upgrades::Client serveUpgrades(Upgrader& upgrader, kj::StringPtr bootId);

}  // namespace talos::machined
