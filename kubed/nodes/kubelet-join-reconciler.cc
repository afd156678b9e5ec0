#include "kubed/nodes/kubelet-join-reconciler.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/within.h"
#include "common/kube/node-proof.h"
#include "common/tls/signature.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kJoinId = "kubelet"_kj;
constexpr size_t kNameDigits = 32;
constexpr auto kEagerly = 30 * kj::SECONDS;

// Returns a text that stays the same as long as the cause does.
kj::String errorTextOf(kj::StringPtr server, const kj::Exception& e) {
  switch (kindOf(e)) {
    case ErrorKind::kUnauthenticated:
      return kj::str(server, messages::kUnknownBootstrapToken);
    case ErrorKind::kPermissionDenied:
      return kj::str(server, " does not let the bootstrap token create the request yet");
    default:
      return messageOf(e);
  }
}

}  // namespace

kj::Duration nextJoinPause(kj::Duration last, kj::Duration asking) {
  return kj::min(last * 2, asking < kEagerly ? 2 * kFirstJoinPause : kLongestJoinPause);
}

kj::String requestName(rpc::KubeletJoinSpec::Reader join) {
  auto both = kj::str(join.getRequest(), join.getNodeCertificate());
  auto digest = pki::sha256Of(both.asBytes());
  return kj::str("node-csr-", digest.slice(digest.size() - kNameDigits));
}

kube::Json requestObject(rpc::KubeletJoinSpec::Reader join) {
  return {{"apiVersion", "certificates.k8s.io/v1"},
          {"kind", "CertificateSigningRequest"},
          {"metadata",
           {{"name", requestName(join).cStr()},
            {"annotations",
             {{kube::kNodeCertificateAnnotation.cStr(), join.getNodeCertificate().cStr()},
              {kube::kNodeSignatureAnnotation.cStr(),
               kj::encodeBase64(join.getNodeSignature()).cStr()}}}}},
          {"spec",
           {{"request", kj::encodeBase64(join.getRequest().asBytes()).cStr()},
            {"signerName", "kubernetes.io/kube-apiserver-client-kubelet"},
            // Releases before 1.27 require all three; later ones accept them, too.
            {"usages", {"key encipherment", "digital signature", "client auth"}}}}};
}

JoinProgress progressOf(const kube::Json& request) {
  auto name = kube::nameOf(request);
  kj::String message = kj::str(messages::kTheRequest, name, messages::kNotApproved);
  for (auto condition : kube::itemsAt(request, {"status", "conditions"})) {
    auto type = kube::textAt(*condition, {"type"});
    auto error = kube::textAt(*condition, {"message"});
    if (type == "Approved")
      message = kj::str(messages::kTheRequest, name, " is approved and not signed yet");
    if (type == "Denied") message = kj::str(messages::kTheRequest, name, " was denied: ", error);
    if (type == "Failed")
      message = kj::str(messages::kTheRequest, name, " could not be signed: ", error);
  }
  auto encoded = kube::textAt(request, {"status", "certificate"});
  auto bytes = kj::decodeBase64(encoded);
  if (bytes.size() > 0) message = kj::String();
  return {kj::mv(message), kj::heapString(bytes.asChars())};
}

KubeletJoinReconciler::KubeletJoinReconciler(kj::Timer& timer, StoreClient& store,
                                             SharedKube::Make make)
    : timer(timer), store(store), make(kj::mv(make)) {
  joins = store.watch<rpc::KubeletJoinSpec>([this] { changed.raise(); }, kJoinId);
  secrets = store.watch<rpc::KubeletSecretsSpec>([this] { takeSecrets(); }, kJoinId);
}

kj::Maybe<uint64_t> KubeletJoinReconciler::requestedNumber() const {
  return joins.find(kJoinId).map([](auto found) { return found.getNumber(); });
}

void KubeletJoinReconciler::takeSecrets() {
  current = nullptr;
  noClient = kj::str("waiting for the bootstrap token");
  KJ_IF_MAYBE (found, secrets.find(kJoinId)) {
    auto failure = kj::runCatchingExceptions([&] {
      auto access = kube::readAccess(found->getBootstrapKubeconfig(), "bootstrapKubeconfig");
      current = kj::refcounted<SharedKube>(make(kj::mv(access)));
    });
    KJ_IF_MAYBE (e, failure) noClient = messageOf(*e);
  }
}

