#include "machined/kubernetes/kubelet/node-drain.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/kube/kubeconfig.h"
#include "common/memory/secret-buffer.h"
#include "machined/kubernetes/kubelet/kubelet-files.h"
#include "machined/resources/store-records.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kNodeSpecId = "node"_kj;
constexpr kj::StringPtr kDrain = "drain"_kj, kUncordon = "uncordon"_kj;
constexpr kj::StringPtr kDone = "done"_kj, kFailed = "failed"_kj;
// kubed's own limits are 30 s and 5 minutes (kubed/nodes/node-drainer.h).
constexpr auto kDrainEnd = 6 * kj::MINUTES, kAnswerTimeout = 30 * kj::SECONDS,
               kPairLook = 10 * kj::SECONDS,
               kPairRenewal =
                   10 * kj::MINUTES;  // the old pair stays valid for long after a renewal
constexpr size_t kMostNamed = 5;      // pods in a line

// Returns the PEM blocks with `label` in their first line, or all others.
kj::String blocksOf(kj::StringPtr text, kj::StringPtr label, bool with) {
  constexpr kj::StringPtr kBegin = "-----BEGIN "_kj;
  SecretBuffer out;
  bool taken = false;
  for (auto line : Lines(text)) {
    if (line.size() > kBegin.size() && line.slice(0, kBegin.size()) == kBegin.asArray()) {
      auto name = line.slice(kBegin.size(), line.size());
      bool named = name.size() >= label.size() && name.slice(0, label.size()) == label.asArray();
      taken = named == with;
    }
    if (!taken) continue;
    out.add(line);
    out.add("\n"_kj);
  }
  return out.copyText();
}

bool kubeletIsUp(Store& store) {
  KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kKubeletService)) {
    return service->getRunning() && service->getHealthy();
  }
  return false;
}

}  // namespace

kj::Maybe<pki::Pem> kubeconfigOfKubelet(kj::StringPtr server, kj::StringPtr authority,
                                        kj::StringPtr pair, kj::StringPtr tlsName) {
  auto certificate = blocksOf(pair, "CERTIFICATE", true);
  pki::Pem key(blocksOf(pair, "CERTIFICATE", false));
  if (server.size() == 0 || certificate.size() == 0 || key.bytes().size() == 0) return nullptr;
  return kube::writeKubeconfig({.cluster = "local",
                                .server = server,
                                .tlsName = tlsName,
                                .authority = authority,
                                .user = "kubelet",
                                .credentials = kube::ClientPair{certificate, key},
                                .context = "local"});
}

void NodeDrain::follow() {
  requests = deps.store.onChange<rpc::NodeDrainSpec>([this] { changed.raise(); });
  statuses = deps.store.onChange<rpc::NodeDrainStatusSpec>([this] { changed.raise(); });
  services = deps.store.onChange<rpc::ServiceSpec>([this] {
    noteKubelet();
    changed.raise();
  });
  nodes = deps.store.onChange<rpc::NodeSpecSpec>([this] { changed.raise(); });
  uncordon();
  following = putRequest().eagerlyEvaluate(nullptr);
}

kj::Maybe<kj::String> NodeDrain::nodename() const {
  return deps.store.tryGet<rpc::NodenameSpec>(kNodenameId).map([](auto found) {
    return kj::str(found.getNodename());
  });
}

// Returns true if kubed has a certificate for the API server.
kj::Promise<bool> NodeDrain::offerClient() {
  kj::Maybe<pki::Pem> pair;
  co_await deps.readPair().then([&](kj::Maybe<pki::Pem> found) { pair = kj::mv(found); },
                                [this](kj::Exception&& e) {
                                  deps.report(
                                      kj::str("warning: cannot read the certificate of the "
                                              "kubelet: ",
                                              messageOf(e)));
                                });
  kj::Maybe<pki::Pem> kubeconfig;
  KJ_IF_MAYBE (text, pair) {
    KJ_IF_MAYBE (known, deps.store.tryGet<rpc::KubeletSecretsSpec>(kKubeletId)) {
      auto authority = kj::heapString(known->getCa().asChars());
      auto bootstrap = known->getBootstrapKubeconfig();
      kubeconfig = kubeconfigOfKubelet(serverOf(bootstrap), authority, *text, tlsNameOf(bootstrap));
    }
  }
  KJ_IF_MAYBE (text, kubeconfig) {
    putRecord<rpc::KubeletClientSpec>(deps.store, kKubeletId,
                                      [&](auto spec) { spec.setKubeconfig(kj::StringPtr(*text)); });
    co_return true;
  }
  co_return false;
}

// Returns true if Kubernetes has no Node object of this node, so there is nothing to drain.
bool NodeDrain::isUnregistered() {
  KJ_IF_MAYBE (node, deps.store.tryGet<rpc::NodeSpecSpec>(kNodeSpecId)) {
    return node->getUnregistered();
  }
  return false;
}

