#include "kubed/nodes/static-pod-reconciler.h"

#include "common/kube/json-yaml.h"

namespace talos::kubed {
namespace {

// The kubelet sets it on the mirror of a pod that it has from a file.
constexpr kj::StringPtr kSourceAnnotation = "kubernetes.io/config.source"_kj, kFile = "file"_kj;
constexpr unsigned kStatusIndent = 4;  // as `get` indents the surrounding text

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

kj::String staticPodStatusId(kj::StringPtr definition, kj::StringPtr nodename) {
  return kj::str("kube-system/", definition, "-", nodename);
}

// Watches the definitions: a change restarts the watch, which removes a status that must not stay.
StaticPodReconciler::StaticPodReconciler(const KubedDependencies& deps)
    : MirrorReconciler(deps), timer(deps.timer), adapter(deps.adapter) {
  definitions = store.watch<rpc::StaticPodSpec>([&changed = deps.changed] { changed.raise(); });
}

kj::Promise<kj::Maybe<WatchReconciler::Selection>> StaticPodReconciler::select() {
  kj::String nodename;
  KJ_IF_MAYBE (spec, adapter.node()) nodename = kj::str(spec->getNodename());
  auto client = adapter.client();
  KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
    if (nodename.size() > 0) {
      return kj::Maybe<Selection>(Selection{kj::mv(*kubernetes), kube::coreResource("pods", "Pod"),
                                            kj::str("spec.nodeName=", nodename)});
    }
  }
  return kj::Maybe<Selection>(nullptr);
}

void StaticPodReconciler::startList() {
  MirrorReconciler::startList();
  recalled = true;
}

kj::Maybe<StaticPodReconciler::Entry> StaticPodReconciler::entryOf(const kube::Json& pod) {
  return staticPodStatus(pod).map(
      [](StaticPodStatus&& found) { return Entry{kj::mv(found.id), kj::mv(found.status)}; });
}

void StaticPodReconciler::fill(const kube::Json& status, rpc::StaticPodStatusSpec::Builder spec) {
  spec.setStatus(kube::writeYaml(status, kStatusIndent));
}

kj::Promise<void> StaticPodReconciler::failed(kj::String error) {
  controller.failed(kj::str("error refreshing pod status: error fetching pod status: ", error),
                    timer.now());
  return publishUnknown().catch_([](kj::Exception&&) {});
}

// Reads the statuses in the store, after a crash.
kj::Promise<void> StaticPodReconciler::recall() {
  co_await store.visit<rpc::StaticPodStatusSpec>([this](auto one) {
    for (auto& status : kube::readYaml(one.getStatus(), one.id())) {
      known.upsert(kj::str(one.id()), kj::mv(status), [](auto&, auto&&) {});
    }
  });
  recalled = true;
}

kj::Promise<void> StaticPodReconciler::publishUnknown() {
  if (!recalled) co_await recall();
  for (auto& entry : known) setUnknown(entry.value);
  KJ_IF_MAYBE (node, adapter.node()) {
    for (auto definition : definitions) {
      if (definition.metadata().getPhase() == rpc::Metadata::Phase::RUNNING) continue;
      known.erase(staticPodStatusId(definition.id(), node->getNodename()));
    }
  }
  co_await publish();
}

}  // namespace talos::kubed
