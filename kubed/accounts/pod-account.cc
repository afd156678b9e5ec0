#include "kubed/accounts/pod-account.h"

#include <kj/encoding.h>

#include <algorithm>

#include "common/base/date.h"
#include "common/base/node-layout.h"
#include "common/kube/json-yaml.h"
#include "common/memory/zeroize.h"
#include "common/text/texts.h"

namespace talos::kubed {
namespace {

using kube::Json;

constexpr const char *kApiVersion = "talos.dev/v1alpha1", *kKind = "ServiceAccount";
constexpr const char *kConfigKey = "config", *kContext = "default";
constexpr size_t kMostAccountRoles = 16;

std::string textOf(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

kj::String serviceName() {
  return kj::str(kAccessService, ".", kAccessNamespace);
}

bool belongsTo(const Json& secret, const PodAccount& account) {
  for (auto owner : kube::itemsAt(secret, {"metadata", "ownerReferences"})) {
    if (kube::textAt(*owner, {"kind"}) == kKind && kube::textAt(*owner, {"uid"}) == account.uid &&
        kube::flagAt(*owner, {"controller"})) {
      return true;
    }
  }
  return false;
}

Json base64Of(kj::ArrayPtr<const kj::byte> bytes) {
  auto text = kj::encodeBase64(bytes);
  KJ_DEFER(zeroize(text));
  return textOf(text);
}

kj::String decoded(const Json& value, kube::JsonPath path) {
  return kj::heapString(kj::decodeBase64(kube::textAt(value, path)).asChars());
}

// Returns true for the same roles, in any order.
bool sameRoles(const pki::CertificateInfo& info, kj::ArrayPtr<const kj::String> roles) {
  return info.organizations.size() == roles.size() &&
         std::all_of(roles.begin(), roles.end(),
                     [&](auto& role) { return contains(info.organizations, role); });
}

// Returns the context of the client configuration in a Secret; throws if it is not valid.
Json contextIn(const Json& secret) {
  auto text = decoded(secret, {"data", kConfigKey});
  KJ_DEFER(zeroize(text));
  auto documents = kube::readYaml(text, kConfigKey);
  KJ_DEFER(for (auto& document : documents) kube::wipe(document));
  if (documents.size() != 1) return nullptr;
  auto context = kube::find(documents[0], {"contexts", kContext});
  return context.map([](const Json& found) { return found; }).orDefault(nullptr);
}

}  // namespace

kube::Resource podAccounts() {
  return {.group = kj::str("talos.dev"),
          .version = kj::str("v1alpha1"),
          .plural = kj::str("serviceaccounts"),
          .kind = kj::str(kKind)};
}

kj::Maybe<PodAccount> readPodAccount(const Json& object) {
  if (kube::textAt(object, {"metadata", "deletionTimestamp"}).size() > 0) return nullptr;
  PodAccount account;
  account.nameSpace = kj::str(kube::textAt(object, {"metadata", "namespace"}));
  account.name = kj::str(kube::textAt(object, {"metadata", "name"}));
  account.uid = kj::str(kube::textAt(object, {"metadata", "uid"}));
  account.failure = kj::str(kube::textAt(object, {"status", "failureReason"}));
  if (account.nameSpace.size() == 0 || account.name.size() == 0 || account.uid.size() == 0) {
    return nullptr;
  }
  kj::Vector<kj::String> roles;
  for (auto item : kube::itemsAt(object, {"spec", "roles"})) {
    if (item->is_string()) addOnce(roles, kj::str(item->get_ref<const std::string&>().c_str()));
  }
  if (!roles.empty()) account.roles = kj::mv(roles);
  return kj::mv(account);
}

kj::Maybe<AccountError> accountError(const PodAccount& account, kj::Maybe<const Json&> secret,
                                     const AccessPolicy& policy) {
  KJ_IF_MAYBE (there, secret) {
    if (!belongsTo(*there, account)) {
      return AccountError{
          "ErrResourceExists"_kj,
          kj::str("the Secret ", account.name,
                  " exists and does not belong to this ServiceAccount; delete or rename one")};
    }
  }
  if (account.roles == nullptr) {
    return AccountError{"ErrRolesNotFound"_kj, kj::str("spec.roles names no role")};
  }
  auto& roles = KJ_ASSERT_NONNULL(account.roles);
  if (!contains(policy.namespaces, account.nameSpace)) {
    return AccountError{
        "ErrNamespaceNotAllowed"_kj,
        kj::str(
            "the namespace ", account.nameSpace,
            " is not in machine.features.kubernetesTalosAPIAccess.allowedKubernetesNamespaces")};
  }
  if (roles.size() > kMostAccountRoles) {
    return AccountError{"ErrRolesNotAllowed"_kj,
                        kj::str("spec.roles has more than ", kMostAccountRoles, " roles")};
  }
  for (auto& role : roles) {
    if (contains(policy.roles, role)) continue;
    return AccountError{
        "ErrRolesNotAllowed"_kj,
        kj::str("the role ", role,
                " is not in machine.features.kubernetesTalosAPIAccess.allowedRoles")};
  }
  return nullptr;
}

kj::Maybe<kj::StringPtr> renewalCause(const Json& secret, const PodAccount& account,
                                      kj::StringPtr ca, kj::Date now) {
  kj::Maybe<kj::StringPtr> cause;
  auto damaged = kj::runCatchingExceptions([&] {
    auto context = contextIn(secret);
    KJ_DEFER(kube::wipe(context));
    auto endpoints = kube::itemsAt(context, {"endpoints"});
    auto info = pki::inspect(decoded(context, {"crt"}));
    // Does not copy the key's text to another place: a pair that does not match is made again.
    pki::Pem key(decoded(context, {"key"}));
    pki::checkPair(decoded(context, {"crt"}), key);
    if (endpoints.size() != 1 || *endpoints[0] != textOf(serviceName())) {
      cause = "its endpoint is another one"_kj;
    } else if (decoded(context, {"ca"}) != ca) {
      cause = "the CA changed"_kj;
    } else if (info.commonName != account.clientName()) {
      cause = "its certificate has another name"_kj;
    } else if (!sameRoles(info, KJ_ASSERT_NONNULL(account.roles))) {
      cause = "its roles changed"_kj;
    } else if (info.notAfter < now + kAccessRenewal || info.notBefore > now) {
      cause = "its certificate ends soon"_kj;
    }
  });
  if (damaged != nullptr) return "it is damaged"_kj;
  return cause;
}

Json accountSecret(const PodAccount& account, kj::StringPtr ca, kj::StringPtr certificate,
                   const pki::Pem& key) {
  Json config{{"context", kContext},
              {"contexts",
               {{kContext,
                 {{"endpoints", Json::array({textOf(serviceName())})},
                  {"ca", base64Of(ca.asBytes())},
                  {"crt", base64Of(certificate.asBytes())},
                  {"key", base64Of(key.bytes())}}}}}};
  KJ_DEFER(kube::wipe(config));
  auto text = kube::writeYaml(config, 4);
  KJ_DEFER(zeroize(text));
  Json owner{{"apiVersion", kApiVersion},  {"kind", kKind},      {"name", textOf(account.name)},
             {"uid", textOf(account.uid)}, {"controller", true}, {"blockOwnerDeletion", true}};
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata",
           {{"name", textOf(account.name)},
            {"namespace", textOf(account.nameSpace)},
            {"ownerReferences", Json::array({owner})}}},
          {"data", {{kConfigKey, base64Of(text.asBytes())}}}};
}

