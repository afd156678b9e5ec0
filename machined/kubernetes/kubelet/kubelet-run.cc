#include "machined/kubernetes/kubelet/kubelet-run.h"

#include <kj/debug.h>
#include <string.h>

#include <memory>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/kube/node-proof.h"
#include "common/kube/node-roles.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/resources/store-records.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kApiCertificateId = "api"_kj;
constexpr auto kAgain = 5 * kj::SECONDS, kLookAgain = 1 * kj::SECONDS;
constexpr kj::StringPtr kSettings = "its settings have changed"_kj,
                        kServing = "no CA of the cluster has signed its serving certificate"_kj;

bool isNodeMissing(Store& store) {
  for (auto status : store.list<rpc::NodeStatusSpec>()) {
    if (strstr(status.getMessage().cStr(), kube::kNoNodeObject.cStr()) != nullptr) return true;
  }
  return false;
}

// Returns the time until the earlier of two moments.
kj::Maybe<kj::Duration> sooner(kj::Maybe<kj::Duration> a, kj::Maybe<kj::Duration> b) {
  KJ_IF_MAYBE (one, a) {
    KJ_IF_MAYBE (other, b) return kj::min(*one, *other);
    return *one;
  }
  return b;
}

}  // namespace

kj::Maybe<KubeletRun::Wanted> KubeletRun::wanted() {
  KJ_IF_MAYBE (spec, deps.store.tryGet<rpc::KubeletSpecSpec>(kKubeletId)) {
    KJ_IF_MAYBE (secrets, deps.store.tryGet<rpc::KubeletSecretsSpec>(kKubeletId)) {
      auto signs = issuer(*secrets);
      KJ_IF_MAYBE (i, signs) return Wanted(*spec, *secrets, kj::mv(*i));
    }
  }
  return nullptr;
}

// Returns the issuer, which another controller publishes on a control-plane node from the same
// config.
kj::Maybe<kj::Maybe<KubeletIssuer>> KubeletRun::issuer(rpc::KubeletSecretsSpec::Reader secrets) {
  bool worker = true;
  for (auto type : deps.store.list<rpc::MachineTypeSpec>()) {
    worker = type.getType() == rpc::MachineType::JOIN;
  }
  if (worker) return kj::Maybe<KubeletIssuer>();
  KJ_IF_MAYBE (root, deps.store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId)) {
    auto ca = root->getK8s().getCa();
    auto text = [](capnp::Data::Reader pem) { return kj::str(pem.asChars()); };
    // While one of the two belongs to the next config, the node does not sign.
    if (ca.getCrt() != secrets.getCa()) return nullptr;
    return kj::Maybe<KubeletIssuer>(
        KubeletIssuer{text(ca.getCrt()), pki::Pem(text(ca.getKey())), deps.lifetime});
  }
  return nullptr;
}

kj::Promise<KubeletRun::Wanted> KubeletRun::awaitWanted(kj::Function<void(kj::StringPtr)>& note) {
  bool noted = false;
  for (;;) {
    auto next = changed.next();
    KJ_IF_MAYBE (what, wanted()) co_return kj::mv(*what);
    if (!noted) note(kAwaitsSettings);
    noted = true;
    co_await next;
  }
}

kj::Promise<void> KubeletRun::prepare(kj::Function<void(kj::StringPtr)> note) {
  for (;;) {
    auto what = co_await awaitWanted(note);
    kj::Maybe<kj::String> problem;
    co_await makeReady(kj::mv(what)).catch_([&](kj::Exception&& e) {
      problem = kj::str(messageOf(e));
    });
    KJ_IF_MAYBE (p, problem) {
      note(kj::str(*p, "; retry in ", kAgain / kj::SECONDS, " s"));
    } else {
      co_return;
    }
    co_await timer.afterDelay(kAgain);
  }
}

kj::Promise<void> KubeletRun::makeReady(Wanted what) {
  auto digest = what.digest();
  auto copy = what.clone();
  prepared = kj::mv(what);
  auto made = std::make_shared<kj::Maybe<KubeletRequest>>();  // the work may outlive this
  co_await deps.blocking(
      [this, made, now = deps.clock.now(), digest = kj::mv(digest), copy = kj::mv(copy)]() {
        *made = writeKubeletFiles(deps.root, copy.spec(), copy.secrets(), copy.issuer(), now);
        writeFileAtomically(deps.startedWith, digest, 0600);
      });
  request = kj::mv(*made);
}

kj::Promise<void> KubeletRun::keep(kj::String certificate) {
  auto copy = KJ_ASSERT_NONNULL(prepared).clone();
  auto& asked = KJ_ASSERT_NONNULL(request);
  KubeletRequest mine{pki::Pem(kj::str(kj::StringPtr(asked.key))), kj::str(asked.text)};
  co_await deps.blocking(
      [this, copy = kj::mv(copy), mine = kj::mv(mine), certificate = kj::mv(certificate)]() {
        keepKubeletCertificate(deps.root, copy.spec(), copy.secrets(), mine, certificate);
      });
}

