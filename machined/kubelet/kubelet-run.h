// The service `kubelet` on this machine: what it waits for, the files that are written before each
// start, and when it is started anew. What it is started with is in KubeletSpecs and KubeletSecrets
// (kubelet-controller.h).
//
// Before a start: both are there; /etc/kubernetes has kubelet.yaml and bootstrap-kubeconfig, which
// only root can read, the CA, and the folder of the manifests; sources of extraMounts are there. A
// kubeconfig that the kubelet has got for itself and that leads elsewhere (another endpoint, CA or
// name of the node) is removed with its certificate, so that it joins anew. Each file is replaced
// as a whole: after a crash at any line the next start does the rest.
//
// With what the last start was made is in /run, written before it: so a brain that was restarted
// knows whether what runs is what is wanted. If not, it is stopped and started again; its pods go
// on meanwhile. So is one that waits for an image. A start that failed is tried again, after 1 s
// and then after up to a minute.
#pragma once

#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/memory/zeroize.h"
#include "machined/kubelet/kubelet-plan.h"
#include "machined/resources/store.h"
#include "machined/services/failed-start.h"

namespace talos::machined {

constexpr kj::StringPtr kKubeletService = "kubelet"_kj;
constexpr uint16_t kKubeletHealthPort = 10248;

// Below `root`, "" but in tests. Blocking.
void writeKubeletFiles(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                       rpc::KubeletSecretsSpec::Reader secrets);

// Whether a kubeconfig that a kubelet wrote leads to this cluster as this node.
bool leadsHere(kj::StringPtr kubeconfig, kj::StringPtr bootstrapKubeconfig);

// "https://…", of the first cluster in it.
kj::String serverOf(kj::StringPtr kubeconfig);

class KubeletRun {
 public:
  struct Dependencies {
    kj::Timer& timer;
    // Runs what blocks where it holds up nobody.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    Store& store;
    Supervisor& supervisor;
    kj::StringPtr root = "", startedWith = "/run/talos/kubelet.digest"_kj;
  };
  explicit KubeletRun(Dependencies deps)
      : deps(kj::mv(deps)),
        timer(this->deps.timer),
        failedStart(this->deps.supervisor, timer, kKubeletService) {}
  KJ_DISALLOW_COPY_AND_MOVE(KubeletRun);

  // Resolves when the kubelet may be started; what cannot be done is told and tried again.
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note);
  // As it was prepared last. Unavailable when it was not.
  ContainerSpec container();
  // Looks at the store now, and from then on at each change.
  void follow();

 private:
  Dependencies deps;
  kj::Timer& timer;
  FailedStart failedStart;
  Signal changed;
  kj::Own<void> specs, secrets, services;
  // A copy of both.
  class Wanted {
   public:
    Wanted(const rpc::KubeletSpecSpec::Reader& spec,
           const rpc::KubeletSecretsSpec::Reader& secrets) {
      specCopy->setRoot(spec);
      secretsCopy->setRoot(secrets);
      specRoot = specCopy->getRoot<rpc::KubeletSpecSpec>().asReader();
      secretsRoot = secretsCopy->getRoot<rpc::KubeletSecretsSpec>().asReader();
    }
    Wanted clone() const { return Wanted(specRoot, secretsRoot); }
    rpc::KubeletSpecSpec::Reader spec() const { return specRoot; }
    rpc::KubeletSecretsSpec::Reader secrets() const { return secretsRoot; }
    kj::String digest() const { return kubeletDigest(specRoot, secretsRoot); }

   private:
    kj::Own<SecretMessage> specCopy = kj::heap<SecretMessage>(),
                           secretsCopy = kj::heap<SecretMessage>();
    rpc::KubeletSpecSpec::Reader specRoot;
    rpc::KubeletSecretsSpec::Reader secretsRoot;
  };
  kj::Maybe<Wanted> prepared;
  kj::String restarted;  // what was asked to end: a process, or a start with another digest
  kj::Promise<void> watching = nullptr;

  kj::Maybe<Wanted> wanted();
  kj::Promise<Wanted> awaitWanted(kj::Function<void(kj::StringPtr)>& note);
  kj::Promise<void> makeReady(Wanted what);
  kj::Promise<void> watch();
  kj::Maybe<kj::Duration> compare();  // when to look again, if nothing changes before
  void restart(int pid, kj::StringPtr digest);
};

}  // namespace talos::machined
