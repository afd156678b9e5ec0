#include "kubed/nodes/superseded-node-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/kube/node-proof.h"
#include "kubed/nodes/join-approver.h"

namespace talos::kubed {
namespace {

constexpr auto kRemovalPause = 10 * kj::SECONDS;

// Returns nullptr if the request proves nothing.
kj::Maybe<kube::ProvenNode> proofIn(const kube::Json& request, kj::StringPtr machineCa,
                                    kj::Date now) {
  kj::Maybe<kube::ProvenNode> proof;
  auto failure =
      kj::runCatchingExceptions([&] { proof = kube::proveNode(request, machineCa, now); });
  if (failure != nullptr) return nullptr;
  return proof;
}

}  // namespace

// Copies, because the observed objects change while a removal runs.
struct NodeRemoval {
  kj::String node, uid, version, successor;
  kj::Vector<kj::String> addresses;
  bool proven;  // control planes need no certificate of trustd
};

kj::Promise<void> SupersededNodeReconciler::run() {
  return WatchReconciler::run().exclusiveJoin(removeAgainAndAgain());
}

kj::Promise<kj::Maybe<WatchReconciler::Selection>> SupersededNodeReconciler::select() {
  kubernetes = nullptr;
  all.clear();
  auto client = deps.adapter.client();
  KJ_IF_MAYBE (found, client.tryGet<kj::Own<SharedKube>>()) {
    kubernetes = kj::addRef(**found);
    return kj::Maybe<Selection>(Selection{.kubernetes = kj::mv(*found),
                                          .resource = kube::coreResource("nodes", "Node", false)});
  }
  return kj::Maybe<Selection>(nullptr);
}

void SupersededNodeReconciler::take(const kube::Json& node, bool deleted) {
  auto record = recordOf(node);
  all.erase(record.name);
  if (deleted) return;
  auto name = kj::str(record.name);
  all.insert(kj::mv(name), kj::mv(record));
}

kj::Promise<void> SupersededNodeReconciler::publish() {
  observed.raise();
  return kj::READY_NOW;
}

kj::Promise<void> SupersededNodeReconciler::failed(kj::String error) {
  all.clear();
  if (logged != error) {
    log::warn("cannot watch nodes for those that have another name now; retrying",
              {{"error", error}});
  }
  logged = kj::mv(error);
  return kj::READY_NOW;
}

kj::Promise<void> SupersededNodeReconciler::removeAgainAndAgain() {
  for (;;) {
    auto change = observed.next();
    kj::String error;
    co_await removeSuperseded().catch_([&](kj::Exception&& e) { error = messageOf(e); });
    if (error.size() > 0 && error != refused) {
      log::warn("cannot remove the Node object of an earlier name; retrying", {{"error", error}});
    }
    refused = kj::mv(error);
    auto pause = deps.timer.afterDelay(kRemovalPause);
    // A server that refuses is not called again with each change.
    if (refused.size() == 0) pause = pause.exclusiveJoin(kj::mv(change));
    co_await pause;
  }
}

kj::Vector<NodeRemoval> SupersededNodeReconciler::removals(kj::StringPtr local) {
  kj::Vector<const NodeRecord*> nodes;
  for (auto& entry : all) nodes.add(&entry.value);
  kj::Vector<NodeRemoval> result;
  for (auto& found : supersededNodes(nodes, local, deps.clock.now())) {
    NodeRemoval removal{.node = kj::str(found.node.name),
                        .uid = kj::str(found.node.uid),
                        .version = kj::str(found.node.version),
                        .successor = kj::str(found.successor.name),
                        .addresses = {},
                        .proven = found.node.controlPlane};
    for (auto& address : found.node.addresses) removal.addresses.add(kj::str(address));
    result.add(kj::mv(removal));
  }
  return result;
}

kj::Promise<void> SupersededNodeReconciler::findProofs(SharedKube& client,
                                                       kj::ArrayPtr<NodeRemoval> removals) {
  bool all = true;
  for (auto& one : removals) all = all && one.proven;
  if (all) co_return;
  auto machineCa = deps.adapter.machineCa();
  auto now = deps.clock.now();
  auto fields = kubeletRequests();
  co_await (*client)
      .visit(kube::certificateRequests(), "", {.labels = "", .fields = fields},
             [&](const kube::Json& request) {
               KJ_IF_MAYBE (shown, proofIn(request, machineCa, now)) {
                 for (auto& one : removals) {
                   bool same = one.successor == shown->name &&
                               haveAddressInCommon(one.addresses, shown->addresses);
                   one.proven = one.proven || same;
                 }
               }
             })
      .ignoreResult();
}

kj::Promise<void> SupersededNodeReconciler::removeSuperseded() {
  auto wanted = deps.adapter.node();
  kj::String local;
  KJ_IF_MAYBE (spec, wanted) local = kj::str(spec->getNodename());
  if (kubernetes.get() == nullptr || local.size() == 0) co_return;
  auto client = kj::addRef(*kubernetes);
  auto found = removals(local);
  co_await findProofs(*client, found);
  kj::String unproven;
  for (auto& one : found) {
    if (!one.proven) {
      unproven = kj::str(one.successor, " has not shown an address of ", one.node,
                         " to trustd; delete the Node object of ", one.node, " if it is ",
                         one.successor, " now");
      continue;
    }
    bool removed = false;
    co_await (**client)
        .remove(kube::coreResource("nodes", "Node", false), "", one.node,
                kube::Version{one.uid, one.version})
        .then([&](bool found) { removed = found; },
              [&](kj::Exception&& e) {
                // It has changed: the watch brings it again.
                if (kindOf(e) != ErrorKind::kConflict) kj::throwFatalException(kj::mv(e));
              });
    if (removed) {
      log::info("removed the Node object of a machine that has another name now",
                {{"node", one.node}, {"successor", one.successor}});
    }
  }
  if (unproven.size() > 0) fail(ErrorKind::kFailedPrecondition, unproven);
}

}  // namespace talos::kubed