kj::OneOf<KubeletRun::Identity, kj::String> KubeletRun::identity() {
  KJ_IF_MAYBE (stored, deps.store.tryGet<rpc::ApiCertificateSpec>(kApiCertificateId)) {
    auto pair = stored->getServer();
    if (!stored->getMaintenance() && pair.getKey().size() > 0) {
      auto certificate = kj::str(pair.getCrt().asChars());
      kj::StringPtr name = KJ_ASSERT_NONNULL(prepared).spec().getNodename();
      for (auto& named : pki::inspect(certificate).dnsNames) {
        if (named == name) {
          return Identity{kj::mv(certificate), pki::Pem(kj::str(pair.getKey().asChars()))};
        }
      }
      auto line = kj::str("Waiting until the certificate of this node's API names ", name);
      KJ_IF_MAYBE (status, deps.store.tryGet<rpc::JoinStatusSpec>(kApiCertificateId)) {
        line = kj::str(line, ": ", status->getMessage());
      }
      return kj::mv(line);
    }
  }
  return kj::str("Waiting for the certificate of this node's API");
}

uint64_t KubeletRun::requestAs(const Identity& node) {
  auto& asked = KJ_ASSERT_NONNULL(request);
  auto signature = kube::signRequestAsNode(node.key, asked.text);
  auto number = ++joinRequests;
  putRecord<rpc::KubeletJoinSpec>(deps.store, kKubeletId, [&](auto spec) {
    spec.setNumber(number);
    spec.setRequest(asked.text);
    spec.setNodeCertificate(node.certificate);
    spec.setNodeSignature(signature);
  });
  return number;
}

kj::Promise<void> KubeletRun::awaitCertificate(kj::Function<void(kj::StringPtr)> note) {
  if (request == nullptr) co_return;
  KJ_DEFER(dropRecord<rpc::KubeletJoinSpec>(deps.store, kKubeletId));
  uint64_t number = 0;
  kj::String shown, lastNote;  // `shown`: the certificate in the request
  for (;;) {
    auto next = changed.next();
    auto line = kj::str("Waiting for kubed");
    auto node = identity();
    KJ_IF_MAYBE (own, node.tryGet<Identity>()) {
      if (own->certificate != shown) number = requestAs(*own);
      shown = kj::mv(own->certificate);
    } else if (number == 0) {
      line = kj::mv(node.get<kj::String>());
    }
    KJ_IF_MAYBE (status, deps.store.tryGet<rpc::KubeletJoinStatusSpec>(kKubeletId)) {
      if (number > 0 && status->getNumber() == number) {
        if (status->getCertificate().size() > 0) {
          co_return co_await keep(kj::str(status->getCertificate()));
        }
        line = kj::str(messages::kWaitingForCertificate, status->getMessage());
      }
    }
    if (line != lastNote) note(line);
    lastNote = kj::mv(line);
    co_await next;
  }
}

ContainerSpec KubeletRun::container() {
  KJ_IF_MAYBE (what, prepared) {
    auto spec = kubeletContainer(what->spec());
    spec.capabilities = grantableCapabilities();
    return spec;
  }
  fail(ErrorKind::kUnavailable, "the settings of the kubelet are not known yet");
}

void KubeletRun::follow() {
  specs = deps.store.onChange<rpc::KubeletSpecSpec>([this] { changed.raise(); });
  secrets = deps.store.onChange<rpc::KubeletSecretsSpec>([this] { changed.raise(); });
  services = deps.store.onChange<rpc::ServiceSpec>([this] { changed.raise(); });
  roots = deps.store.onChange<rpc::RootSecretSpec>([this] { changed.raise(); });
  joins = deps.store.onChange<rpc::KubeletJoinStatusSpec>([this] { changed.raise(); });
  certificates = deps.store.onChange<rpc::ApiCertificateSpec>([this] { changed.raise(); });
  apiStatus = deps.store.onChange<rpc::JoinStatusSpec>([this] { changed.raise(); });
  nodes = deps.store.onChange<rpc::NodeStatusSpec>([this] { changed.raise(); });
  watching = watch().eagerlyEvaluate(nullptr);
}

kj::Promise<void> KubeletRun::watch() {
  for (;;) {
    auto next = changed.wait();
    kj::Maybe<kj::Duration> again;
    try {
      again = compare();
    } catch (const kj::Exception& e) {
      again = kAgain;
      log::warn("cannot check the kubelet; retry in 5 s", {{"error", messageOf(e)}});
    }
    KJ_IF_MAYBE (pause, again) next = next.exclusiveJoin(timer.afterDelay(*pause));
    co_await next;
  }
}

