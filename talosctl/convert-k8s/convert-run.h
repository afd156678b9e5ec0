// Hands a control plane that bootkube made, which runs in the cluster itself, over to the nodes,
// which run theirs as static pods.
//
// Nothing has changed for Kubernetes until the key `initialized` is removed: before that, configs
// are patched, pod-checkpointer is deleted, and two questions are asked. The cluster holds the only
// state, and every step may be repeated, so a run that ended at any line continues when it is
// started again: what the configs have already is kept, what is deleted already is passed over, and
// once the key is gone the run begins behind it. Every wait has a limit.
#pragma once

#include "common/kube/kube-client.h"
#include "talosctl/convert-k8s/convert-objects.h"
#include "talosctl/upgrade-k8s/await-state.h"

namespace talos::talosctl {

struct ConvertedNode {
  bool persists = true;               // machine.persist
  pki::CertificateAndKey aggregator;  // empty: its config has none
};

// The control-plane nodes, each by its address. Rejections as of awaitState().
class ConvertibleNodes {
 public:
  virtual ~ConvertibleNodes() noexcept(false) = default;
  // None: the node does not know.
  virtual kj::Promise<kj::Maybe<bool>> selfHosted(kj::StringPtr node) = 0;
  // FailedPrecondition, also of patch(): the node does not show that it is of the control plane.
  virtual kj::Promise<ConvertedNode> read(kj::StringPtr node) = 0;
  // Without a reboot. A rehearsal changes nothing.
  virtual kj::Promise<void> patch(kj::StringPtr node, kj::StringPtr patch, bool rehearsal) = 0;
  virtual kj::Promise<size_t> staticPods(kj::StringPtr node) = 0;
  virtual kj::Promise<size_t> manifests(kj::StringPtr node) = 0;
  // False: it was not there.
  virtual kj::Promise<bool> removeInitializedKey(kj::StringPtr node) = 0;
};

// Limits of the waits. A container that failed for some minutes, as that of an API server whose
// port is in use, is started again after 5 minutes at most.
constexpr auto kListLimit = 3 * kj::MINUTES, kGeneratedLimit = 3 * kj::MINUTES,
               kCheckpointsLimit = 7 * kj::MINUTES, kDeletionLimit = 1 * kj::MINUTES,
               kPresentLimit = 3 * kj::MINUTES, kReadyLimit = 6 * kj::MINUTES;
constexpr auto kCheckpointsInterval = 20 * kj::SECONDS, kShortInterval = 250 * kj::MILLISECONDS;

class ConvertRun {
 public:
  // A line of the user, without its end; none: there are no more.
  using Answer = kj::Function<kj::Promise<kj::Maybe<kj::String>>()>;

  // All outlive it.
  ConvertRun(kj::Timer& timer, kube::KubeClient& kubernetes, ConvertibleNodes& nodes,
             UpgradeLines& lines, Answer answer)
      : timer(timer), kubernetes(kubernetes), nodes(nodes), lines(lines), answer(kj::mv(answer)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ConvertRun);

  // `force`: asks nothing.
  kj::Promise<void> run(bool force);

 private:
  kj::Timer& timer;
  kube::KubeClient& kubernetes;
  ConvertibleNodes& nodes;
  UpgradeLines& lines;
  Answer answer;
  kj::Vector<kj::String> masters;  // addresses

  kj::Promise<void> await(kj::String what, AwaitTimes times,
                          kj::Function<kj::Promise<kj::String>()> attempt);
  kj::Promise<void> findMasters();
  kj::Promise<bool> selfHosted();
  kj::Promise<kube::Json> object(const kube::Resource& resource, kj::StringPtr name);
  kj::Promise<TakenControlPlane> gather();
  kj::Promise<pki::CertificateAndKey> aggregator();
  kj::Promise<void> patchConfigs();
  kj::Promise<void> awaitGenerated();
  kj::Promise<void> confirm(kj::StringPtr question, bool force);
  kj::Promise<void> disableCheckpointer();
  kj::Promise<kj::String> activeCheckpoints();
  kj::Promise<void> removeKey();
  kj::Promise<kj::Vector<kube::Json>> podsOf(kj::StringPtr part);
  kj::Promise<kj::Maybe<bool>> onHostNetwork(kj::StringPtr part);
  kj::Promise<bool> hasOldPods(kj::StringPtr part);
  kj::Promise<void> awaitStaticPods(kj::StringPtr part, bool ready);
  kj::Promise<void> removeDaemonSet(kj::StringPtr name);
  kj::Promise<void> replace(kj::StringPtr part);
};

}  // namespace talos::talosctl
