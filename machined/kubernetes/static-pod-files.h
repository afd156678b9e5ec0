// k8s.KubeletStaticPodController: writes the files from which the kubelet runs static pods:
// talos-<component>.yaml of the control plane and talos-<namespace>-<name>.yaml of machine.pods, in
// /etc/kubernetes/manifests. With machine.kubelet.disableManifestsDirectory the kubelet reads
// another folder (KubeletSpecs), and only that folder has the files.
//
// They are written while the service kubelet runs; those of the control plane when the secrets of
// the pods exist and etcd of this node has been healthy once (BootstrapStatuses), so that the pods
// find their inputs. Without the secrets, as after a reboot, the old files are removed, and also
// while an older, self-hosted control plane is in charge. A file is written in another folder and
// renamed into this one, so the kubelet sees a pod whole or not at all, and only if a byte of it
// differs. Files of other names are never touched.
//
// A definition whose pod has a status (StaticPodStatuses, by kubed) is held by a finalizer with the
// status' name. The finalizer is removed when the definition is being torn down and the status is
// gone, so a definition stays as long as its pod. After a crash at any line the next run reaches
// the same result.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/static-pods.h"

namespace talos::machined {

// Inputs and result of a plan. Pure.
struct StaticPodFile {
  kj::String name;  // talos-kube-apiserver.yaml
  kj::String content;
  bool controlPlane = true;  // false: of machine.pods
};
struct StaticPodGates {
  bool secretsReady = false;
  bool kubeletRuns = false;
  kj::Maybe<bool> selfHosted;  // nullptr: not known yet
};
struct StaticPodPlan {
  kj::Vector<kj::String> remove;  // names
  kj::Vector<const StaticPodFile*> write;
  kj::StringPtr skipped = nullptr;  // the reason for writing nothing
};
kj::String staticPodFinalizer(kj::StringPtr definition);
StaticPodPlan planStaticPods(const StaticPodGates& gates, kj::ArrayPtr<const StaticPodFile> wanted,
                             kj::ArrayPtr<const StaticPodFile> there);

class StaticPodFilesController final : public Controller {
 public:
  struct Dependencies {
    // Runs blocking work on the thread pool.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    // Writes a line to the log of controllers.
    kj::Function<void(kj::StringPtr controller, kj::StringPtr message)> report;
    kj::StringPtr folder = kManifestsFolder, systemFolder = kSystemManifestsFolder;
  };
  explicit StaticPodFilesController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "k8s.KubeletStaticPodController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;
  kj::StringPtr skipped = nullptr;  // the last reported reason
};

}  // namespace talos::machined
