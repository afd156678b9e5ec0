// machine.env: the environment of the services . Pure. Values may be secrets (a proxy with a
// password): they are in no message.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

// KEY=VALUE for one service. apid is not given http_proxy, https_proxy and no_proxy, however they
// are written: it talks to machines of its cluster only.
kj::Vector<kj::String> serviceEnvironment(kj::StringPtr service, config::Machine::Reader machine);

// The environment that a service is started with: the system's own values win.
kj::Array<kj::String> joinEnvironment(kj::ArrayPtr<const kj::String> own,
                                      kj::ArrayPtr<const kj::String> users);

// True if a process with this environ(5) (entries ended by NUL), of whose variables the system sets
// some, has the user's values.
bool hasEnvironment(kj::ArrayPtr<const char> environ, kj::ArrayPtr<const kj::String> users);

}  // namespace talos::machined
