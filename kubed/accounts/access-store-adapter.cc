#include "kubed/accounts/access-store-adapter.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/within.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kConfigId = "config"_kj, kRequestId = "account"_kj;
constexpr auto kSigning = 30 * kj::SECONDS;

kj::String pemOf(capnp::Data::Reader data) {
  return kj::heapString(data.asChars());
}

}  // namespace

AccessStoreAdapter::AccessStoreAdapter(kj::Timer& timer, StoreClient& store, Signal& changed)
    : timer(timer), store(store) {
  configs = store.watch<rpc::KubernetesAccessConfigSpec>([&changed] { changed.raise(); });
  endpoints = store.watch<rpc::ApiEndpointsSpec>([&changed] { changed.raise(); });
  certificates = store.watch<rpc::PodCertificateSpec>([this] { answered.raise(); });
}

kj::Maybe<AccessPolicy> AccessStoreAdapter::policy() const {
  KJ_IF_MAYBE (config, configs.find(kConfigId)) {
    if (!config->getEnabled()) return nullptr;
    AccessPolicy policy;
    for (auto role : config->getAllowedApiRoles()) policy.roles.add(kj::str(role));
    for (auto name : config->getAllowedKubernetesNamespaces()) policy.namespaces.add(kj::str(name));
    return kj::mv(policy);
  }
  return nullptr;
}

kj::Vector<kj::String> AccessStoreAdapter::apiAddresses() const {
  kj::Vector<kj::String> all;
  for (auto one : endpoints) {
    for (auto address : one.getAddresses()) all.add(kj::str(address));
  }
  return all;
}

kj::Promise<SignedAccount> AccessStoreAdapter::sign(const PodAccount& account,
                                                    kj::StringPtr request, uint64_t number) {
  auto record = kj::heap<capnp::MallocMessageBuilder>();
  auto spec = record->initRoot<rpc::PodCertificateRequestSpec>();
  spec.setNumber(number);
  spec.setAccount(account.label());
  spec.setKubernetesNamespace(account.nameSpace);
  auto& roles = KJ_ASSERT_NONNULL(account.roles);
  fillTexts(spec.initRoles(roles.size()), roles);
  spec.setRequest(request);
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kRequestId), kj::mv(record));
  co_await store.replaceAll<rpc::PodCertificateRequestSpec>(kj::mv(wanted));
  kj::Maybe<kj::Exception> failure;
  SignedAccount result;
  co_await within(
      timer, kSigning, answer(number),
      kj::str("machined has not signed the certificate within ", kSigning / kj::SECONDS, " s"))
      .then([&](SignedAccount made) { result = kj::mv(made); },
            [&](kj::Exception&& e) { failure = kj::mv(e); });
  co_await store.replaceAll<rpc::PodCertificateRequestSpec>({});
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  co_return kj::mv(result);
}

kj::Promise<SignedAccount> AccessStoreAdapter::answer(uint64_t number) {
  for (;;) {
    auto change = answered.next();
    KJ_IF_MAYBE (found, certificates.find(kRequestId)) {
      if (found->getNumber() == number) {
        if (found->getError().size() > 0) fail(ErrorKind::kPermissionDenied, found->getError());
        co_return SignedAccount{pemOf(found->getCa()), pemOf(found->getCertificate())};
      }
    }
    co_await change;
  }
}

}  // namespace talos::kubed