Json accountEvent(const PodAccount& account, kj::StringPtr type, kj::StringPtr reason,
                  kj::StringPtr message, uint64_t number, kj::Date now) {
  auto time = textOf(dateText(now));
  return {{"apiVersion", "v1"},
          {"kind", "Event"},
          {"metadata",
           {{"name", textOf(kj::str(account.name, ".", kj::hex(number)))},
            {"namespace", textOf(account.nameSpace)}}},
          {"involvedObject",
           {{"apiVersion", kApiVersion},
            {"kind", kKind},
            {"name", textOf(account.name)},
            {"namespace", textOf(account.nameSpace)},
            {"uid", textOf(account.uid)}}},
          {"reason", textOf(reason)},
          {"message", textOf(message)},
          {"type", textOf(type)},
          {"source", {{"component", "talos-sa-controller"}}},
          {"firstTimestamp", time},
          {"lastTimestamp", time},
          {"count", 1}};
}

Json failurePatch(kj::StringPtr failure) {
  Json value = nullptr;
  if (failure.size() > 0) value = textOf(failure);
  return {{"status", {{"failureReason", value}}}};
}

Json accessEndpoints(kj::ArrayPtr<const kj::String> addresses) {
  auto list = Json::array();
  for (auto& address : addresses) list.push_back({{"ip", textOf(address)}});
  Json port{{"name", "apid"}, {"port", kApidPort}, {"protocol", "TCP"}};
  return {{"apiVersion", "v1"},
          {"kind", "Endpoints"},
          {"metadata",
           {{"name", textOf(kAccessService)},
            {"namespace", textOf(kAccessNamespace)},
            {"labels", {{"provider", "talos.dev"}, {"component", "apid"}}}}},
          {"subsets", Json::array({{{"addresses", list}, {"ports", Json::array({port})}}})}};
}

}  // namespace talos::kubed
