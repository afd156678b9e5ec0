// Previews the network changes of a config: networkd plans them for its specs, and changes nothing.
#pragma once

#include <kj/timer.h>

#include "machined/config/configuration-server.h"
#include "machined/config/network/network-controller.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// Throws Unavailable if networkd does not answer within 5 s.
kj::Promise<ConfigurationServer::NetworkPreview> previewNetwork(NetworkSpecs specs,
                                                                rpc::Networkd::Client networkd,
                                                                kj::Timer& timer);

}  // namespace talos::machined
