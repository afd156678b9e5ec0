// The controllers of this machine, and what each of them is connected to.
#include "machined/brain/wiring.h"
#include "machined/config/controllers/service-controller.h"
#include "machined/config/controllers/time-status-controller.h"
#include "machined/config/network/hostname-controller.h"
#include "machined/config/network/network-events.h"
#include "machined/disk/volumes/disk-controllers.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/control-plane-pods.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/etcd-secrets.h"
#include "machined/kubernetes/kubelet/kubelet-controller.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/kubernetes/manifests/manifest-controller.h"
#include "machined/kubernetes/manifests/node-spec-controller.h"
#include "machined/kubernetes/static-pod-files.h"

namespace talos::machined {

void Wiring::addControllers() {
  addTo(controllers, controllerParts);
  controllers.add(etcdConfigController(controllerParts));
  controllers.add(etcdSecretsController(controllerParts));
  controllers.add(kubeletController(controllerParts));
  addKubernetesControllers();
  controllers.add(manifestController(controllerParts));
  controllers.add(nodeSpecController(controllerParts));
  addStateControllers();
}

void Wiring::addKubernetesControllers() {
  auto blocking = [this]() {
    return [this](kj::Function<void()> work) { return uv.blocking(kj::mv(work)); };
  };
  controllers.add(kj::heap<ControlPlaneConfigController>(ControlPlaneConfigController::Dependencies{
      .readConfig = KJ_BIND_METHOD(configReader, tryConfig),
      .kept = keptVersions,
      .warn = [this](kj::StringPtr problem) { controllerParts.warn(problem); }}));
  controllers.add(kj::heap<KubernetesController>(
      KubernetesController::Dependencies{.uv = uv,
                                         .timer = timer,
                                         .clock = clock,
                                         .readConfig = KJ_BIND_METHOD(configReader, tryConfig),
                                         .isMounted = [this]() { return state.isMounted(); }}));
  controllers.add(kj::heap<RenderSecretsController>(
      RenderSecretsController::Dependencies{.blocking = blocking(), .kept = keptVersions}));
  controllers.add(kj::heap<StaticPodController>(KJ_BIND_METHOD(configReader, tryConfig)));
  controllers.add(kj::heap<StaticPodFilesController>(StaticPodFilesController::Dependencies{
      .blocking = blocking(), .tell = [this](kj::StringPtr controller, kj::StringPtr message) {
        auto line = kj::str(controllerLogLine(clock.now(), controller, message), "\n");
        logs.append(kControllerLog, line);
      }}));
}

ControllerParts Wiring::partsOfControllers() {
  return {arguments,
          uv,
          timer,
          clock,
          configReader,
          sysctls,
          [this](kj::StringPtr problem) { console.say(kj::str("warning: ", problem)); },
          KJ_BIND_METHOD(config, tellsAnybody)};
}

// Those that tell how the machine is.
void Wiring::addStateControllers() {
  auto services = kj::heap<ServiceController>(events, KJ_BIND_METHOD(supervisor, isUp));
  auto isStopping = KJ_BIND_METHOD(*services, isStopping);
  controllers.add(kj::mv(services));
  controllers.add(kj::heap<HostnameController>(applyHostname));
  controllers.add(repairController());
  if (!container) {
    controllers.add(discoveredVolumesOf(io.unixEventPort, timer, volumes));
    controllers.add(mountStatusOf(io.unixEventPort, timer, uv));
    controllers.add(installImageController());
  }
  controllers.add(timeController());
  controllers.add(
      kj::heap<MachineStatusController>(KJ_BIND_METHOD(*this, machineState), kj::mv(isStopping)));
}

kj::Own<Controller> Wiring::repairController() {
  return kj::heap<NetworkEventController>(
      toldRepairs.take([](rpc::HeldCount::Reader in) { return in.getNumber(); }).orDefault(0),
      [this](uint64_t number) {
        return toldRepairs.hold([&](rpc::HeldCount::Builder out) { out.setNumber(number); });
      },
      KJ_BIND_METHOD(announcements, networkRepaired));
}

kj::Own<Controller> Wiring::timeController() {
  TimeStatusController::Dependencies deps;
  deps.container = mode == Mode::kContainer;
  deps.beforeConfig = arguments.first("talos.config").orDefault("").startsWith("https://");
  deps.readConfig = KJ_BIND_METHOD(configReader, view);
  deps.keepTime = KJ_BIND_METHOD(time, keepTime);
  deps.leaveAlone = KJ_BIND_METHOD(time, leaveAlone);
  deps.seen = [this]() {
    auto& s = time.state();
    kj::String offset;
    KJ_IF_MAYBE (o, s.offset) offset = ntp::showOffset(*o);
    return TimeStatusController::Seen{s.steps, kj::str(s.server), kj::mv(offset),
                                      kj::str(s.problem)};
  };
  return kj::heap<TimeStatusController>(kj::mv(deps));
}

MachineStatusController::State Wiring::machineState() {
  MachineStatusController::State state;
  state.stage = kj::str(nameOf(status.stage()));
  for (auto& problem : status.problems()) state.problems.add(kj::str(problem));
  for (auto& problem : status.failing()) state.problems.add(kj::str(problem));
  state.revertsAt =
      config.revertsIn().map([this](kj::Duration left) { return clock.now() + left; });
  return state;
}

}  // namespace talos::machined
