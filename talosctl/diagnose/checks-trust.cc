// Authorities, and the certificate that a worker gets from trustd.
#include "common/base/date.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Authority = rpc::Observations::Authority::Reader;

kj::String timesOf(Authority authority) {
  return kj::str("valid from ", dateText(kj::UNIX_EPOCH + authority.getNotBefore() * kj::SECONDS),
                 " until ", dateText(kj::UNIX_EPOCH + authority.getNotAfter() * kj::SECONDS));
}

kj::StringPtr ownerOf(kj::StringPtr key) {
  if (key == "machine.ca") return "the machine API";
  if (key == "cluster.ca") return "Kubernetes";
  if (key == "cluster.etcd.ca") return "etcd";
  return "the aggregation layer of Kubernetes";
}

kj::Maybe<Authority> authorityOf(SeenNode node, kj::StringPtr key) {
  for (auto authority : node.getFacts().getAuthorities()) {
    if (authority.getKey() == key) return authority;
  }
  return nullptr;
}

}  // namespace

void checkAuthorityTimes(Seen seen, Report& report) {
  auto now = seen.getNow() / 1'000'000'000;
  for (auto node : seen.getNodes()) {
    for (auto authority : node.getFacts().getAuthorities()) {
      bool over = now > authority.getNotAfter();
      if (!over && now >= authority.getNotBefore()) continue;
      auto what = kj::str("the CA of ", ownerOf(authority.getKey()), " (", authority.getKey(), ") ",
                          over ? "has expired" : "is not yet valid");
      auto& finding = over ? report.certain(node, kj::mv(what)) : report.likely(node, kj::mv(what));
      finding.shows(node, "get machineconfig -o yaml", timesOf(authority))
          .mend(kj::str("make a new CA (talosctl gen ca), and set ", authority.getKey(),
                        " in the configs of all nodes"));
    }
  }
}

// Compared with the first control-plane node that tells its own.
void checkAuthoritiesEqual(Seen seen, Report& report) {
  for (auto key : {"machine.ca"_kj, "cluster.ca"_kj, "cluster.etcd.ca"_kj}) {
    kj::Maybe<SeenNode> first;
    for (auto node : seen.getNodes()) {
      if (first == nullptr && isControlPlane(node) && authorityOf(node, key) != nullptr)
        first = node;
    }
    KJ_IF_MAYBE (model, first) {
      auto right = KJ_ASSERT_NONNULL(authorityOf(*model, key)).getFingerprint();
      for (auto node : seen.getNodes()) {
        KJ_IF_MAYBE (own, authorityOf(node, key)) {
          if (own->getFingerprint() == right) continue;
          report
              .certain(node, kj::str(key, " is not that of ", model->getAddress(),
                                     ": the config is of another cluster"))
              .shows(node, "get machineconfig -o yaml",
                     kj::str("the CA's key is ", own->getFingerprint(), ", not ", right))
              .mend(node, "edit machineconfig    # copy the certificate of a control-plane node");
        }
      }
    }
  }
}

// Of a node without a certificate the health of apid is all that can be read.
void checkJoin(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    kj::StringPtr why;
    kj::StringPtr source = "get joinstatus";
    if (node.getReach() == Reach::UNVERIFIED) {
      source = "service apid";
      KJ_IF_MAYBE (apid, serviceOf(node, "apid")) why = apid->getHealth().getLastMessage();
    } else if (node.getJoins() && !node.getJoin().getReady()) {
      why = node.getJoin().getMessage();
    } else {
      continue;
    }
    if (has(why, "wrong token")) {
      report
          .certain(node,
                   kj::str("trustd refuses the token of the node: its machine.token is not that "
                           "of the control plane"))
          .shows(node, source, why)
          .mend(setInConfig(node, "/machine/token", "\"<machine.token of a control-plane node>\""));
    } else if (failureOf(why) == DialFailure::kCertificate) {
      report
          .certain(node, kj::str("trustd and the node do not trust each other, so it gets no "
                                 "certificate for its API"))
          .shows(node, source, why)
          .mend(kj::str("compare machine.ca of its config with that of the control plane"));
    } else {
      auto failure = failureOf(why);
      report
          .likely(node, kj::str("the node gets no certificate for its API from trustd",
                                failure == DialFailure::kOther ? ""_kj : ": "_kj,
                                failure == DialFailure::kOther ? ""_kj : wordsOf(failure)))
          .shows(node, source, why)
          .mend(kj::str("make port 50001 of the control plane reachable from it: "
                        "cluster.controlPlane.endpoint, cluster.trustd.endpoints"));
    }
  }
}

}  // namespace talos::talosctl
