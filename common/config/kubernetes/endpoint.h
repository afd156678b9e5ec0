// URLs of the Kubernetes API and of registries: scheme, host and port (RFC 3986 §3).
#pragma once

#include <kj/string.h>

#include "rpc/config.capnp.h"

namespace talos::config {

constexpr uint16_t kApiServerPort = 6443;
// Returns the port of the API server on a control-plane node.
uint16_t localApiServerPort(Cluster::Reader cluster);

// A URL of the Kubernetes API.
struct Endpoint {
  kj::String scheme, host;  // host without brackets
  kj::Maybe<uint16_t> port;
};
struct EndpointResult {
  Endpoint value;
  kj::String problem;  // empty if the value is valid
};
EndpointResult parseEndpoint(kj::StringPtr url);

}  // namespace talos::config
