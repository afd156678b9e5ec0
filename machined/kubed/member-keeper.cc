#include "machined/kubed/member-keeper.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kControlPlaneLabels[] = {"node-role.kubernetes.io/control-plane"_kj,
                                                 "node-role.kubernetes.io/master"_kj};  // 1.19
constexpr size_t kMostAddresses = 16;
constexpr auto kWatchAgain = 500 * kj::MILLISECONDS;  // when the server has ended it

}  // namespace

Member memberOf(const kube::Json& node) {
  Member member;
  member.hostname = kj::str(kube::nameOf(node));
  for (auto label : kControlPlaneLabels) {
    member.controlPlane |= kube::find(node, {"metadata", "labels", label}) != nullptr;
  }
  member.operatingSystem = kj::str(kube::textAt(node, {"status", "nodeInfo", "osImage"}));
  KJ_IF_MAYBE (addresses, kube::find(node, {"status", "addresses"})) {
    if (!addresses->is_array()) return member;
    for (auto& address : *addresses) {
      auto type = kube::textAt(address, {"type"});
      auto value = kube::textAt(address, {"address"});
      if (type == "Hostname" && value.size() > 0) member.hostname = kj::str(value);
      if (type == "InternalIP" && member.addresses.size() < kMostAddresses) {
        member.addresses.add(kj::str(value));
      }
    }
  }
  return member;
}

kj::Promise<void> MemberKeeper::run() {
  for (;;) {
    auto change = world.changed.next().fork();
    kj::Maybe<kj::String> failure;
    auto following = follow().then([] {}, [&](kj::Exception&& e) { failure = messageOf(e); });
    co_await following.exclusiveJoin(change.addBranch());
    KJ_IF_MAYBE (why, failure) {
      auto& before = told[far ? 1 : 0];
      if (before != *why) log::warn("cannot tell the nodes of the cluster", {{"error", *why}});
      before = kj::mv(*why);
      far = !far;
      auto pause = world.timer.afterDelay(backoff.next(world.random()));
      co_await change.addBranch().exclusiveJoin(kj::mv(pause));
    }
  }
}

kj::Promise<void> MemberKeeper::follow() {
  auto client = far ? world.board.endpointClient() : world.board.client();
  if (client.is<kj::String>()) client = world.board.client();
  KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
    for (;;) {
      co_await watch(**kubernetes);
      co_await world.timer.afterDelay(kWatchAgain);
    }
  }
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

kj::Promise<void> MemberKeeper::watch(SharedKube& kubernetes) {
  auto nodes = kube::coreResource("nodes", "Node");
  auto listed = co_await (*kubernetes).list(nodes, "", {});
  known.clear();
  for (auto& node : listed.items) take(node, false);
  co_await publish();
  auto watch = co_await (*kubernetes).watch(nodes, "", {}, listed.version);
  backoff.reset();
  for (auto& text : told) text = kj::str();
  for (;;) {
    auto event = co_await watch->next();
    if (event == nullptr) co_return;
    auto& one = KJ_ASSERT_NONNULL(event);
    if (one.type == kube::WatchEvent::Type::kBookmark) continue;
    take(one.object, one.type == kube::WatchEvent::Type::kDeleted);
    co_await publish();
  }
}

void MemberKeeper::take(const kube::Json& node, bool deleted) {
  auto name = kj::str(kube::nameOf(node));
  known.erase(name);
  if (!deleted) known.insert(kj::mv(name), memberOf(node));
}

kj::Promise<void> MemberKeeper::publish() {
  StoreClient::Wanted wanted;
  for (auto& entry : known) {
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    auto spec = record->initRoot<rpc::MemberSpec>();
    spec.setHostname(entry.value.hostname);
    spec.setMachineType(entry.value.controlPlane ? "controlplane" : "worker");
    spec.setOperatingSystem(entry.value.operatingSystem);
    auto addresses = spec.initAddresses(entry.value.addresses.size());
    for (auto i : kj::indices(entry.value.addresses)) addresses.set(i, entry.value.addresses[i]);
    wanted.insert(kj::str(entry.key), kj::mv(record));
  }
  return world.store.replaceAll<rpc::MemberSpec>(kj::mv(wanted));
}

}  // namespace talos::kubed
