// The state of a node's upgrade, as the node reports it.
#pragma once

#include "rpc/machine-resources.capnp.h"
#include "rpc/node.capnp.h"

namespace talos::talosctl {

using UpgradeAnswer = capnp::Response<rpc::Resources::GetResults>;
inline rpc::UpgradeStatusSpec::Reader upgradeStatusOf(const UpgradeAnswer& answer) {
  return answer.getResource().getSpec().getAs<rpc::UpgradeStatusSpec>();
}
// Returns the progress of the node's fetch; empty if no fetch is under way, or if the node does not
// report it.
inline kj::String fetchProgress(rpc::UpgradeStatusSpec::Reader status) {
  return status.getStage() == "fetching" ? kj::str(status.getReason()) : kj::String();
}

inline kj::Promise<UpgradeAnswer> askUpgradeStatus(rpc::Node::Client node) {
  auto get = node.resourcesRequest().send().getResources().getRequest();
  get.initKind().setType("UpgradeStatuses.runtime.talos.dev");
  get.setId("node");
  return get.send();
}

}  // namespace talos::talosctl
