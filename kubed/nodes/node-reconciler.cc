#include "kubed/nodes/node-reconciler.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kNodeStatusId = "node"_kj;
constexpr auto kBetweenPatches = 2 * kj::SECONDS;

kube::Resource nodeResource() {
  return kube::coreResource("nodes", "Node", false);
}

}  // namespace

kj::Promise<void> NodeKeeper::run() {
  return loop.run([this] { return follow(); },
                  [this](kj::String why) {
                    if (told.message != why) {
                      log::warn("the node is not as it is wanted yet; retrying", {{"error", why}});
                    }
                    return tell(false, kj::mv(why));
                  });
}

kj::Promise<void> NodeKeeper::follow() {
  kj::String nodename;
  KJ_IF_MAYBE (wanted, world.board.node()) nodename = kj::str(wanted->getNodename());
  told.nodename = kj::str(nodename);
  auto client = world.board.client();
  KJ_SWITCH_ONEOF(client) {
    KJ_CASE_ONEOF(why, kj::String) {
      co_await tell(false, kj::mv(why));
    }
    KJ_CASE_ONEOF(kubernetes, kj::Own<SharedKube>) {
      if (nodename.size() > 0) {
        co_await watch(*kubernetes, nodename);
      }
      co_await tell(false, kj::str("waiting for the name of the node"));
    }
  }
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

kj::Promise<void> NodeKeeper::watch(SharedKube& kubernetes, kj::StringPtr nodename) {
  auto field = kj::str("metadata.name=", nodename);
  kj::Maybe<kube::Json> node;
  WatchLoop::Objects objects{.begin = [&] { node = nullptr; },
                             .take =
                                 [&](const kube::Json& seen, bool deleted) {
                                   node = nullptr;
                                   if (!deleted) node = seen;
                                 },
                             .publish = [&]() -> kj::Promise<void> {
                               KJ_IF_MAYBE (it, node) return adjust(kubernetes, *it);
                               fail(ErrorKind::kNotFound,
                                    kj::str("waiting until the kubelet has registered ", nodename));
                             },
                             .watched = [] {}};
  co_await loop.watch(kubernetes, nodeResource(), {.labels = "", .fields = field}, objects);
}

kj::Promise<void> NodeKeeper::adjust(SharedKube& kubernetes, const kube::Json& node) {
  auto wanted = world.board.node();
  KJ_IF_MAYBE (spec, wanted) {
    told.state = stateOf(node);
    auto plan = planNode(*spec, node);
    KJ_IF_MAYBE (patch, plan) {
      auto name = kj::str(kube::textAt(node, {"metadata", "name"}));
      co_await (*kubernetes)
          .patch(kube::Patch::kMerge, nodeResource(), "", name, *patch, kFieldManager)
          .ignoreResult();
      log::info("adjusted labels and taints", {{"node", name}});
      // Somebody who wants it otherwise is not answered at once.
      co_await world.timer.afterDelay(kBetweenPatches);
    }
    auto left = leftToOthers(*spec, node);
    bool applied = left.size() == 0;
    co_await tell(applied, kj::mv(left));
  }
}

kj::Promise<void> NodeKeeper::tell(bool applied, kj::String message) {
  told.applied = applied;
  told.message = kj::mv(message);
  if (!applied) told.state.ready = false;
  co_await publish().catch_([](kj::Exception&&) {});  // told with the next change
}

kj::Promise<void> NodeKeeper::publish() {
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::NodeStatusSpec>();
  spec.setNodename(told.nodename);
  spec.setReady(told.state.ready);
  spec.setUnschedulable(told.state.unschedulable);
  spec.setApplied(told.applied);
  spec.setMessage(told.message);
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kNodeStatusId), kj::mv(record));
  return world.store.replaceAll<rpc::NodeStatusSpec>(kj::mv(wanted));
}

}  // namespace talos::kubed
