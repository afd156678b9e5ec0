// Finds the Node objects of machines' former names: a kubelet registers by its name, so a machine
// with another host name is another node for Kubernetes. Pure.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/kube/json.h"

namespace talos::kubed {

// Time that is longer than a kubelet needs to start again.
constexpr auto kLeftAfter = 1 * kj::MINUTES;

// Relevant fields of a Node object; absent ones are empty.
struct NodeRecord {
  kj::String name, uid, version, machineId, systemUuid;
  kj::Vector<kj::String> addresses;  // all internal addresses
  bool controlPlane = false, ready = false, deleted = false;
  kj::Maybe<kj::Date> created = nullptr;
  kj::Maybe<kj::Date> readySince = nullptr;  // last change of the condition Ready
};
NodeRecord recordOf(const kube::Json& node);

// Returns true if the node has not been Ready for kLeftAfter.
bool isAway(const NodeRecord& node, kj::Date now);
// Compares addresses in any notation.
bool haveAddressInCommon(kj::ArrayPtr<const kj::String> a, kj::ArrayPtr<const kj::String> b);

struct SupersededNode {
  const NodeRecord& node;
  const NodeRecord& successor;
};
// Returns the nodes that are certainly former names of others: the only newer Node of the machine
// (machine id, UUID of the firmware, kind of node, an address in common) is Ready, and the old one
// is away. A machine without SMBIOS, such as a node in a container, has no UUID; every node has a
// machine id. Never returns `local`, the name of the calling node.
kj::Vector<SupersededNode> supersededNodes(kj::ArrayPtr<const NodeRecord* const> nodes,
                                           kj::StringPtr local, kj::Date now);

}  // namespace talos::kubed
