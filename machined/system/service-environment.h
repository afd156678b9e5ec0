// machine.env: the environment of the services. Pure. Values may be secrets (a proxy with a
// password): they are in no message. A config that sets a variable which a service has from the
// node (common/base/service-variables.h) gets a warning.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

// Returns KEY=VALUE for one service. apid does not get http_proxy, https_proxy and no_proxy in any
// case: it connects to machines of its cluster only.
kj::Vector<kj::String> serviceEnvironment(kj::StringPtr service, config::Machine::Reader machine);

// Returns the environment that a service is started with: the system's own values win.
kj::Array<kj::String> joinEnvironment(kj::ArrayPtr<const kj::String> own,
                                      kj::ArrayPtr<const kj::String> users);

// Returns true if a process of the service with this environ(5) (entries ended by NUL) has the
// user's values, except for variables that the node sets itself.
bool hasEnvironment(kj::StringPtr service, kj::ArrayPtr<const char> environ,
                    kj::ArrayPtr<const kj::String> users);

}  // namespace talos::machined
