#include "machined/kubernetes/static-pod-files.h"

#include <kj/debug.h>
#include <stdio.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "machined/kubernetes/control-plane-pods.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kPrefix = "talos-"_kj, kSuffix = ".yaml"_kj;
constexpr kj::StringPtr kControlPlaneStatus = "control-plane"_kj, kKubeletService = "kubelet"_kj;
constexpr size_t kMostPodFile = 1u << 20;

kj::Maybe<const StaticPodFile&> findFile(kj::ArrayPtr<const StaticPodFile> files,
                                         kj::StringPtr name) {
  for (auto& file : files) {
    if (file.name == name) return file;
  }
  return nullptr;
}

// Returns the existing files of this controller; a file that is too large counts as changed.
kj::Vector<StaticPodFile> readPodFiles(kj::StringPtr folder) {
  kj::Vector<StaticPodFile> result;
  for (auto& name : namesIn(folder)) {
    if (!name.startsWith(kPrefix)) continue;
    kj::String content;
    kj::runCatchingExceptions([&] {
      KJ_IF_MAYBE (text, tryReadFile(kj::str(folder, "/", name), kMostPodFile)) {
        content = kj::mv(*text);
      }
    });
    result.add(StaticPodFile{kj::str(name), kj::mv(content)});
  }
  return result;
}

void renameInto(kj::StringPtr folder, const StaticPodFile& file) {
  makeDirectories(folder, 0755);
  auto beside = kj::str(folder, ".", file.name);
  auto path = kj::str(folder, "/", file.name);
  writeFileAtomically(beside, file.content, 0600);
  KJ_SYSCALL(rename(beside.cStr(), path.cStr()), path);
  syncFolder(folder);
}

// Returns the line for the log.
kj::String removeFrom(kj::StringPtr folder, kj::StringPtr name) {
  auto path = kj::str(folder, "/", name);
  removeTree(path);
  syncFolder(folder);
  return kj::str("removed static pod \"", path, "\"");
}

bool isManifestsFolderDisabled(Store& store) {
  for (auto spec : store.list<rpc::KubeletSpecSpec>()) {
    if (spec.getStaticPodPath() == kSystemManifestsFolder) return true;
  }
  return false;
}

kj::Vector<StaticPodFile> wantedFiles(Store& store) {
  kj::Vector<StaticPodFile> result;
  for (auto pod : store.list<rpc::StaticPodSpec>()) {
    if (pod.metadata().getPhase() != rpc::Metadata::Phase::RUNNING) continue;
    result.add(StaticPodFile{kj::str(kPrefix, pod.id(), kSuffix), kj::str(pod.getPod()),
                             isOfControlPlane(pod.id())});
  }
  return result;
}

StaticPodGates gatesOf(Store& store) {
  StaticPodGates gates;
  KJ_IF_MAYBE (status, store.tryGet<rpc::SecretStatusSpec>(kStaticPodsId)) {
    gates.secretsReady = status->getReady();
  }
  KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kKubeletService)) {
    gates.kubeletRuns = service->getRunning();
  }
  KJ_IF_MAYBE (status, store.tryGet<rpc::BootstrapStatusSpec>(kControlPlaneStatus)) {
    gates.selfHosted = status->getSelfHostedControlPlane();
  }
  return gates;
}

bool hasStatus(Store& store, kj::StringPtr definition) {
  for (auto name : store.list<rpc::NodenameSpec>()) {
    auto id = kj::str("kube-system/", definition, "-", name.getNodename());
    if (store.tryGet<rpc::StaticPodStatusSpec>(id) != nullptr) return true;
  }
  return false;
}

