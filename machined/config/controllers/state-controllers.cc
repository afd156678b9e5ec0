#include "machined/config/controllers/state-controllers.h"

#include <kj/map.h>
#include <kj/refcount.h>

#include "common/base/date.h"
#include "common/base/fill-list.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {

// The states, shared with the listener, which the ring of events keeps longer than the controller
// lives.
struct ServiceController::States : public kj::Refcounted {
  kj::TreeMap<kj::String, rpc::ServiceState> byId;  // the id of the service
  kj::Maybe<kj::Function<void()>> wake;

  void record(rpc::Event::Reader event) {
    if (!event.isService()) return;
    auto service = event.getService();
    byId.upsert(kj::str(service.getService()), service.getState(),
                [](rpc::ServiceState& old, rpc::ServiceState fresh) { old = fresh; });
    KJ_IF_MAYBE (w, wake) {
      (*w)();
    }
  }
};

ServiceController::ServiceController(Events& events, kj::Function<bool(kj::StringPtr)> isUp)
    : states(kj::refcounted<States>()), isUp(kj::mv(isUp)) {
  events.onEvent(
      [states = kj::addRef(*states)](rpc::Event::Reader event) mutable { states->record(event); });
}

ServiceController::~ServiceController() noexcept(false) {
  states->wake = nullptr;
}

kj::Array<kj::StringPtr> ServiceController::outputs() const {
  return typeNames<rpc::ServiceSpec>();
}

bool ServiceController::isStopping(kj::StringPtr id) const {
  KJ_IF_MAYBE (state, states->byId.find(id)) return *state == rpc::ServiceState::STOPPING;
  return false;
}

void ServiceController::wakeBy(kj::Function<void()> wake) {
  states->wake = kj::mv(wake);
}

kj::Promise<void> ServiceController::reconcile(Store& store) {
  Outputs<rpc::ServiceSpec> outputs(name());
  for (auto& entry : states->byId) {
    if (entry.value != rpc::ServiceState::RUNNING && !isStopping(entry.key)) continue;
    auto spec = outputs.add(entry.key);
    spec.setRunning(true);
    spec.setHealthy(isUp(entry.key));
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

namespace {
// A smaller difference comes from reading the two clocks at different moments.
constexpr auto kClocksDiffer = 2 * kj::SECONDS;
}  // namespace

kj::Array<Controller::Input> MachineStatusController::inputs() const {
  return kj::arr(input<rpc::ServiceSpec>());
}
kj::Array<kj::StringPtr> MachineStatusController::outputs() const {
  return typeNames<rpc::MachineStatusSpec>();
}

kj::Promise<void> MachineStatusController::reconcile(Store& store) {
  auto now = state();
  kj::Vector<kj::String> problems;
  for (auto& problem : now.problems) problems.add(kj::str(problem));
  for (auto service : store.list<rpc::ServiceSpec>()) {
    if (service.getHealthy() || isStopping(service.id())) continue;
    problems.add(kj::str("service ", service.id(), " is not healthy"));
  }
  Outputs<rpc::MachineStatusSpec> outputs(name());
  auto spec = outputs.add("machine");
  spec.setStage(now.stage);
  spec.setReady(now.stage == "running" && problems.empty());
  fillTexts(spec.initProblems(problems.size()), problems);
  KJ_IF_MAYBE (at, now.revertsAt) {
    auto known = shown.orDefault(*at);
    auto apart = *at > known ? *at - known : known - *at;
    if (apart > kClocksDiffer) known = *at;
    shown = known;
    spec.setRevertsAt(dateText(known));
  } else {
    shown = nullptr;
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

// etcd.LocalMemberController: publishes this node's member of etcd, as long as its etcd is healthy,
// for clients that read EtcdMembers/local.
namespace {

constexpr kj::StringPtr kEtcdId = "etcd"_kj;
constexpr size_t kDigits = 16;

class LocalEtcdMemberController final : public Controller {
 public:
  kj::StringPtr name() const override { return "etcd.LocalMemberController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::EtcdStatusSpec>(kEtcdId), input<rpc::ServiceSpec>(kEtcdId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::LocalEtcdMemberSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::LocalEtcdMemberSpec> outputs(name());
    KJ_IF_MAYBE (status, store.tryGet<rpc::EtcdStatusSpec>(kEtcdId)) {
      kj::StringPtr member = status->getMember();
      if (member.size() > 0 && member.size() <= kDigits && isHealthy(store)) {
        auto zeros = kj::repeat('0', kDigits - member.size());
        outputs.add("local").setMemberId(kj::str(zeros, member));
      }
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  static bool isHealthy(Store& store) {
    KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kEtcdId)) return service->getHealthy();
    return false;
  }
};

}  // namespace

kj::Own<Controller> localEtcdMemberController(ControllerDependencies&) {
  return kj::heap<LocalEtcdMemberController>();
}

}  // namespace talos::machined
