// Renders the static pods of this node: those of the Kubernetes control plane from secrets and
// config, and those of machine.pods.
//
// k8s.RenderSecretsStaticPodController writes the files that the pods read, of secrets and of the
// config (secret-files.h), and then controlplane/SecretStatuses: one for each component, with the
// version that its pod is annotated with, and `static-pods`, which says that all exist, with the
// highest version. So the files of one component do not restart another. A version rises when a
// secret changed that the component reads at its start only, and continues across reboots
// (kept-versions.h). It is published after the files are written, and so is the version of the
// config that the files have.
//
// k8s.ControlPlaneStaticPodController renders controlplane/StaticPods (static-pods.h), one for each
// component whose config and secrets exist, and copies the pods of machine.pods, each with the id
// NAMESPACE-NAME. A pod of another config follows its files, so that one restart is enough: until
// they are written, the previous pod stays.
//
// After a crash at any line both reach the same result.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/kubernetes/static-pods.h"

namespace talos::machined {

constexpr kj::StringPtr kStaticPodsId = "static-pods"_kj;

class RenderSecretsController final : public Controller {
 public:
  struct Dependencies {
    // Runs blocking work on the thread pool.
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

  struct Rendered {
    kj::Array<SecretNames> names;        // by component
    kj::Array<uint64_t> configVersions;  // by component; 0: it has no config
  };
  kj::Promise<void> render(Store& store, kj::Vector<SecretFile> list, Rendered rendered);
};

// Returns true for the id of a component's pod, false for the id of a pod of machine.pods.
bool isOfControlPlane(kj::StringPtr podId);

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
