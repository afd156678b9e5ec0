// From secrets and config to the pods of the Kubernetes control plane.
//
// k8s.RenderSecretsStaticPodController writes the files that the pods read (secret-files.h) and
// then controlplane/SecretStatuses: one for each component, with the version that its pod is
// annotated with, and `static-pods`, which says that all are there, with the highest of them. So a
// component is not started anew for what another one reads. A version rises when something changed
// that the component reads at its start only, and goes on over reboots (kept-versions.h). It is
// told after the files are there.
//
// k8s.ControlPlaneStaticPodController renders controlplane/StaticPods (static-pods.h), one for each
// component whose config and secrets are there.
//
// After a crash at any line both come to the same end.
#pragma once

#include "machined/config/controllers/controller-parts.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/kubernetes/static-pods.h"

namespace talos::machined {

constexpr kj::StringPtr kStaticPodsId = "static-pods"_kj;

class RenderSecretsController final : public Controller {
 public:
  struct Dependencies {
    // Runs what blocks where it holds up nobody.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    KeptVersions& kept;
    kj::StringPtr folder = kKubernetesSecretsFolder;
    unsigned (*ownerOf)(Component) = uidOf;
  };
  explicit RenderSecretsController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "k8s.RenderSecretsStaticPodController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;

  kj::Promise<void> render(Store& store, kj::Vector<SecretFile> list);
};

class StaticPodController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<config::Config::Reader>(Store&)>;
  explicit StaticPodController(ReadConfig readConfig) : readConfig(kj::mv(readConfig)) {}

  kj::StringPtr name() const override { return "k8s.ControlPlaneStaticPodController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
};

}  // namespace talos::machined
