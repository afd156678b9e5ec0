// Checks the CAs, and the certificate that a worker gets from trustd.
#include <string.h>

#include "common/base/node-messages.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Authority = rpc::Observations::Authority::Reader;

kj::StringPtr ownerOf(kj::StringPtr key) {
  if (key == "machine.ca") return "the machine API";
  if (key == "cluster.ca") return "Kubernetes";
  return key == "cluster.etcd.ca" ? "etcd"_kj : "the aggregation layer of Kubernetes"_kj;
}

kj::Maybe<Authority> authorityOf(ObservedNode node, kj::StringPtr key) {
  for (auto authority : node.getFacts().getAuthorities()) {
    if (authority.getKey() == key) return authority;
  }
  return nullptr;
}

// By the clock of the node, because the node compares.
void checkAuthorityTimes(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  auto now = nowOn(cluster, node) / kSecondNs;
  for (auto authority : node.getFacts().getAuthorities()) {
    auto notBefore = authority.getNotBefore(), notAfter = authority.getNotAfter();
    if (now >= notBefore && now <= notAfter) continue;
    bool expired = now > notAfter;
    findings.add(expired ? Illness::kAuthorityExpired : Illness::kAuthorityNotYetValid, node)
        .with("key", authority.getKey())
        .with("owner", ownerOf(authority.getKey()))
        .with("validity", validity(notBefore, notAfter));
  }
}

// Returns the flags of rotate-ca with which only this CA is replaced.
kj::StringPtr rotationFlags(kj::StringPtr key) {
  if (key == "machine.ca") return "--kubernetes=false ";
  return key == "cluster.ca" ? "--talos=false "_kj : "--etcd-ca "_kj;
}

// Compares each node's CA with the CA of the first control-plane node that reports one.
void checkAuthoritiesEqual(ObservedCluster cluster, kj::StringPtr key, Findings& findings) {
  kj::Maybe<ObservedNode> model;
  for (auto node : cluster.getNodes()) {
    bool known = node.getControlPlane() && authorityOf(node, key) != nullptr;
    if (model == nullptr && known) model = node;
  }
  KJ_IF_MAYBE (first, model) {
    auto reference = KJ_ASSERT_NONNULL(authorityOf(*first, key));
    auto expected = reference.getFingerprint();
    for (auto node : cluster.getNodes()) {
      KJ_IF_MAYBE (own, authorityOf(node, key)) {
        if (own->getFingerprint() == expected) continue;
        bool rotates = lists(own->getAccepted(), expected) ||
                       lists(reference.getAccepted(), own->getFingerprint());
        findings.add(rotates ? Illness::kAuthorityRotates : Illness::kAuthorityDiffers, node)
            .with("key", key)
            .with("flags", rotationFlags(key))
            .with("model", first->getAddress())
            .with("fingerprint", own->getFingerprint())
            .with("expected", expected);
      }
    }
  }
}

// Returns the problem that apid's health reports; nothing else can be read from a node without a
// certificate.
kj::Maybe<Statement> joinProblem(ObservedNode node) {
  if (node.getReach() == Reach::UNVERIFIED) {
    auto health = serviceOf(node, "apid").orDefault(rpc::Service::Reader()).getHealth();
    return Statement{kj::str("service apid"), kj::str(health.getLastMessage())};
  }
  if (!node.getJoins() || node.getJoin().getReady()) return nullptr;
  return Statement{kj::str("get joinstatus"), kj::str(node.getJoin().getMessage())};
}

// Returns the error itself, without the validity of a certificate that the node still has.
kj::String joinError(kj::StringPtr text) {
  auto own = strstr(text.cStr(), messages::kOwnCertificate.cStr());
  auto end = own == nullptr ? nullptr : strstr(own, "; ");
  return kj::str(end == nullptr ? text.cStr() : end + 2);
}

Illness joinIllness(kj::StringPtr text) {
  if (hasAny(text, {messages::kWrongToken, messages::kTooManyFailed})) {
    return Illness::kJoinTokenRefused;
  }
  if (has(text, messages::kTokenOfName)) return Illness::kJoinTokenOfOtherName;
  if (has(text, messages::kUnverifiedToken)) return Illness::kJoinTokenUnverified;
  if (has(text, messages::kJoinToken)) return Illness::kJoinTokenEnded;
  if (hasAny(text, {messages::kNoToken, messages::kNoControlPlane})) return Illness::kJoinConfig;
  if (has(text, messages::kNotOfControlPlane)) return Illness::kJoinOtherPeer;
  auto failure = failureOf(text);
  if (isNameFailure(failure)) return Illness::kJoinName;
  switch (failure) {
    case FailureKind::kCertificateTime:
      return Illness::kJoinTimes;
    case FailureKind::kCertificate:
    case FailureKind::kCertificateName:
      return Illness::kJoinUntrusted;
    case FailureKind::kNoTls:
      return Illness::kJoinOtherPeer;
    case FailureKind::kRefused:
      return Illness::kJoinNoTrustd;
    default:
      return isConnectionFailure(failure) ? Illness::kJoinFailed : Illness::kJoinRefused;
  }
}

// Without a certificate a node takes no config from a client, so another remedy is needed.
kj::StringPtr remedyWithoutApi(Illness illness) {
  switch (illness) {
    case Illness::kJoinTokenRefused:
      return "erase the node and start it with the machine.token of a control-plane node: without "
             "a certificate it takes no other config";
    case Illness::kJoinTokenEnded:
      return "talosctl -n <control-plane node> token create    # erase the node and start it with "
             "this machine.token: without a certificate it takes no other config";
    case Illness::kJoinTokenOfOtherName:
      return "talosctl -n <control-plane node> token create --hostname <host name of {node}>    # "
             "erase the node and start it with this machine.token: without a certificate it takes "
             "no other config";
    case Illness::kJoinConfig:
    case Illness::kJoinOtherPeer:
      return "erase the node and start it with machine.token and cluster.controlPlane.endpoint of "
             "the cluster: without a certificate it takes no other config";
    default:
      return nullptr;
  }
}

void checkJoin(ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (problem, joinProblem(node)) {
    auto text = joinError(problem->text);
    auto illness = joinIllness(text);
    auto& finding =
        findings.add(illness, node).with(*problem).with("failure", describe(failureOf(text)));
    // A wrong token is the usual reason of the failures, which the answer does not repeat.
    if (!has(text, messages::kWrongToken) && has(text, messages::kTooManyFailed)) {
      finding.certainIf(false);
    }
    auto other = remedyWithoutApi(illness);
    if (node.getReach() == Reach::UNVERIFIED && other != nullptr) finding.useRemedy(other);
  }
}

}  // namespace

void checkTrust(ObservedCluster cluster, Findings& findings) {
  for (auto node : cluster.getNodes()) {
    checkAuthorityTimes(cluster, node, findings);
    checkJoin(node, findings);
  }
  for (auto key : {"machine.ca"_kj, "cluster.ca"_kj, "cluster.etcd.ca"_kj}) {
    checkAuthoritiesEqual(cluster, key, findings);
  }
}

}  // namespace talos::talosctl
