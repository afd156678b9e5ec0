// Reads the config of a node, and sends a new config (rpc/configuration.capnp).
#pragma once

#include "rpc/configuration.capnp.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

constexpr kj::StringPtr kConfigId = "v1alpha1"_kj;

// The config with which a node runs. Its text holds secrets: zeroize() it.
struct RunningConfig {
  kj::String document;
  uint64_t version = 0;
};
// Returns the running config. An empty namespace means the namespace of configs.
kj::Promise<RunningConfig> runningConfig(rpc::Node::Client node, kj::StringPtr nameSpace = "",
                                         kj::StringPtr id = kConfigId);

// A request to complete and send. `version`: the version of the config from which the document was
// made; the node refuses the document if it runs another version. 0: any.
using ApplyCall = capnp::Request<rpc::Configuration::ApplyParams, rpc::Configuration::ApplyResults>;
ApplyCall applyCall(rpc::Node::Client node, kj::StringPtr document, uint64_t version,
                    rpc::ApplyMode mode, bool dryRun);

}  // namespace talos::talosctl
