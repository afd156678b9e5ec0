// The particulars of NoCloud.
#pragma once

#include <kj/string.h>

namespace talos::platforms {

// Of a serial number like "ds=nocloud-net;s=http://10.0.0.1/a/;h=node-1".
struct NocloudSeed {
  kj::String server;  // with a slash at its end; empty: there is none
  kj::String hostname, instanceId;
  bool named() const { return server.size() + hostname.size() + instanceId.size() > 0; }
};
NocloudSeed nocloudSeed(kj::StringPtr serial);

}  // namespace talos::platforms
