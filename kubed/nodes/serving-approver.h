// Approves the requests of kubelets for the certificates with which they serve, on every
// control-plane node: the controller manager signs them, but approves none.
//
// A request is approved if each of its addresses proves that it is the node's (serving-request.h):
// kubed calls the machine API there. Renewals, and requests for other addresses, are handled in the
// same way. All other requests stay open for an administrator or another approver, with the cause
// in the log and in an Event of the request; none is denied, because a kubelet whose request was
// denied makes another one at once. Kubernetes removes requests that stay open after a day.
//
// Requests are watched. Only the newest request of a node is held, because a kubelet that makes
// another one has given up the earlier; so a node occupies one place, however many requests it
// makes. kMostCalled addresses are called at a time, those of the requests that have waited longest
// first; an address that does not answer delays the others by kProofLimit. A request without proof
// is checked again after kFirstProof, doubling up to kLongestProof. Another request of its node is
// checked kFirstProof after the earlier one, so that a node that makes requests all the time does
// not make kubed call addresses all the time. Every control-plane node does this: the first one
// approves, the others find the request approved. After a crash the list is read again.
#pragma once

#include "common/net/host-dial.h"
#include "kubed/nodes/certificate-approver.h"
#include "kubed/nodes/serving-request.h"

namespace talos::kubed {

constexpr auto kProofLimit = 5 * kj::SECONDS;
constexpr auto kFirstProof = 2 * kj::SECONDS, kLongestProof = 2 * kj::MINUTES;
constexpr size_t kMostCalled = 64;
static_assert(kMostCalled >= kMostServingAddresses);

// Returns the certificate (PEM) that the machine API at an address shows; rejects if none answers.
using ShownAt = kj::Function<kj::Promise<kj::String>(kj::String address)>;
ShownAt shownByApi(DialDependencies dialing);

class ServingApprover final : public CertificateApprover {
 public:
  ServingApprover(const KubedDependencies& deps, const kj::MonotonicClock& monotonic, ShownAt shown,
                  kj::Duration first = kFirstProof)
      : CertificateApprover(
            deps, monotonic, servingRequests(),
            "cannot watch the requests of kubelets for serving certificates; retrying"),
        shown(kj::mv(shown)),
        first(first) {}
  ~ServingApprover() noexcept(false) = default;

  kj::Promise<void> run();  // until dropped

 private:
  struct Open {
    kj::String name, uid, version, created;
    kj::Maybe<ServingRequest> request;  // nullptr: it can never be approved
    kj::String error;                   // why it was left; empty if it is new
    kj::TimePoint due = kj::origin<kj::TimePoint>();
    kj::Duration pause = 0 * kj::SECONDS;
    bool reported = false;  // `error` is in an Event
  };
  // A copy, because the open requests change while addresses are called.
  struct Candidate {
    kj::String key, name, version;
    ServingRequest request;
  };
  ShownAt shown;
  const kj::Duration first;
  kj::TreeMap<kj::String, Open> open;  // by the user who made the request
  Signal woken;

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override { open.clear(); }
  void take(const kube::Json& request, bool deleted) override;
  kj::Promise<void> publish() override;
  void drop(kj::StringPtr name);
  void leave(Open& request, kj::StringPtr user, kj::String error);
  kj::Maybe<Open&> find(const Candidate& candidate);
  kj::Promise<void> decideAgainAndAgain();
  kj::Promise<void> decideDue();
  kj::Vector<Candidate> takeDue();
  kj::Promise<kj::String> proofError(const ServingRequest& request, kj::StringPtr authority);
  kj::Promise<kj::String> proofErrorAt(kj::StringPtr node, kj::StringPtr address,
                                       kj::StringPtr authority);
  kj::Promise<void> approve(SharedKube& server, const Candidate& candidate);
  kj::Promise<void> reportLeft();
  kj::Duration untilDue() const;
};

}  // namespace talos::kubed
