#include "machined/brain/kubernetes-assembly.h"

#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/control-plane-pods.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/etcd-secrets.h"
#include "machined/kubernetes/kubelet/kubelet-controller.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/kubernetes/manifests/manifest-controller.h"
#include "machined/kubernetes/manifests/node-spec-controller.h"
#include "machined/kubernetes/seccomp-profiles.h"
#include "machined/kubernetes/static-pod-files.h"
#include "machined/logs/controller-lines.h"

namespace talos::machined {

rpc::EtcdSupervisor::Client KubernetesAssembly::etcdSupervisor() {
  return reconnecting(*core.io.lowLevelProvider, core.timer, kj::str(kEtcdSupervisorSocket))
      .castAs<rpc::EtcdSupervisor>();
}

EtcdRun::Dependencies KubernetesAssembly::etcdDependencies() {
  return {.timer = core.timer,
          .blocking = core.blocking(),
          .store = core.store,
          .supervisor = services.supervisor,
          .unpack =
              [this](auto spec, kj::StringPtr snapshot, kj::StringPtr folder) {
                return unpackSnapshot(core.io, spec, snapshot, folder);
              },
          .membership = etcdSupervisor()};
}

NodeDrain::Dependencies KubernetesAssembly::drainDependencies() {
  return {.timer = core.timer,
          .store = core.store,
          .readPair =
              [this]() {
                return core.uv.blocking([]() -> kj::Maybe<pki::Pem> {
                  KJ_IF_MAYBE (text, tryReadFile(kKubeletClientPair)) {
                    return pki::Pem(kj::mv(*text));
                  }
                  return nullptr;
                });
              },
          .report =
              [this](kj::StringPtr line) {
                core.announcements.drain(line);
                drainChanged(line);
              }};
}

EtcdDeparture::Dependencies KubernetesAssembly::departureDependencies() {
  return {.timer = core.timer,
          .runsEtcd =
              [this]() {
                return core.configReader.tryConfig(core.store).map(runsEtcd).orDefault(false);
              },
          .supervisor = etcdSupervisor(),
          .print = core.printAlarms()};
}

KubeletRun::Dependencies KubernetesAssembly::kubeletDependencies() {
  // The controller of Kubernetes' other certificates warns of the same argument.
  auto silent = [](kj::StringPtr) {};
  return {.timer = core.timer,
          .clock = core.clock,
          .blocking = core.blocking(),
          .store = core.store,
          .supervisor = services.supervisor,
          .lifetime = certificateLifetime(core.arguments, core.platform, kKubeletLifetime, silent)};
}

void KubernetesAssembly::follow() {
  etcd.follow();
  kubelet.follow();
}

void KubernetesAssembly::addControllers() {
  auto& deps = configs.controllerDeps;
  // Makes a function for each: a kj::Function made from a variable would refer to the variable.
  auto readConfig = [this]() { return KJ_BIND_METHOD(core.configReader, tryConfig); };
  auto add = [this](auto controller) { core.controllers.add(kj::mv(controller)); };
  add(etcdConfigController(deps));
  add(etcdBackupController(deps));
  add(etcdSecretsController(deps));
  add(kubeletController(deps));
  add(kj::heap<ControlPlaneConfigController>(ControlPlaneConfigController::Dependencies{
      .readConfig = readConfig(), .kept = keptVersions, .warn = [&deps](kj::StringPtr problem) {
        deps.warn(problem);
      }}));
  add(kj::heap<KubernetesController>(KubernetesController::Dependencies{
      .uv = core.uv,
      .timer = core.timer,
      .clock = core.clock,
      .readConfig = readConfig(),
      .isMounted = [this]() { return disks.state.isMounted(); },
      .lifetime =
          certificateLifetime(deps.arguments, deps.platform, kKubernetesLifetime, deps.warn)}));
  add(kj::heap<RenderSecretsController>(
      RenderSecretsController::Dependencies{.blocking = core.blocking(), .kept = keptVersions}));
  add(kj::heap<StaticPodController>(readConfig()));
  add(kj::heap<StaticPodFilesController>(StaticPodFilesController::Dependencies{
      .blocking = core.blocking(),
      .report = [this](kj::StringPtr controller, kj::StringPtr message) {
        auto line = kj::str(controllerLogLine(core.clock.now(), controller, message), "\n");
        core.logs.append(kControllerLog, line);
      }}));
  add(kj::heap<SeccompProfilesController>(SeccompProfilesController::Dependencies{
      .blocking = core.blocking(), .readConfig = readConfig()}));
  add(manifestController(deps));
  add(nodeSpecController(deps));
}

}  // namespace talos::machined
