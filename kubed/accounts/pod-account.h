// Access of pods to the machine API, as objects of Kubernetes: the ServiceAccounts of talos.dev,
// the Secret that each is given, and the events and the status that say why one is given none.
//
// Pure. Accounts and Secrets are what anybody with rights in a namespace has written: every reader
// accepts foreign bytes.
#pragma once

#include <kj/time.h>

#include "common/kube/kube-api.h"
#include "common/tls/pki.h"
#include "common/wire/pod-client-name.h"

namespace talos::kubed {

constexpr kj::StringPtr kAccessService = "talos"_kj, kAccessNamespace = "default"_kj;
constexpr auto kAccessRenewal = 1 * kj::HOURS;  // a Secret is renewed so long before its end

kube::Resource podAccounts();

struct PodAccount {
  kj::String nameSpace, name, uid;
  kj::String failure;                       // status.failureReason
  kj::Maybe<kj::Vector<kj::String>> roles;  // none: it names none
  kj::String label() const { return kj::str(nameSpace, "/", name); }
  // In its certificates.
  kj::String clientName() const { return podClientName(nameSpace, name); }
};
// None: it is being deleted, or is no account.
kj::Maybe<PodAccount> readPodAccount(const kube::Json& object);

// machine.features.kubernetesTalosAPIAccess.
struct AccessPolicy {
  kj::Vector<kj::String> roles, namespaces;
};

struct AccountError {
  kj::StringPtr reason;  // of the event: ErrRolesNotAllowed
  kj::String message;
};
// Why an account is given nothing; `secret` is the one of its name, if there is one.
kj::Maybe<AccountError> accountError(const PodAccount& account, kj::Maybe<const kube::Json&> secret,
                                     const AccessPolicy& policy);

// Why the Secret of an account is written anew; none: it is the right one.
kj::Maybe<kj::StringPtr> renewalCause(const kube::Json& secret, const PodAccount& account,
                                      kj::StringPtr ca, kj::Date now);

// The Secret of an account, with a client configuration. Holds the key: wipe it.
kube::Json accountSecret(const PodAccount& account, kj::StringPtr ca, kj::StringPtr certificate,
                         const pki::Pem& key);

// `type`: Normal or Warning. The name is unique by `number`.
kube::Json accountEvent(const PodAccount& account, kj::StringPtr type, kj::StringPtr reason,
                        kj::StringPtr message, uint64_t number, kj::Date now);

// The patch of an account's status; an empty text removes the failure.
kube::Json failurePatch(kj::StringPtr failure);

// The Endpoints of the Service, which has no selector: apid of these nodes.
kube::Json accessEndpoints(kj::ArrayPtr<const kj::String> addresses);

}  // namespace talos::kubed
