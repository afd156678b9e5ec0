// Approves the certificate requests of workers' kubelets ("TLS bootstrapping" in Kubernetes'
// reference), on every control-plane node, in place of the controller manager, which would approve
// each request of a bootstrap token, for the name of any node.
//
// A request is approved for the name that its node has proved to trustd, with a key that trustd has
// signed (common/kube/node-proof.h), on two conditions. A Node object of this name, if it exists,
// must not be a control plane's, and one of its addresses must be one that trustd saw. And no other
// Node object may have one of the addresses: a node gets no second name. A host name that another
// Node object reports blocks no name, because it may be anything. A renamed worker gets its new
// name when the old one has not been Ready for a minute (superseded-nodes.h). All other requests
// are left for an administrator (`kubectl certificate approve`), with a line in the log. Requests
// that were not made with a bootstrap token are ignored: the controller manager approves a node's
// own renewals.
//
// Requests are watched; each is checked when it appears and whenever the list is read again, every
// few minutes. A few requests that a Node object blocks are kept and checked every few seconds. All
// control-plane nodes do this at once: the first one approves, the others find the request
// approved. After a crash the list is read again.
#pragma once

#include "common/kube/node-proof.h"
#include "kubed/nodes/certificate-approver.h"

namespace talos::kubed {

// Returns the field selector of requests for the client certificate of a kubelet.
kj::String kubeletRequests();
// Returns true for an undecided request that a bootstrap token has made for a kubelet. Pure.
bool awaitsApproval(const kube::Json& request);
// Checks all registered nodes, one by one, for one that blocks a node that joins, under the same
// name or another. Pure.
class RegistrationCheck {
 public:
  RegistrationCheck(const kube::ProvenNode& node, kj::Date now) : node(node), now(now) {}
  void add(const kube::Json& registered);
  kj::Maybe<kj::String> error;  // the first one; nullptr if the node may have its name

 private:
  const kube::ProvenNode& node;
  kj::Date now;
  kj::Maybe<kj::String> earlier;  // former name of the machine

  kj::Maybe<kj::String> otherNodeError(const kube::Json& registered);
};

class JoinApprover final : public CertificateApprover {
 public:
  // `again`: time between two checks of requests that a Node object blocks.
  JoinApprover(const KubedDependencies& deps, const kj::MonotonicClock& monotonic,
               kj::Duration again = 10 * kj::SECONDS)
      : CertificateApprover(deps, monotonic, kubeletRequests(),
                            "cannot watch the certificate requests of kubelets; retrying"),
        again(again) {}
  ~JoinApprover() noexcept(false) = default;

  kj::Promise<void> run();  // until dropped

 private:
  struct Proven {
    kj::String version;
    kube::ProvenNode node;
    kj::String error;  // why it was left; empty if it is new
  };
  using Requests = kj::TreeMap<kj::String, Proven>;  // by the name of the request
  const kj::Duration again;
  Requests proven, held;  // held: a Node object blocks them

  void startList() override;
  void take(const kube::Json& request, bool deleted) override;
  kj::Promise<void> publish() override;
  kj::Promise<void> lookAgain();
  kj::Promise<void> decide(Requests requests);
  kj::Promise<void> approve(SharedKube& server, kj::StringPtr name, const Proven& request);
  void hold(kj::StringPtr name, Proven request, kj::String error);
  void keep(kj::StringPtr name, Proven request);
  void refuse(kj::StringPtr name, kj::StringPtr node, kj::StringPtr error);
};

}  // namespace talos::kubed
