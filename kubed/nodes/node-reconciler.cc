#include "kubed/nodes/node-reconciler.h"

#include <kj/debug.h>
#include <time.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/kube/node-roles.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

// Returns the time by the clock as it is set now; the kubelet uses the same clock.
kj::Date bootTime() {
  struct timespec up;
  KJ_SYSCALL(clock_gettime(CLOCK_BOOTTIME, &up));
  return kj::systemPreciseCalendarClock().now() - up.tv_sec * kj::SECONDS -
         up.tv_nsec * kj::NANOSECONDS;
}

constexpr kj::StringPtr kNodeStatusId = "node"_kj;
constexpr auto kBetweenPatches = 2 * kj::SECONDS;

kj::String messageOfAll(kj::ArrayPtr<const kj::String> notApplied) {
  if (notApplied.size() == 0) return kj::String();
  return kj::str("stored, but not in effect: ",
                 kj::strArray(notApplied, messages::kNextMessage.cStr()));
}

kube::Resource nodeResource() {
  return kube::coreResource("nodes", "Node", false);
}

}  // namespace

kj::Promise<kj::Maybe<WatchReconciler::Selection>> NodeReconciler::select() {
  kubernetes = nullptr;
  kj::String nodename;
  bool unregistered = false;
  KJ_IF_MAYBE (spec, deps.adapter.node()) {
    nodename = kj::str(spec->getNodename());
    unregistered = spec->getUnregistered();
  }
  status.nodename = kj::str(nodename);
  if (unregistered) {
    co_await withdraw();
    co_return nullptr;
  }
  auto client = useEndpoint ? deps.adapter.endpointClient() : deps.adapter.client();
  KJ_SWITCH_ONEOF(client) {
    KJ_CASE_ONEOF(error, kj::String) {
      co_await reportError(kj::mv(error));
    }
    KJ_CASE_ONEOF(found, kj::Own<SharedKube>) {
      if (nodename.size() > 0) {
        kubernetes = kj::addRef(*found);
        co_return Selection{kj::mv(found), nodeResource(), kj::str("metadata.name=", nodename)};
      }
      co_await reportError(kj::str("waiting for the name of the node"));
    }
  }
  co_return nullptr;
}

void NodeReconciler::take(const kube::Json& object, bool deleted) {
  node = nullptr;
  if (!deleted) node = object;
}

kj::Promise<void> NodeReconciler::publish() {
  KJ_IF_MAYBE (object, node) return adjust(*object);
  fail(ErrorKind::kNotFound,
       kj::str("nodes \"", status.nodename, "\"", kube::kNoNodeObject, " yet"));
}

kj::Promise<void> NodeReconciler::failed(kj::String error) {
  controller.failed(error, deps.timer.now());
  if (!answered) useEndpoint = !useEndpoint;
  answered = false;
  return reportError(kj::mv(error));
}

kj::Promise<void> NodeReconciler::adjust(const kube::Json& object) {
  auto wanted = deps.adapter.node();
  KJ_IF_MAYBE (spec, wanted) {
    // `spec` and `object` are valid until the first wait.
    status.state = stateOf(object, bootTime());
    auto plan = planNode(*spec, object);
    auto taints = leftToOthers(*spec, object);
    if (taints.size() > 0) plan.notApplied.add(kj::str("machine.nodeTaints: ", taints));
    for (auto setting : spec->getLeftOut()) plan.notApplied.add(kj::str(setting));
    auto version = spec->version();
    KJ_IF_MAYBE (patch, plan.patch) {
      auto name = kj::str(kube::textAt(object, {"metadata", "name"}));
      co_await (**kubernetes)
          .patch(kube::Patch::kMerge, nodeResource(), "", name, *patch, kFieldManager)
          .ignoreResult();
      controller.info(kj::str("adjusted labels, annotations and taints of nodes \"", name, "\""));
    }
    controller.succeeded();
    status.error = nullptr;
    status.notApplied = kj::mv(plan.notApplied);
    status.specVersion = version;
    co_await report();
    // Bounds the rate if another client keeps undoing the change.
    if (plan.patch != nullptr) co_await deps.timer.afterDelay(kBetweenPatches);
  }
}

kj::Promise<void> NodeReconciler::reportError(kj::String error) {
  status.state.ready = false;
  status.error = kj::mv(error);
  status.notApplied.clear();
  status.specVersion = 0;
  return report();
}

// A node that does not register has no status. It is withdrawn again with the next change if the
// store does not answer.
kj::Promise<void> NodeReconciler::withdraw() {
  return deps.store.replaceAll<rpc::NodeStatusSpec>(StoreClient::Wanted())
      .catch_([](kj::Exception&&) {});
}

// Publishes the status; if it cannot be stored, it is stored with the next change.
kj::Promise<void> NodeReconciler::report() {
  bool compared = status.specVersion > 0;
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::NodeStatusSpec>();
  spec.setNodename(status.nodename);
  spec.setReady(status.state.ready);
  spec.setUnschedulable(status.state.unschedulable);
  spec.setApplied(compared && status.notApplied.empty());
  spec.setMessage(compared ? messageOfAll(status.notApplied) : kj::str(status.error));
  fillTexts(spec.initNotApplied(status.notApplied.size()), status.notApplied);
  spec.setSpecVersion(status.specVersion);
  StoreClient::Wanted records;
  records.insert(kj::str(kNodeStatusId), kj::mv(record));
  return deps.store.replaceAll<rpc::NodeStatusSpec>(kj::mv(records)).catch_([](kj::Exception&&) {});
}

}  // namespace talos::kubed
