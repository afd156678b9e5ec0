#include "machined/kubed/join-keeper.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kJoinId = "kubelet"_kj;

}  // namespace

kj::Promise<kj::String> whyNotJoin(kube::KubeClient& client) {
  kube::Resource reviews{.group = kj::str("authorization.k8s.io"),
                         .version = kj::str("v1"),
                         .plural = kj::str("selfsubjectaccessreviews"),
                         .kind = kj::str("SelfSubjectAccessReview"),
                         .namespaced = false};
  kube::Json review = {{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SelfSubjectAccessReview"},
                       {"spec",
                        {{"resourceAttributes",
                          {{"group", "certificates.k8s.io"},
                           {"resource", "certificatesigningrequests"},
                           {"verb", "create"}}}}}};
  auto answer = co_await client.create(reviews, "", review, kOwner);
  KJ_IF_MAYBE (given, answer) {
    if (kube::flagAt(*given, {"status", "allowed"})) co_return kj::str();
  }
  co_return kj::str("it may not ask for certificates yet");
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
  auto pause = kFirstJoinPause;
  kj::Maybe<kj::String> told;
  for (;;) {
    auto why = co_await look();
    bool same = false;
    KJ_IF_MAYBE (before, told) same = *before == why;
    if (!same) {
      co_await tell(number, why.asPtr());
      pause = kFirstJoinPause;
    }
    if (why.size() == 0) co_await kj::Promise<void>(kj::NEVER_DONE);
    told = kj::mv(why);
    co_await timer.afterDelay(pause);
    pause = kj::min(pause * 2, kLongestJoinPause);
  }
}

kj::Promise<kj::String> JoinKeeper::look() {
  KJ_IF_MAYBE (known, current) {
    auto kubernetes = kj::addRef(**known);
    kj::String why;
    co_await within(
        timer, kJoinAnswer, whyNotJoin(**kubernetes),
        kj::str((**kubernetes).name(), ": no answer within ", kJoinAnswer / kj::SECONDS, " s"))
        .then([&](kj::String said) { why = kj::mv(said); },
              [&](kj::Exception&& e) {
                why = kindOf(e) == ErrorKind::kUnauthenticated
                          ? kj::str((**kubernetes).name(), " does not know the token")
                          : messageOf(e);
              });
    co_return kj::mv(why);
  }
  co_return kj::str(noClient);
}

kj::Promise<void> JoinKeeper::tell(uint64_t number, kj::Maybe<kj::StringPtr> message) {
  for (;;) {
    StoreClient::Wanted wanted;
    KJ_IF_MAYBE (why, message) {
      auto record = kj::heap<capnp::MallocMessageBuilder>();
      auto spec = record->initRoot<rpc::KubeletJoinStatusSpec>();
      spec.setAccepted(why->size() == 0);
      spec.setMessage(*why);
      spec.setNumber(number);
      wanted.insert(kj::str(kJoinId), kj::mv(record));
    }
    bool told = true;
    co_await store.replaceAll<rpc::KubeletJoinStatusSpec>(kj::mv(wanted))
        .catch_([&](kj::Exception&& e) {
          told = false;
          log::warn("cannot tell whether the kubelet may join; retrying",
                    {{"error", messageOf(e)}});
        });
    if (told) co_return;
    co_await timer.afterDelay(kLongestJoinPause);
  }
}

}  // namespace talos::kubed
