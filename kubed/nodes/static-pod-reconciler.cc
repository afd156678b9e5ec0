#include "kubed/nodes/static-pod-reconciler.h"

#include "common/base/log.h"
#include "common/kube/json-yaml.h"

namespace talos::kubed {
namespace {

// What the kubelet writes on the mirror of a pod that it has from a file.
constexpr kj::StringPtr kSourceAnnotation = "kubernetes.io/config.source"_kj, kFile = "file"_kj;
constexpr unsigned kStatusIndent = 4;  // as `get` writes what is around it

}  // namespace

kj::Maybe<StaticPodStatus> staticPodStatus(const kube::Json& pod) {
  if (kube::textAt(pod, {"metadata", "annotations", kSourceAnnotation}) != kFile) return nullptr;
  KJ_IF_MAYBE (status, kube::find(pod, {"status"})) {
    return StaticPodStatus{kube::nameOf(pod), *status};
  }
  return nullptr;
}

void setUnknown(kube::Json& status) {
  auto conditions = status.find("conditions");
  if (conditions == status.end() || !conditions->is_array()) return;
  for (auto& condition : *conditions) {
    if (kube::textAt(condition, {"type"}) == "Ready") condition["status"] = "Unknown";
  }
}

kj::Promise<void> StaticPodKeeper::run() {
  return loop.run([this] { return follow(); },
                  [this](kj::String why) {
                    if (told != why) {
                      log::warn("cannot tell how the static pods are", {{"error", why}});
                    }
                    told = kj::mv(why);
                    return publishUnknown().catch_([](kj::Exception&&) {});
                  });
}

kj::Promise<void> StaticPodKeeper::follow() {
  kj::String nodename;
  KJ_IF_MAYBE (wanted, world.board.node()) nodename = kj::str(wanted->getNodename());
  auto client = world.board.client();
  KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
    if (nodename.size() > 0) {
      auto field = kj::str("spec.nodeName=", nodename);
      auto pods = kube::coreResource("pods", "Pod");
      WatchLoop::Objects objects{
          .begin =
              [this] {
                known.clear();
                recalled = true;
              },
          .take = [this](const kube::Json& pod, bool deleted) { take(pod, deleted); },
          .publish = [this] { return publish(); },
          .watched = [this] { told = kj::str(); }};
      co_await loop.watch(**kubernetes, pods, {.labels = "", .fields = field}, objects);
    }
  }
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

void StaticPodKeeper::take(const kube::Json& pod, bool deleted) {
  KJ_IF_MAYBE (found, staticPodStatus(pod)) {
    known.erase(found->id);
    if (!deleted) known.insert(kj::mv(found->id), kj::mv(found->status));
  }
}

// After a crash.
kj::Promise<void> StaticPodKeeper::recall() {
  co_await world.store.visit<rpc::StaticPodStatusSpec>([this](auto one) {
    for (auto& status : kube::readYaml(one.getStatus(), one.id())) {
      known.upsert(kj::str(one.id()), kj::mv(status), [](auto&, auto&&) {});
    }
  });
  recalled = true;
}

kj::Promise<void> StaticPodKeeper::publishUnknown() {
  if (!recalled) co_await recall();
  for (auto& entry : known) setUnknown(entry.value);
  co_await publish();
}

kj::Promise<void> StaticPodKeeper::publish() {
  StoreClient::Wanted wanted;
  for (auto& entry : known) {
    auto record = kj::heap<capnp::MallocMessageBuilder>();
    record->initRoot<rpc::StaticPodStatusSpec>().setStatus(
        kube::writeYaml(entry.value, kStatusIndent));
    wanted.insert(kj::str(entry.key), kj::mv(record));
  }
  return world.store.replaceAll<rpc::StaticPodStatusSpec>(kj::mv(wanted));
}

}  // namespace talos::kubed
