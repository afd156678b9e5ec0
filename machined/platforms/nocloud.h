// The particulars of NoCloud.
#pragma once

#include <kj/string.h>

namespace talos::platforms {

// Of a serial number like "ds=nocloud-net;s=http://10.0.0.1/a/;h=node-1".
struct NocloudSeed {
  // A URL has a slash at its end; empty: there is none. Anything else is as it was written, for
  // serverProblem().
  kj::String server;
  kj::String hostname, instanceId;
  bool named() const { return server.size() + hostname.size() + instanceId.size() > 0; }
};
NocloudSeed nocloudSeed(kj::StringPtr serial);
// The error of a server that a machine cannot ask; none: it can, or there is none.
kj::Maybe<kj::String> serverProblem(const NocloudSeed& seed);

}  // namespace talos::platforms