kj::Maybe<kj::Duration> KubeletRun::compare() {
  auto what = wanted();
  if (what == nullptr) return nullptr;
  bool loaded = false;
  for (auto& id : deps.supervisor.ids()) loaded = loaded || id == kKubeletService;
  if (!loaded) return nullptr;
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(kKubeletService, service);
  if (service.getState() == rpc::ServiceState::FAILED) return failedStart.again();
  auto digest = KJ_ASSERT_NONNULL(what).digest();
  if (service.getPid() == 0) {
    missing = nullptr;
    // The start may wait for an image that is no longer wanted.
    bool waits = service.getState() == rpc::ServiceState::PREPARING;
    KJ_IF_MAYBE (before, prepared) {
      if (waits && before->digest() != digest) restart(0, digest, kSettings);
    }
    return kLookAgain;  // a failed start causes no event
  }
  KJ_IF_MAYBE (startedWith, tryReadFile(deps.startedWith)) {
    if (*startedWith == digest) {
      failedStart.works();
      return sooner(keepClientCas(KJ_ASSERT_NONNULL(what), service.getPid()),
                    keepNode(service.getPid()));
    }
  }
  restart(service.getPid(), digest, kSettings);
  return kAgain;
}

kj::Maybe<kj::Duration> KubeletRun::keepNode(int pid) {
  auto now = timer.now();
  if (!isNodeMissing(deps.store)) {
    missing = nullptr;
    for (auto status : deps.store.list<rpc::NodeStatusSpec>()) {
      if (status.getSpecVersion() > 0) rejoined = false;  // kubed has read the object
    }
    return nullptr;
  }
  bool known = missing.map([&](Missing& m) { return m.pid == pid; }).orDefault(false);
  if (!known) missing = Missing{pid, now};
  auto due = KJ_ASSERT_NONNULL(missing).since + kUntilRejoin;
  if (rejoined) return nullptr;
  if (now < due) return due - now;
  rejoined = true;
  restart(pid, "", "Kubernetes has no Node object of this node, and only its start makes one");
  return kLookAgain;
}

kj::Maybe<kj::String> KubeletRun::problem() const {
  KJ_IF_MAYBE (m, missing) {
    if (timer.now() - m->since < kUntilMissing) return nullptr;
    return kj::str(messages::kNoNode,
                   rejoined ? "; the restart of its kubelet has not changed that: "_kj
                            : "; its kubelet is restarted within a minute, or at once with: "_kj,
                   "talosctl service kubelet restart");
  }
  return nullptr;
}

KubeletRun::Effect KubeletRun::effect() {
  Effect result;
  auto what = wanted();
  if (what == nullptr) return result;
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(kKubeletService, service);
  if (service.getPid() == 0) return result;
  auto digest = KJ_ASSERT_NONNULL(what).digest();
  auto startedWith = tryReadFile(deps.startedWith);
  bool isSame = startedWith.map([&](kj::String& s) { return s == digest; }).orDefault(false);
  if (!isSame) {
    result.notYet = kj::str("the kubelet was not started with it yet");
    return result;
  }
  auto state = rpc::ServiceState::INITIALIZED;
  for (auto event : service.asReader().getEvents()) {
    bool starts = event.getState() == rpc::ServiceState::RUNNING && state != event.getState();
    state = event.getState();
    if (!starts) continue;
    result.runsFor =
        static_cast<int64_t>(service.getUptime() - event.getUptime()) * kj::NANOSECONDS;
  }
  return result;
}

kj::Maybe<kj::Duration> KubeletRun::keepClientCas(const Wanted& what, int pid) {
  auto wanted = what.secrets().getClientCAs();
  if (wanted == writtenCas.asPtr()) return nullptr;
  if (writesCas) return kLookAgain;
  writesCas = true;
  auto copy = what.clone();
  auto bytes = kj::heapArray<kj::byte>(wanted);
  auto isOld = std::make_shared<bool>(false);  // the work may outlive this
  auto work = deps.blocking([this, isOld, copy = kj::mv(copy)]() {
    writeClientCas(deps.root, copy.secrets());
    *isOld = servesForAnotherCa(deps.root, kj::str(copy.secrets().getClientCAs().asChars()));
  });
  writingCas = work.then(
                       [this, isOld, pid, bytes = kj::mv(bytes)]() mutable {
                         writtenCas = kj::mv(bytes);
                         writesCas = false;
                         if (*isOld) restart(pid, "", kServing);
                       },
                       [this](kj::Exception&& e) {
                         writesCas = false;
                         log::warn("cannot write the CAs of the kubelet's clients; retrying",
                                   {{"error", messageOf(e)}});
                       })
                   .eagerlyEvaluate(nullptr);
  return kLookAgain;
}

// Restarts once for each process and each digest, until the process has exited.
void KubeletRun::restart(int pid, kj::StringPtr digest, kj::StringPtr reason) {
  auto what = pid == 0 ? kj::str(digest) : kj::str(pid);
  if (restarted == what) return;
  restarted = kj::mv(what);
  log::info(kj::str("restarting the kubelet: ", reason));
  deps.supervisor.restart(kKubeletService).detach([this](kj::Exception&& e) {
    restarted = nullptr;
    log::warn("cannot restart the kubelet", {{"error", messageOf(e)}});
  });
}

}  // namespace talos::machined
