// Hands a control plane that bootkube created, and that runs in the cluster itself, over to the
// nodes, which run it as static pods.
//
// Until the key `initialized` is removed, nothing changes for Kubernetes: configs are patched,
// pod-checkpointer is deleted, and the user answers two questions. The cluster holds the only
// state, and every step may be repeated. So a run that ended at any point continues when it is
// started again: it keeps the present content of the configs, skips objects that are deleted
// already, and once the key is gone begins after its removal. Every wait has a limit.
#pragma once

#include "common/kube/kube-client.h"
#include "talosctl/convert-k8s/convert-objects.h"
#include "talosctl/rollout/state-waits.h"

namespace talos::talosctl {

struct ConvertedNode {
  bool persists = true;               // machine.persist
  pki::CertificateAndKey aggregator;  // empty: the config has no aggregator CA
};

// The control-plane nodes, called by their addresses. Rejections have the meaning of StateWaits.
class ConvertibleNodes {
 public:
  virtual ~ConvertibleNodes() noexcept(false) = default;
  // Resolves to nullptr if the node does not know.
  virtual kj::Promise<kj::Maybe<bool>> selfHosted(kj::StringPtr node) = 0;
  // Rejects with FailedPrecondition, as patch() does, if the node does not prove that it belongs to
  // the control plane.
  virtual kj::Promise<ConvertedNode> read(kj::StringPtr node) = 0;
  // Applies the patch without a reboot. A rehearsal changes nothing.
  virtual kj::Promise<void> patch(kj::StringPtr node, kj::StringPtr patch, bool rehearsal) = 0;
  // Returns the number of definitions of kConvertedParts.
  virtual kj::Promise<size_t> staticPods(kj::StringPtr node) = 0;
  virtual kj::Promise<size_t> manifests(kj::StringPtr node) = 0;
  // Resolves to false if the key did not exist.
  virtual kj::Promise<bool> removeInitializedKey(kj::StringPtr node) = 0;
};

// Limits of the waits. A container that has failed for some minutes, such as an API server whose
// port is in use, is restarted after 5 minutes at most.
constexpr auto kListLimit = 3 * kj::MINUTES, kGeneratedLimit = 3 * kj::MINUTES,
               kCheckpointsLimit = 7 * kj::MINUTES, kDeletionLimit = 1 * kj::MINUTES,
               kPresentLimit = 3 * kj::MINUTES, kReadyLimit = 6 * kj::MINUTES;
constexpr auto kCheckpointsInterval = 20 * kj::SECONDS, kShortInterval = 250 * kj::MILLISECONDS;

class ConvertRun {
 public:
  // Returns a line of the user, without its line end; nullptr at the end of the input.
  using Answer = kj::Function<kj::Promise<kj::Maybe<kj::String>>()>;

  // All arguments must outlive the run. `clock`: for the times in messages.
  ConvertRun(kj::Timer& timer, const kj::Clock& clock, kube::KubeClient& kubernetes,
             ConvertibleNodes& nodes, RolloutLines& lines, Answer answer)
      : kubernetes(kubernetes),
        nodes(nodes),
        lines(lines),
        waits(timer, clock, lines),
        answer(kj::mv(answer)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ConvertRun);

  // `force`: runs without questions.
  kj::Promise<void> run(bool force);

 private:
  kube::KubeClient& kubernetes;
  ConvertibleNodes& nodes;
  RolloutLines& lines;
  StateWaits waits;
  Answer answer;
  kj::Vector<kj::String> masters;  // their addresses

  kj::Promise<void> findMasters();
  kj::Promise<bool> selfHosted();
  kj::Promise<kube::Json> object(const kube::Resource& resource, kj::StringPtr name);
  kj::Promise<TakenControlPlane> gather();
  kj::Promise<pki::CertificateAndKey> aggregator();
  kj::Promise<void> patchConfigs();
  kj::Promise<void> awaitGenerated();
  kj::Promise<void> confirm(kj::StringPtr question, bool force);
  kj::Promise<void> disableCheckpointer();
  kj::Promise<Missing> activeCheckpoints();
  kj::Promise<void> removeKey();
  kj::Promise<kj::Vector<kube::Json>> podsOf(kj::StringPtr part);
  kj::Promise<kj::Maybe<bool>> onHostNetwork(kj::StringPtr part);
  kj::Promise<bool> hasOldPods(kj::StringPtr part);
  kj::Promise<void> awaitStaticPods(kj::StringPtr part, bool ready);
  kj::Promise<void> removeDaemonSet(kj::StringPtr name);
  kj::Promise<void> replace(kj::StringPtr part);
};

}  // namespace talos::talosctl
