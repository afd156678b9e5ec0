#include "kubed/nodes/superseded-node-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::kubed {
namespace {

constexpr auto kRemovalPause = 10 * kj::SECONDS;

struct Removal {
  kj::String node, uid, version, successor;
};

}  // namespace

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
    // A server that refuses is not asked again with each change.
    if (refused.size() == 0) pause = pause.exclusiveJoin(kj::mv(change));
    co_await pause;
  }
}

kj::Promise<void> SupersededNodeReconciler::removeSuperseded() {
  auto wanted = deps.adapter.node();
  kj::String local;
  KJ_IF_MAYBE (spec, wanted) local = kj::str(spec->getNodename());
  if (kubernetes.get() == nullptr || local.size() == 0) co_return;
  auto client = kj::addRef(*kubernetes);
  kj::Vector<Removal> removals;
  {
    kj::Vector<const NodeRecord*> nodes;
    for (auto& entry : all) nodes.add(&entry.value);
    for (auto& found : supersededNodes(nodes, local, deps.clock.now())) {
      removals.add(Removal{kj::str(found.node.name), kj::str(found.node.uid),
                           kj::str(found.node.version), kj::str(found.successor.name)});
    }
  }
  for (auto& one : removals) {
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
}

}  // namespace talos::kubed
