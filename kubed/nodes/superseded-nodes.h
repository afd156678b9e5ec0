// Finds the Node objects that machines have left behind under an earlier name: a kubelet registers
// by its name, so a machine with another host name is another node for Kubernetes. Pure.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/kube/json.h"

namespace talos::kubed {

// Longer than a kubelet needs to start again.
constexpr auto kLeftAfter = 1 * kj::MINUTES;

// The fields of a Node object that count here; those that it does not have are empty.
struct NodeRecord {
  kj::String name, uid, version, machineId, systemUuid;
  kj::Vector<kj::String> addresses;  // all internal ones
  bool controlPlane = false, ready = false, deleted = false;
  kj::Maybe<kj::Date> created = nullptr;
  kj::Maybe<kj::Date> readySince = nullptr;  // the last change of the condition Ready
};
NodeRecord recordOf(const kube::Json& node);

// The node has not been Ready for kLeftAfter.
bool isAway(const NodeRecord& node, kj::Date now);
// In any notation.
bool haveAddressInCommon(kj::ArrayPtr<const kj::String> a, kj::ArrayPtr<const kj::String> b);

struct SupersededNode {
  const NodeRecord& node;
  const NodeRecord& successor;
};
// The nodes that are surely earlier names of others. The only newer Node of that machine (machine
// id, UUID of the firmware, kind of node, an address in common) is Ready, and the old one is away.
// A machine without SMBIOS, as a node in a container is, has no UUID; every node has a machine id.
// Never `local`, the name of the node that asks.
kj::Vector<SupersededNode> supersededNodes(kj::ArrayPtr<const NodeRecord* const> nodes,
                                           kj::StringPtr local, kj::Date now);

}  // namespace talos::kubed
