#include "machined/kubed/node-keeper.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "machined/kubed/manifest-creation.h"

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
        for (;;) co_await watch(*kubernetes, nodename);
      }
      co_await tell(false, kj::str("waiting for the name of the node"));
    }
  }
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

kj::Promise<void> NodeKeeper::watch(SharedKube& kubernetes, kj::StringPtr nodename) {
  auto field = kj::str("metadata.name=", nodename);
  kube::ListOptions only{.labels = "", .fields = field};
  auto listed = co_await (*kubernetes).list(nodeResource(), "", only);
  if (listed.items.empty()) {
    fail(ErrorKind::kNotFound, kj::str("waiting until the kubelet has registered ", nodename));
  }
  co_await adjust(kubernetes, listed.items[0]);
  loop.works();
  auto watch = co_await (*kubernetes).watch(nodeResource(), "", only, listed.version);
  for (;;) {
    auto event = co_await watch->next();
    if (event == nullptr) co_return;
    auto& one = KJ_ASSERT_NONNULL(event);
    if (one.type == kube::WatchEvent::Type::kDeleted) co_return;
    if (one.type != kube::WatchEvent::Type::kBookmark) co_await adjust(kubernetes, one.object);
  }
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
    co_await tell(true, kj::str());
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
