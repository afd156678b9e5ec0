// URLs of the Kubernetes API and of registries: scheme, host and port (RFC 3986 §3).
#pragma once

#include <kj/string.h>

#include "rpc/config.capnp.h"

namespace talos::config {

constexpr uint16_t kApiServerPort = 6443;
// Returns the port of the API server on a control-plane node.
uint16_t localApiServerPort(Cluster::Reader cluster);

// Host at which the balancer of a node listens (machine.features.kubePrism).
constexpr kj::StringPtr kBalancerHost = "127.0.0.1"_kj;
constexpr uint16_t kFirstUnprivilegedPort = 1024;
// Returns true if the config enables the balancer, at a port for which kubed needs no privilege: a
// config from before the key acted may have another port.
bool hasBalancer(Config::Reader config);
// Returns the URL at which programs of a node reach the Kubernetes API: that of the balancer if the
// node has it, else the endpoint of the cluster.
kj::String apiServerOfNode(Config::Reader config);

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
