// checkControlPlaneStatus (boot, checkControlPlaneStatus): warns if bootkube's control plane is
// still in charge, because static pods and manifests wait until it is converted.
#include "machined/boot/tasks/control-plane-status.h"

#include "common/base/node-messages.h"
#include "common/base/signal.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kControlPlane = "control-plane"_kj, kEtcd = "etcd"_kj;

bool etcdIsUp(Store& store) {
  KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kEtcd)) {
    return service->getRunning() && service->getHealthy();
  }
  return false;
}

}  // namespace

kj::Promise<bool> selfHostedControlPlane(Store& store, kj::Timer& timer) {
  Signal changed;
  auto subscription = store.onChange<rpc::BootstrapStatusSpec>([&changed] { changed.raise(); });
  auto until = timer.now() + kUntilStatusKnown;
  for (;;) {
    KJ_IF_MAYBE (status, store.tryGet<rpc::BootstrapStatusSpec>(kControlPlane)) {
      co_return status->getSelfHostedControlPlane();
    }
    if (!etcdIsUp(store) || timer.now() >= until) co_return false;
    co_await changed.wait().exclusiveJoin(timer.atTime(until));
  }
}

namespace tasks {
namespace {

kj::Promise<void> checkControlPlane(Store& store, kj::Timer& timer, Console& console) {
  if (!co_await selfHostedControlPlane(store, timer)) co_return;
  console.say(kj::str("warning: ", messages::kSelfHosted,
                      ": static pods and manifests wait until \"talosctl convert-k8s\""));
}

}  // namespace

extern const BootTask checkControlPlaneStatus = task<checkControlPlane>("checkControlPlaneStatus");

}  // namespace tasks
}  // namespace talos::machined
