// Checks the CAs, and the certificate that a worker gets from trustd.
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

void checkAuthorityTimes(ObservedNode node, int64_t now, Findings& findings) {
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

// Compares each node's CA with the CA of the first control-plane node that reports one.
void checkAuthoritiesEqual(ObservedCluster cluster, kj::StringPtr key, Findings& findings) {
  kj::Maybe<ObservedNode> model;
  for (auto node : cluster.getNodes()) {
    bool known = node.getControlPlane() && authorityOf(node, key) != nullptr;
    if (model == nullptr && known) model = node;
  }
  KJ_IF_MAYBE (first, model) {
    auto expected = KJ_ASSERT_NONNULL(authorityOf(*first, key)).getFingerprint();
    for (auto node : cluster.getNodes()) {
      KJ_IF_MAYBE (own, authorityOf(node, key)) {
        if (own->getFingerprint() == expected) continue;
        findings.add(Illness::kAuthorityDiffers, node)
            .with("key", key)
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

void checkJoin(ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (problem, joinProblem(node)) {
    auto failure = failureOf(problem->text);
    findings
        .add(has(problem->text, messages::kWrongToken) ? Illness::kJoinTokenRefused
             : failure == FailureKind::kCertificate    ? Illness::kJoinUntrusted
                                                       : Illness::kJoinFailed,
             node)
        .with(*problem)
        .with("failure", describe(failure));
  }
}

}  // namespace

void checkTrust(ObservedCluster cluster, Findings& findings) {
  for (auto node : cluster.getNodes()) {
    checkAuthorityTimes(node, cluster.getNow() / kSecondNs, findings);
    checkJoin(node, findings);
  }
  for (auto key : {"machine.ca"_kj, "cluster.ca"_kj, "cluster.etcd.ca"_kj}) {
    checkAuthoritiesEqual(cluster, key, findings);
  }
}

}  // namespace talos::talosctl