// Returns true on a worker, where kubed always needs the kubelet's certificate, because it has no
// other.
bool NodeDrain::keepsNode() {
  KJ_IF_MAYBE (node, deps.store.tryGet<rpc::NodeSpecSpec>(kNodeSpecId)) {
    return !node->getControlPlane() && !node->getUnregistered() && kubeletIsUp(deps.store);
  }
  return false;
}

bool NodeDrain::mayUncordon() {
  return uncordons && kubeletIsUp(deps.store) && !isUnregistered();
}

kj::Promise<void> NodeDrain::putRequest() {
  for (;;) {
    auto next = changed.wait();
    settle();
    bool requested = deps.store.tryGet<rpc::NodeDrainSpec>(kNodeDrainId) != nullptr;
    bool waits = requested || mayUncordon();
    if (waits || keepsNode()) {
      bool offered = co_await offerClient();
      if (offered && mayUncordon()) request(kUncordon);
      auto pause = waits || !offered ? kPairLook : kPairRenewal;
      next = next.exclusiveJoin(deps.timer.afterDelay(pause));
    } else {
      dropRecord<rpc::KubeletClientSpec>(deps.store, kKubeletId);
    }
    co_await next;
  }
}

// Removes the request of an uncordoned node.
void NodeDrain::settle() {
  KJ_IF_MAYBE (requested, deps.store.tryGet<rpc::NodeDrainSpec>(kNodeDrainId)) {
    KJ_IF_MAYBE (status, deps.store.tryGet<rpc::NodeDrainStatusSpec>(kNodeDrainId)) {
      if (requested->getAction() == kUncordon && status->getNumber() == requested->getNumber() &&
          status->getState() == kDone) {
        dropRecord<rpc::NodeDrainSpec>(deps.store, kNodeDrainId);
      }
    }
  }
}

uint64_t NodeDrain::request(kj::StringPtr action) {
  uncordons = false;
  uint64_t last = 0;
  KJ_IF_MAYBE (requested, deps.store.tryGet<rpc::NodeDrainSpec>(kNodeDrainId)) {
    last = requested->getNumber();
  }
  KJ_IF_MAYBE (status, deps.store.tryGet<rpc::NodeDrainStatusSpec>(kNodeDrainId)) {
    last = kj::max(last, status->getNumber());
  }
  auto name = nodename().orDefault(kj::String());
  putRecord<rpc::NodeDrainSpec>(deps.store, kNodeDrainId, [&](auto spec) {
    spec.setAction(action);
    spec.setNodename(name);
    spec.setNumber(last + 1);
  });
  return last + 1;
}

void NodeDrain::uncordon() {
  dropRecord<rpc::NodeDrainSpec>(deps.store, kNodeDrainId);
  uncordons = true;
  changed.raise();
}

// Remembers a kubelet that ran, because a service between two starts has no record.
void NodeDrain::noteKubelet() {
  kubeletRan = kubeletRan || deps.store.tryGet<rpc::ServiceSpec>(kKubeletService) != nullptr;
}

kj::Promise<void> NodeDrain::drain() {
  noteKubelet();
  if (!kubeletRan || isUnregistered()) co_return;
  if (nodename() == nullptr || !co_await offerClient()) co_return;
  lastReported = kj::str();
  auto number = request(kDrain);
  auto begun = deps.timer.now();
  for (;;) {
    auto change = changed.next();
    bool answered = false;
    if (tellProgress(number, answered)) co_return;
    auto left = begun + (answered ? kDrainEnd : kAnswerTimeout) - deps.timer.now();
    if (left <= 0 * kj::SECONDS) {
      deps.report(answered ? kj::str("warning: the node is not drained after ",
                                     kDrainEnd / kj::MINUTES, " minutes; shutting down anyway")
                           : kj::str("warning: the node is not drained: kubed does not answer"));
      co_return;
    }
    co_await change.exclusiveJoin(deps.timer.afterDelay(left));
  }
}

// Returns true if the drain has ended.
bool NodeDrain::tellProgress(uint64_t number, bool& answered) {
  KJ_IF_MAYBE (status, deps.store.tryGet<rpc::NodeDrainStatusSpec>(kNodeDrainId)) {
    if (status->getNumber() != number) return false;
    answered = true;
    kj::StringPtr state = status->getState();
    auto pods = status->getPods();
    kj::Vector<kj::StringPtr> named;
    for (auto pod : pods) {
      if (named.size() < kMostNamed) named.add(pod);
    }
    auto rest = pods.size() > named.size() ? kj::str(", …") : kj::String();
    auto line = kj::str(
        state == kFailed ? "warning: the node is not drained: " : "drain: ", status->getMessage(),
        named.empty() ? "" : "; waiting for ", kj::strArray(named, ", "), rest);
    if (line != lastReported) deps.report(line);
    lastReported = kj::mv(line);
    bool over = state == kDone || state == kFailed;
    for (auto warning : status->getWarnings()) {
      if (over) deps.report(kj::str("warning: drain: ", warning));
    }
    return over;
  }
  return false;
}

}  // namespace talos::machined