void holdDefinitions(Store& store) {
  struct Definition {
    kj::String id;
    bool running;
  };
  // Copies, because a change of finalizers moves the resources. kubed publishes the status of a
  // pod of machine.pods under another id; nothing waits for its end.
  auto all = KJ_MAP(pod, store.list<rpc::StaticPodSpec>()) {
    bool running = pod.metadata().getPhase() == rpc::Metadata::Phase::RUNNING;
    return Definition{kj::str(pod.id()), running};
  };
  for (auto& [id, running] : all) {
    bool there = hasStatus(store, id);
    auto type = typeName<rpc::StaticPodSpec>();
    if (running && there) store.addFinalizer("", type, id, staticPodFinalizer(id));
    if (!running && !there) store.removeFinalizer("", type, id, staticPodFinalizer(id));
  }
}

}  // namespace

kj::String staticPodFinalizer(kj::StringPtr definition) {
  return kj::str("k8s.StaticPodStatus(\"", definition, "\")");
}

StaticPodPlan planStaticPods(const StaticPodGates& gates, kj::ArrayPtr<const StaticPodFile> wanted,
                             kj::ArrayPtr<const StaticPodFile> there) {
  StaticPodPlan plan;
  bool selfHosted = gates.selfHosted.orDefault(false);
  bool none = !gates.secretsReady || selfHosted;
  if (selfHosted)
    plan.skipped =
        "the control plane is self-hosted: no static pods are written; convert it with \"talosctl "
        "convert-k8s\""_kj;
  for (auto& file : there) {
    bool stays = false;
    KJ_IF_MAYBE (pod, findFile(wanted, file.name)) stays = !pod->controlPlane || !none;
    if (!stays) plan.remove.add(kj::str(file.name));
  }
  if (!gates.kubeletRuns) return plan;
  bool ready = !none && gates.selfHosted != nullptr;
  for (auto& file : wanted) {
    if (file.controlPlane && !ready) continue;
    KJ_IF_MAYBE (old, findFile(there, file.name)) {
      if (old->content == file.content) continue;
    }
    plan.write.add(&file);
  }
  return plan;
}

kj::Array<Controller::Input> StaticPodFilesController::inputs() const {
  return kj::arr(heldInput<rpc::StaticPodSpec>(), input<rpc::SecretStatusSpec>(kStaticPodsId),
                 input<rpc::ServiceSpec>(kKubeletService), input<rpc::KubeletSpecSpec>(),
                 input<rpc::BootstrapStatusSpec>(kControlPlaneStatus),
                 input<rpc::StaticPodStatusSpec>(), input<rpc::NodenameSpec>());
}

kj::Promise<void> StaticPodFilesController::reconcile(Store& store) {
  // The thread returns the lines, and continues when this is dropped.
  struct Work : public kj::Refcounted {
    StaticPodGates gates;
    kj::Vector<StaticPodFile> wanted;
    kj::StringPtr folder, unread;  // of static pods
    kj::Vector<kj::String> lines;
    kj::StringPtr skipped = nullptr;
  };
  auto done = kj::refcounted<Work>();
  done->gates = gatesOf(store);
  done->wanted = wantedFiles(store);
  bool disabled = isManifestsFolderDisabled(store);
  done->folder = disabled ? deps.systemFolder : deps.folder;
  done->unread = disabled ? deps.folder : deps.systemFolder;
  kj::Maybe<kj::Exception> failure;
  co_await deps
      .blocking([held = kj::addRef(*done)]() mutable {
        auto& work = *held;
        auto folder = work.folder;
        auto there = readPodFiles(folder);
        auto plan = planStaticPods(work.gates, work.wanted, there);
        work.skipped = plan.skipped;
        for (auto file : plan.write) {
          work.lines.add(kj::str("writing static pod \"", folder, "/", file->name, "\""));
          renameInto(folder, *file);
        }
        for (auto& name : plan.remove) work.lines.add(removeFrom(folder, name));
        for (auto& file : readPodFiles(work.unread)) {
          work.lines.add(removeFrom(work.unread, file.name));
        }
      })
      .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  for (auto& line : done->lines) deps.report(name(), line);
  if (done->skipped != nullptr && skipped == nullptr) deps.report(name(), done->skipped);
  skipped = done->skipped;
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  holdDefinitions(store);
}

}  // namespace talos::machined
