// config.K8sControlPlaneController: publishes config/KubernetesControlPlaneConfigs, the settings of
// each part of the Kubernetes control plane in the machine config, with defaults.
//
//   kube-apiserver, kube-controller-manager, kube-scheduler
//                     the settings of the static pods (static-pods.h) and the files that they read
//                     (component-files.h); none of a component that machine.controlPlane disables
//   system-manifests  the inputs of the manifests of the system
//   extra-manifests   other manifests, by URL or by content
//
// They exist on machines of type init and controlplane only. Equal configs give equal records:
// arguments are sorted. The versions of the first three, with which their pods are annotated,
// continue after a reboot (kept-versions.h). An image whose release is not certain is logged, once.
#pragma once

#include <capnp/message.h>

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kApiServerId = "kube-apiserver"_kj;
constexpr kj::StringPtr kControllerManagerId = "kube-controller-manager"_kj;
constexpr kj::StringPtr kSchedulerId = "kube-scheduler"_kj;
constexpr kj::StringPtr kSystemManifestsId = "system-manifests"_kj;
constexpr kj::StringPtr kExtraManifestsId = "extra-manifests"_kj;

// Returns true if workloads may run on control-plane nodes.
bool takesWorkloads(config::Cluster::Reader cluster);

// Returns the assumptions about images, for the operator.
kj::Vector<kj::String> planControlPlane(config::Config::Reader config,
                                        Outputs<rpc::ControlPlaneConfigSpec>& outputs);

// A component of the control plane that this node runs, and its record in canonical form: the pod
// is restarted when the record changes.
struct ControlPlanePart {
  kj::String name;
  kj::Array<kj::byte> content;
};
// Returns none for a worker.
kj::Vector<ControlPlanePart> controlPlaneParts(config::Config::Reader config);

class ControlPlaneConfigController final : public Controller {
 public:
  struct Dependencies {
    kj::Function<kj::Maybe<config::Config::Reader>(Store&)> readConfig;
    KeptVersions& kept;
    kj::Function<void(kj::StringPtr)> warn;  // warns the operator
  };
  explicit ControlPlaneConfigController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "config.K8sControlPlaneController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;
  kj::String lastLogged;

  void logWarnings(kj::Vector<kj::String> warnings);
};

}  // namespace talos::machined
