#include "kubed/nodes/superseded-nodes.h"

#include "common/base/date.h"
#include "common/kube/node-object.h"
#include "common/net/ip.h"

namespace talos::kubed {
namespace {

constexpr size_t kMostCompared = 64;

bool isSameMachine(const NodeRecord& a, const NodeRecord& b) {
  return a.machineId.size() > 0 && a.machineId == b.machineId && a.systemUuid == b.systemUuid &&
         a.controlPlane == b.controlPlane && haveAddressInCommon(a.addresses, b.addresses);
}

bool isNewer(const NodeRecord& node, const NodeRecord& other) {
  KJ_IF_MAYBE (created, node.created) {
    KJ_IF_MAYBE (before, other.created) return *created > *before;
  }
  return false;
}

// Returns the only newer Node of this machine; nullptr if there is none, or more than one.
kj::Maybe<const NodeRecord&> successorOf(const NodeRecord& node,
                                         kj::ArrayPtr<const NodeRecord* const> nodes) {
  kj::Maybe<const NodeRecord&> only;
  for (auto* other : nodes) {
    if (!isNewer(*other, node) || !isSameMachine(node, *other)) continue;
    if (only != nullptr) return nullptr;
    only = *other;
  }
  return only;
}

}  // namespace

NodeRecord recordOf(const kube::Json& node) {
  NodeRecord record{.name = kj::str(kube::nameOf(node)),
                    .uid = kj::str(kube::textAt(node, {"metadata", "uid"})),
                    .version = kj::str(kube::textAt(node, {"metadata", "resourceVersion"})),
                    .machineId = kj::str(kube::textAt(node, {"status", "nodeInfo", "machineID"})),
                    .systemUuid = kj::str(kube::textAt(node, {"status", "nodeInfo", "systemUUID"})),
                    .addresses = kube::internalAddressesOf(node, kMostCompared),
                    .controlPlane = kube::isControlPlane(node),
                    .deleted = kube::textAt(node, {"metadata", "deletionTimestamp"}).size() > 0,
                    .created = parseDate(kube::textAt(node, {"metadata", "creationTimestamp"}))};
  record.readySince = record.created;
  for (auto condition : kube::itemsAt(node, {"status", "conditions"})) {
    if (kube::textAt(*condition, {"type"}) != "Ready") continue;
    record.ready = kube::textAt(*condition, {"status"}) == "True";
    record.readySince = parseDate(kube::textAt(*condition, {"lastTransitionTime"}));
  }
  return record;
}

bool isAway(const NodeRecord& node, kj::Date now) {
  KJ_IF_MAYBE (since, node.readySince) return !node.ready && *since + kLeftAfter <= now;
  return false;
}

bool haveAddressInCommon(kj::ArrayPtr<const kj::String> a, kj::ArrayPtr<const kj::String> b) {
  for (auto& one : a) {
    for (auto& other : b) {
      if (isSameHost(one, other)) return true;
    }
  }
  return false;
}

kj::Vector<SupersededNode> supersededNodes(kj::ArrayPtr<const NodeRecord* const> nodes,
                                           kj::StringPtr local, kj::Date now) {
  kj::Vector<SupersededNode> found;
  for (auto* node : nodes) {
    if (node->name == local || node->deleted || !isAway(*node, now)) continue;
    KJ_IF_MAYBE (successor, successorOf(*node, nodes)) {
      if (successor->ready && !successor->deleted) found.add(SupersededNode{*node, *successor});
    }
  }
  return found;
}

}  // namespace talos::kubed
