#include "kubed/nodes/member-reconciler.h"

#include "common/base/log.h"
#include "common/kube/node-object.h"

namespace talos::kubed {
namespace {

constexpr size_t kMostAddresses = 16;

}  // namespace

Member memberOf(const kube::Json& node) {
  Member member;
  member.hostname = kj::str(kube::nameOf(node));
  member.controlPlane = kube::isControlPlane(node);
  member.operatingSystem = kj::str(kube::textAt(node, {"status", "nodeInfo", "osImage"}));
  member.addresses = kube::internalAddressesOf(node, kMostAddresses);
  for (auto address : kube::itemsAt(node, {"status", "addresses"})) {
    auto value = kube::textAt(*address, {"address"});
    if (kube::textAt(*address, {"type"}) == "Hostname" && value.size() > 0) {
      member.hostname = kj::str(value);
    }
  }
  return member;
}

kj::Promise<void> MemberKeeper::run() {
  return loop.run([this] { return follow(); },
                  [this](kj::String why) -> kj::Promise<void> {
                    auto& before = told[far ? 1 : 0];
                    if (before != why) {
                      log::warn("cannot tell the nodes of the cluster", {{"error", why}});
                    }
                    before = kj::mv(why);
                    far = !far;
                    return kj::READY_NOW;
                  });
}

kj::Promise<void> MemberKeeper::follow() {
  auto client = far ? world.board.endpointClient() : world.board.client();
  if (client.is<kj::String>()) client = world.board.client();
  KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
    auto nodes = kube::coreResource("nodes", "Node", false);
    WatchLoop::Objects objects{
        .begin = [this] { known.clear(); },
        .take = [this](const kube::Json& node, bool deleted) { take(node, deleted); },
        .publish = [this] { return publish(); },
        .watched =
            [this] {
              for (auto& text : told) text = kj::str();
            }};
    co_await loop.watch(**kubernetes, nodes, {}, objects);
  }
  co_await kj::Promise<void>(kj::NEVER_DONE);
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
