#include "kubed/nodes/kubelet-join-reconciler.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/tls/signature.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kJoinId = "kubelet"_kj;
constexpr size_t kNameDigits = 32;
constexpr auto kEagerly = 30 * kj::SECONDS;

// In words that stay the same as long as the reason does.
kj::String whyNotTaken(kj::StringPtr server, const kj::Exception& e) {
  switch (kindOf(e)) {
    case ErrorKind::kUnauthenticated:
      return kj::str(server, " does not know the bootstrap token yet");
    case ErrorKind::kPermissionDenied:
      return kj::str(server, " lets nobody with the bootstrap token ask for it yet");
    default:
      return messageOf(e);
  }
}

}  // namespace

kj::Duration nextJoinPause(kj::Duration last, kj::Duration asking) {
  return kj::min(last * 2, asking < kEagerly ? 2 * kFirstJoinPause : kLongestJoinPause);
}

kj::String requestName(kj::StringPtr request) {
  auto digest = pki::sha256Of(request.asBytes());
  return kj::str("node-csr-", digest.slice(digest.size() - kNameDigits));
}

kube::Json requestObject(kj::StringPtr request) {
  return {{"apiVersion", "certificates.k8s.io/v1"},
          {"kind", "CertificateSigningRequest"},
          {"metadata", {{"name", requestName(request).cStr()}}},
          {"spec",
           {{"request", kj::encodeBase64(request.asBytes()).cStr()},
            {"signerName", "kubernetes.io/kube-apiserver-client-kubelet"},
            // Those that releases before 1.27 insist on; later ones take them, too.
            {"usages", {"key encipherment", "digital signature", "client auth"}}}}};
}

JoinProgress progressOf(const kube::Json& request) {
  auto name = kube::nameOf(request);
  kj::String message = kj::str("the request ", name, " is not approved yet");
  for (auto condition : kube::itemsAt(request, {"status", "conditions"})) {
    auto type = kube::textAt(*condition, {"type"});
    auto why = kube::textAt(*condition, {"message"});
    if (type == "Approved")
      message = kj::str("the request ", name, " is approved and not signed yet");
    if (type == "Denied") message = kj::str("the request ", name, " was denied: ", why);
    if (type == "Failed") message = kj::str("the request ", name, " could not be signed: ", why);
  }
  auto encoded = kube::textAt(request, {"status", "certificate"});
  auto bytes = kj::decodeBase64(encoded);
  if (bytes.size() > 0) message = kj::String();
  return {kj::mv(message), kj::heapString(bytes.asChars())};
}

JoinKeeper::JoinKeeper(kj::Timer& timer, StoreClient& store, SharedKube::Make make)
    : timer(timer), store(store), make(kj::mv(make)) {
  wishes = store.watch<rpc::KubeletJoinSpec>([this] { changed.raise(); }, kJoinId);
  secrets = store.watch<rpc::KubeletSecretsSpec>([this] { takeSecrets(); }, kJoinId);
}

kj::Maybe<uint64_t> JoinKeeper::wish() const {
  return wishes.find(kJoinId).map([](auto found) { return found.getNumber(); });
}

void JoinKeeper::takeSecrets() {
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

kj::Promise<void> JoinKeeper::run() {
  for (;;) {
    auto change = changed.next();
    auto wished = wish();
    KJ_IF_MAYBE (number, wished) {
      co_await carryOut(*number).exclusiveJoin(replaced(*number));
      co_await tell(*number, nullptr);
    } else {
      co_await change;
    }
  }
}

kj::Promise<void> JoinKeeper::replaced(uint64_t number) {
  for (;;) {
    auto change = changed.next();
    if (wish().orDefault(0) != number) co_return;
    co_await change;
  }
}

// Until it is replaced.
kj::Promise<void> JoinKeeper::carryOut(uint64_t number) {
  kj::String request;
  KJ_IF_MAYBE (wished, wishes.find(kJoinId)) request = kj::str(wished->getRequest());
  auto pause = kFirstJoinPause;
  auto began = timer.now();
  kj::String told;
  for (;;) {
    JoinProgress progress;
    co_await ask(request).then([&](JoinProgress said) { progress = kj::mv(said); },
                               [&](kj::Exception&& e) { progress.message = messageOf(e); });
    bool issued = progress.certificate.size() > 0;
    if (issued || progress.message != told) {
      co_await tell(number, progress);
      pause = kFirstJoinPause;
    }
    if (issued) co_await kj::Promise<void>(kj::NEVER_DONE);
    told = kj::mv(progress.message);
    co_await timer.afterDelay(pause);
    pause = nextJoinPause(pause, timer.now() - began);
  }
}

kj::Promise<JoinProgress> JoinKeeper::ask(kj::StringPtr request) {
  kj::Maybe<kj::Own<SharedKube>> known;
  KJ_IF_MAYBE (c, current) known = kj::addRef(**c);
  if (known == nullptr) co_return JoinProgress{kj::str(noClient), kj::String()};
  auto& client = *KJ_ASSERT_NONNULL(known);
  kube::Resource requests{.group = kj::str("certificates.k8s.io"),
                          .version = kj::str("v1"),
                          .plural = kj::str("certificatesigningrequests"),
                          .kind = kj::str("CertificateSigningRequest"),
                          .namespaced = false};
  auto there = [&]() -> kj::Promise<kube::Json> {
    auto created = co_await (*client).create(requests, "", requestObject(request), kOwner);
    KJ_IF_MAYBE (c, created) co_return kj::mv(*c);
    co_return co_await (*client).get(requests, "", requestName(request));
  };
  JoinProgress progress;
  co_await within(timer, kJoinAnswer, there(),
                  kj::str((*client).name(), ": no answer within ", kJoinAnswer / kj::SECONDS, " s"))
      .then([&](kube::Json object) { progress = progressOf(object); },
            [&](kj::Exception&& e) { progress.message = whyNotTaken((*client).name(), e); });
  co_return kj::mv(progress);
}

kj::Promise<void> JoinKeeper::tell(uint64_t number, kj::Maybe<const JoinProgress&> progress) {
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
    bool told = true;
    co_await store.replaceAll<rpc::KubeletJoinStatusSpec>(kj::mv(wanted))
        .catch_([&](kj::Exception&& e) {
          told = false;
          log::warn("cannot tell how far the kubelet's certificate is; retrying",
                    {{"error", messageOf(e)}});
        });
    if (told) co_return;
    co_await timer.afterDelay(kLongestJoinPause);
  }
}

}  // namespace talos::kubed
