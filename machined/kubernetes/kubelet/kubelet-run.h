// Runs the service `kubelet` of this machine: prepares its starts and restarts it when its settings
// change. The settings are in KubeletSpecs and KubeletSecrets (kubelet-controller.h).
//
// A start needs both, and the kubelet's files (kubelet-files.h). A kubelet without a certificate
// waits, with its image, until kubed has got it (KubeletJoins[kubelet],
// KubeletJoinStatuses[kubelet]), and the service shows the reason. The kubelet does not send the
// request itself: only the certificate of this node's API proves the requesting node
// (common/kube/node-proof.h). So the start first waits for the API's certificate, and when this is
// replaced the kubelet's is requested again.
//
// /run has the digest of the settings of the last start, written before it, so that a restarted
// brain knows if the running kubelet has the wanted settings. If not, it is restarted; its pods
// keep running. A kubelet that waits for an image is restarted, too. A failed start is retried
// after 1 s and then after up to a minute. Other CAs of its clients cause no restart: the kubelet
// reads their file again. But it is restarted when none of them has signed its serving certificate,
// which another control-plane node may have signed with the CA before the last one.
//
// A kubelet registers its node only when it starts. So it is restarted, once, when Kubernetes has
// had no Node object of this node (NodeStatuses) for kUntilRejoin, as after a `kubectl delete node`
// by mistake.
#pragma once

#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/memory/zeroize.h"
#include "machined/kubernetes/kubelet/kubelet-files.h"
#include "machined/resources/store.h"
#include "machined/services/start-backoff.h"

namespace talos::machined {

constexpr uint16_t kKubeletHealthPort = 10248;
// The note of a start that waits for its settings, before the fetch of its image.
constexpr kj::StringPtr kAwaitsSettings = "Waiting for the name and the addresses of the node"_kj;
// Time for which a running kubelet's Node object is missing: before the node says so, and before
// the kubelet is restarted.
constexpr auto kUntilMissing = 20 * kj::SECONDS, kUntilRejoin = 60 * kj::SECONDS;

class KubeletRun {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    // Runs blocking work on the thread pool.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    Store& store;
    Supervisor& supervisor;
    kj::Duration lifetime = kKubeletLifetime;  // of a certificate that this node signs
    kj::StringPtr root = "", startedWith = "/run/talos/kubelet.digest"_kj;
  };
  explicit KubeletRun(Dependencies deps)
      : deps(kj::mv(deps)),
        timer(this->deps.timer),
        failedStart(this->deps.supervisor, timer, kKubeletService) {}
  KJ_DISALLOW_COPY_AND_MOVE(KubeletRun);

  // Resolves when the kubelet may be started; failures are noted and retried.
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note);
  // Runs after the image was pulled: resolves when the kubelet has a certificate.
  kj::Promise<void> awaitCertificate(kj::Function<void(kj::StringPtr)> note);
  // Returns the last prepared container. Unavailable if there is none.
  ContainerSpec container();
  // Checks the store now and at each change.
  void follow();
  // Returns the problem of a running kubelet whose node is not in Kubernetes, with the remedy;
  // nullptr for a node that is in Kubernetes, or of which that is unknown.
  kj::Maybe<kj::String> problem() const;
  // Returns the cause if the running kubelet has other settings than the wanted ones, or else for
  // how long it runs with them. Both are nullptr for a kubelet that does not run.
  struct Effect {
    kj::Maybe<kj::String> notYet = nullptr;
    kj::Maybe<kj::Duration> runsFor = nullptr;
  };
  Effect effect();

 private:
  Dependencies deps;
  kj::Timer& timer;
  FailedStart failedStart;
  Signal changed;
  kj::Own<void> specs, secrets, services, roots, joins, certificates, apiStatus, nodes;
  // A copy of both, and the issuer on a control-plane node.
  class Wanted {
   public:
    Wanted(const rpc::KubeletSpecSpec::Reader& spec, const rpc::KubeletSecretsSpec::Reader& secrets,
           kj::Maybe<KubeletIssuer> issuer)
        : signer(kj::mv(issuer)) {
      specCopy->setRoot(spec);
      secretsCopy->setRoot(secrets);
      specRoot = specCopy->getRoot<rpc::KubeletSpecSpec>().asReader();
      secretsRoot = secretsCopy->getRoot<rpc::KubeletSecretsSpec>().asReader();
    }
    Wanted clone() const {
      return Wanted(specRoot, secretsRoot, signer.map([](auto& s) { return s.clone(); }));
    }
    rpc::KubeletSpecSpec::Reader spec() const { return specRoot; }
    rpc::KubeletSecretsSpec::Reader secrets() const { return secretsRoot; }
    kj::Maybe<const KubeletIssuer&> issuer() const {
      KJ_IF_MAYBE (known, signer) return *known;
      return nullptr;
    }
    kj::String digest() const { return kubeletDigest(specRoot, secretsRoot); }

   private:
    kj::Own<SecretMessage> specCopy = kj::heap<SecretMessage>(),
                           secretsCopy = kj::heap<SecretMessage>();
    rpc::KubeletSpecSpec::Reader specRoot;
    rpc::KubeletSecretsSpec::Reader secretsRoot;
    kj::Maybe<KubeletIssuer> signer;
  };
  kj::Maybe<Wanted> prepared;
  kj::Maybe<KubeletRequest>
      request;           // for the prepared start; nullptr: the kubelet has a certificate
  kj::String restarted;  // requested restart: of a process, or of a start with another digest
  kj::Array<kj::byte> writtenCas;
  kj::Promise<void> writingCas = nullptr;
  bool writesCas = false;
  uint64_t joinRequests = 0;
  struct Missing {
    int pid;  // of the kubelet
    kj::TimePoint since;
  };
  kj::Maybe<Missing> missing;  // nullptr: Kubernetes has the node, or it is unknown
  bool rejoined = false;       // restarted, and the node has not been in Kubernetes since
  kj::Promise<void> watching = nullptr;

  kj::Maybe<Wanted> wanted();
  kj::Promise<Wanted> awaitWanted(kj::Function<void(kj::StringPtr)>& note);
  // Returns nullptr if the issuer is not published yet.
  kj::Maybe<kj::Maybe<KubeletIssuer>> issuer(rpc::KubeletSecretsSpec::Reader secrets);
  kj::Promise<void> makeReady(Wanted what);
  // The certificate of this node's API, which names the node. identity() returns it, or the reason
  // for waiting.
  struct Identity {
    kj::String certificate;
    pki::Pem key;
  };
  kj::OneOf<Identity, kj::String> identity();
  uint64_t requestAs(const Identity& node);
  kj::Promise<void> keep(kj::String certificate);
  kj::Promise<void> watch();
  kj::Maybe<kj::Duration> compare();  // returns when to look again if nothing changes before
  kj::Maybe<kj::Duration> keepClientCas(const Wanted& what, int pid);  // the same
  kj::Maybe<kj::Duration> keepNode(int pid);                           // the same
  void restart(int pid, kj::StringPtr digest, kj::StringPtr reason);
};

}  // namespace talos::machined
