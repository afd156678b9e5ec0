// Details of NoCloud.
#pragma once

#include <kj/string.h>

namespace talos::platforms {

// The seed in a serial number like "ds=nocloud-net;s=http://10.0.0.1/a/;h=node-1".
struct NocloudSeed {
  // A URL ends with a slash; empty if the seed has no server. Any other text is kept as written,
  // for serverProblem().
  kj::String server;
  kj::String hostname, instanceId;
  bool named() const { return server.size() + hostname.size() + instanceId.size() > 0; }
};
NocloudSeed nocloudSeed(kj::StringPtr serial);
// Returns the error of a server that a machine cannot connect to; nullptr if it can, or the seed
// has no server.
kj::Maybe<kj::String> serverProblem(const NocloudSeed& seed);

}  // namespace talos::platforms