kj::Promise<void> KubeletJoinReconciler::run() {
  for (;;) {
    auto change = changed.next();
    auto requested = requestedNumber();
    KJ_IF_MAYBE (number, requested) {
      co_await carryOut(*number).exclusiveJoin(replaced(*number));
      co_await report(*number, nullptr);
    } else {
      co_await change;
    }
  }
}

kj::Promise<void> KubeletJoinReconciler::replaced(uint64_t number) {
  for (;;) {
    auto change = changed.next();
    if (requestedNumber().orDefault(0) != number) co_return;
    co_await change;
  }
}

// Runs until the request is replaced.
kj::Promise<void> KubeletJoinReconciler::carryOut(uint64_t number) {
  capnp::MallocMessageBuilder request;
  KJ_IF_MAYBE (join, joins.find(kJoinId)) {
    request.setRoot(static_cast<rpc::KubeletJoinSpec::Reader>(*join));
  }
  auto pause = kFirstJoinPause;
  auto began = timer.now();
  kj::String lastReported;
  for (;;) {
    JoinProgress progress;
    co_await ask(request.getRoot<rpc::KubeletJoinSpec>())
        .then([&](JoinProgress answered) { progress = kj::mv(answered); },
              [&](kj::Exception&& e) { progress.message = messageOf(e); });
    bool issued = progress.certificate.size() > 0;
    if (issued || progress.message != lastReported) {
      co_await report(number, progress);
      pause = kFirstJoinPause;
    }
    if (issued) co_await kj::Promise<void>(kj::NEVER_DONE);
    lastReported = kj::mv(progress.message);
    co_await timer.afterDelay(pause);
    pause = nextJoinPause(pause, timer.now() - began);
  }
}

kj::Promise<JoinProgress> KubeletJoinReconciler::ask(rpc::KubeletJoinSpec::Reader join) {
  kj::Maybe<kj::Own<SharedKube>> known;
  KJ_IF_MAYBE (c, current) known = kj::addRef(**c);
  if (known == nullptr) co_return JoinProgress{kj::str(noClient), kj::String()};
  auto& client = *KJ_ASSERT_NONNULL(known);
  auto requests = kube::certificateRequests();
  auto there = [&]() -> kj::Promise<kube::Json> {
    auto created = co_await (*client).create(requests, "", requestObject(join), kOwner);
    KJ_IF_MAYBE (c, created) co_return kj::mv(*c);
    co_return co_await (*client).get(requests, "", requestName(join));
  };
  JoinProgress progress;
  co_await within(timer, kJoinAnswer, there(),
                  kj::str((*client).name(), ": no answer within ", kJoinAnswer / kj::SECONDS, " s"))
      .then([&](kube::Json object) { progress = progressOf(object); },
            [&](kj::Exception&& e) { progress.message = errorTextOf((*client).name(), e); });
  co_return kj::mv(progress);
}

kj::Promise<void> KubeletJoinReconciler::report(uint64_t number,
                                                kj::Maybe<const JoinProgress&> progress) {
  for (;;) {
    StoreClient::Wanted wanted;
    KJ_IF_MAYBE (p, progress) {
      auto record = kj::heap<capnp::MallocMessageBuilder>();
      auto spec = record->initRoot<rpc::KubeletJoinStatusSpec>();
      spec.setState(p->certificate.size() > 0 ? "issued" : "waiting");
      spec.setMessage(p->message);
      spec.setNumber(number);
      spec.setCertificate(p->certificate);
      wanted.insert(kj::str(kJoinId), kj::mv(record));
    }
    bool stored = true;
    co_await store.replaceAll<rpc::KubeletJoinStatusSpec>(kj::mv(wanted))
        .catch_([&](kj::Exception&& e) {
          stored = false;
          log::warn("cannot store the state of the kubelet's certificate request; retrying",
                    {{"error", messageOf(e)}});
        });
    if (stored) co_return;
    co_await timer.afterDelay(kLongestJoinPause);
  }
}

}  // namespace talos::kubed
