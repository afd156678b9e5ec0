// Approves the certificate requests of workers' kubelets ("TLS bootstrapping" in Kubernetes'
// reference), on every control-plane node, in place of the controller manager: that one approves
// each request of a bootstrap token, for the name of any node.
//
// A request is approved for the name that its node has shown to trustd, with a key that trustd has
// signed (common/kube/node-proof.h). If there is a Node object of that name, it is no control
// plane's, and one of its addresses is one that trustd saw. No other Node object has one of the
// addresses: a node gets no second name. A host name that another Node object reports takes no name
// away: it may be anything. A renamed worker gets its new name when the old one has not been Ready
// for a minute (superseded-nodes.h). All others are left for an administrator (`kubectl certificate
// approve`), with a line in the log. Requests that no
// bootstrap token has made are not looked at: the controller manager approves renewals of a node's
// own.
//
// Requests are watched; each is looked at when it appears and whenever the list is read again,
// every few minutes. A few that a Node object stands in the way of are kept and looked at every few
// seconds. All control-plane nodes do this at once: the first one approves, the others find it
// done. After a crash the list is read again.
#pragma once

#include "common/kube/node-proof.h"
#include "common/wire/log-line-limit.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

// The field selector of requests for the client certificate of a kubelet.
kj::String kubeletRequests();
// A request that a bootstrap token has made for a kubelet, and that nobody has decided on. Pure.
bool awaitsApproval(const kube::Json& request);
// Looks at all registered nodes, one by one, for one that stands in the way of a node that joins,
// under the same name or another. Pure.
class RegistrationCheck {
 public:
  RegistrationCheck(const kube::ProvenNode& node, kj::Date now) : node(node), now(now) {}
  void add(const kube::Json& registered);
  kj::Maybe<kj::String> error;  // the first one; none: the node may have its name

 private:
  const kube::ProvenNode& node;
  kj::Date now;
  kj::Maybe<kj::String> earlier;  // the name that the machine had before

  kj::Maybe<kj::String> otherNodeError(const kube::Json& registered);
};
// The patch that approves the request of this version, and not a later one. Pure.
kube::Json approvalOf(kj::StringPtr version, const kube::ProvenNode& node, kj::Date now);

class JoinApprover final : public WatchReconciler {
 public:
  // `again`: between two looks at what a Node object stands in the way of.
  JoinApprover(const KubedDependencies& deps, const kj::MonotonicClock& monotonic,
               kj::Duration again = 10 * kj::SECONDS)
      : WatchReconciler(deps.timer, deps.random, deps.changed),
        adapter(deps.adapter),
        timer(deps.timer),
        clock(deps.clock),
        lines(monotonic),
        again(again) {}
  ~JoinApprover() noexcept(false) = default;

  kj::Promise<void> run();  // until dropped

 private:
  struct Proven {
    kj::String version;
    kube::ProvenNode node;
    kj::String error;  // that it was left for; empty: it is new
  };
  using Requests = kj::TreeMap<kj::String, Proven>;  // by the name of the request
  KubernetesStoreAdapter& adapter;
  kj::Timer& timer;
  const kj::Clock& clock;
  LineLimit lines;
  const kj::Duration again;
  kj::String machineCa;
  kj::Own<SharedKube> kubernetes;  // that is watched
  Requests proven, held;           // held: a Node object stands in their way
  kj::String logged;               // the last error

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override;
  void take(const kube::Json& request, bool deleted) override;
  kj::Promise<void> publish() override;
  void watchStarted() override { logged = kj::str(); }
  kj::Promise<void> failed(kj::String error) override;
  kj::Promise<void> lookAgain();
  kj::Promise<void> decide(Requests requests);
  kj::Promise<void> approve(SharedKube& server, kj::StringPtr name, const Proven& request);
  void hold(kj::StringPtr name, Proven request, kj::String error);
  void keep(kj::StringPtr name, Proven request);
  void refuse(kj::StringPtr name, kj::StringPtr node, kj::StringPtr error);
};

}  // namespace talos::kubed
