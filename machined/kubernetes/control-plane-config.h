// config.K8sControlPlaneController: config/KubernetesControlPlaneConfigs, what the machine config
// says of each part of the Kubernetes control plane, with its defaults.
//
//   kube-apiserver, kube-controller-manager, kube-scheduler
//                     how the static pods are run (static-pods.h)
//   system-manifests  what the manifests of the system are made of
//   extra-manifests   others, by URL or by content
//
// On machines of type init and controlplane; elsewhere none. Equal configs give equal records:
// arguments are sorted. The versions of the first three, with which their pods are annotated, go on
// after a reboot where they were (kept-versions.h). An image whose release is not certain is told,
// once.
#pragma once

#include <capnp/message.h>

#include "machined/config/controllers/controller-parts.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {

constexpr kj::StringPtr kApiServerId = "kube-apiserver"_kj;
constexpr kj::StringPtr kControllerManagerId = "kube-controller-manager"_kj;
constexpr kj::StringPtr kSchedulerId = "kube-scheduler"_kj;
constexpr kj::StringPtr kSystemManifestsId = "system-manifests"_kj;
constexpr kj::StringPtr kExtraManifestsId = "extra-manifests"_kj;

// Whether a control-plane node takes workloads as any other does.
bool takesWorkloads(config::Cluster::Reader cluster);

// What was assumed of images.
kj::Vector<kj::String> planControlPlane(config::Config::Reader config,
                                        Outputs<rpc::ControlPlaneConfigSpec>& outputs);

class ControlPlaneConfigController final : public Controller {
 public:
  struct Dependencies {
    kj::Function<kj::Maybe<config::Config::Reader>(Store&)> readConfig;
    KeptVersions& kept;
    kj::Function<void(kj::StringPtr)> warn;  // the operator
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
