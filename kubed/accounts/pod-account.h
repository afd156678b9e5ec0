// Access of pods to the machine API, as objects of Kubernetes: the ServiceAccounts of talos.dev,
// the Secret of each account, and the events and the status that say why an account gets none.
//
// Pure. Any client with rights in a namespace can write accounts and Secrets: every reader accepts
// foreign bytes.
#pragma once

#include <kj/time.h>

#include "common/kube/kube-api.h"
#include "common/tls/pki.h"
#include "common/wire/pod-client-name.h"

namespace talos::kubed {

constexpr kj::StringPtr kAccessService = "talos"_kj, kAccessNamespace = "default"_kj;
constexpr auto kAccessRenewal = 1 * kj::HOURS;  // time before its end at which a Secret is renewed

kube::Resource podAccounts();

struct PodAccount {
  kj::String nameSpace, name, uid;
  kj::String failure;                       // status.failureReason
  kj::Maybe<kj::Vector<kj::String>> roles;  // nullptr if it names no roles
  kj::String label() const { return kj::str(nameSpace, "/", name); }
  // Returns the name in its certificates.
  kj::String clientName() const { return podClientName(nameSpace, name); }
};
// Returns nullptr if the object is being deleted, or is not an account.
kj::Maybe<PodAccount> readPodAccount(const kube::Json& object);

// Policy of machine.features.kubernetesTalosAPIAccess.
struct AccessPolicy {
  kj::Vector<kj::String> roles, namespaces;
};

struct AccountError {
  kj::StringPtr reason;  // of the event: ErrRolesNotAllowed
  kj::String message;
};
// Returns why an account gets no Secret; `secret` is the existing one of its name, if any.
kj::Maybe<AccountError> accountError(const PodAccount& account, kj::Maybe<const kube::Json&> secret,
                                     const AccessPolicy& policy);

// Returns why the Secret of an account must be written again; nullptr if it is right.
kj::Maybe<kj::StringPtr> renewalCause(const kube::Json& secret, const PodAccount& account,
                                      kj::StringPtr ca, kj::Date now);

// Returns the Secret of an account, with a client configuration. It holds the key: the caller must
// wipe it.
kube::Json accountSecret(const PodAccount& account, kj::StringPtr ca, kj::StringPtr certificate,
                         const pki::Pem& key);

// `type`: Normal or Warning. `number` makes the name unique.
kube::Json accountEvent(const PodAccount& account, kj::StringPtr type, kj::StringPtr reason,
                        kj::StringPtr message, uint64_t number, kj::Date now);

// Returns the patch of an account's status; an empty text removes the failure.
kube::Json failurePatch(kj::StringPtr failure);

// Returns the Endpoints of the Service, which has no selector: apid of these nodes.
kube::Json accessEndpoints(kj::ArrayPtr<const kj::String> addresses);

}  // namespace talos::kubed
