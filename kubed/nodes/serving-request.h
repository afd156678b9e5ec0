// Requests of kubelets for the certificates with which they serve (signer
// kubernetes.io/kubelet-serving), and the proof of the names and addresses in them.
//
// A kubelet requests its host name and the addresses of its Node object, which it writes itself, so
// the object proves nothing. The proof is the certificate of the machine API, which trustd has
// signed for a name and for addresses from which the machine called (trustd/signing-policy.h): a
// control-plane node calls each address of the request, and the machine that answers there must
// show a certificate for the node's name and this address, and have its key. So a node gets a
// certificate for the addresses at which the control plane reaches it under this name, and no
// other. A control-plane node signs the certificate of its API itself, and its names prove as much
// as the key of the CA that it has.
//
// The only DNS name is that of the Node: trustd may have signed further names (machine.certSANs),
// but clients in the cluster trust the CA of Kubernetes for names of Services, too. Pure. Foreign
// bytes.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/kube/json.h"

namespace talos::kubed {

// Sizes of an ordinary request: 500 bytes, and one or two addresses.
constexpr size_t kMostServingRequest = 16u << 10, kMostServingAddresses = 16;

// Returns the field selector of these requests.
kj::String servingRequests();
// Returns true for an undecided request for a kubelet's serving certificate, of any user.
bool awaitsServingApproval(const kube::Json& request);

struct ServingRequest {
  kj::String node;
  kj::Vector<kj::String> addresses;

  ServingRequest clone() const;
};
// Reads the request that a kubelet made with its client certificate. Throws InvalidArgument, with a
// sentence for an operator, unless requester, subject, usages and names are those of one node.
ServingRequest readServingRequest(const kube::Json& request);

// Returns the reason why the certificate that was shown at an address (PEM) does not prove that it
// is the node's; nullptr if it does. `machineCa`: the trusted CAs of the machine API.
kj::Maybe<kj::String> servingProofError(kj::StringPtr node, kj::StringPtr address,
                                        kj::StringPtr shown, kj::StringPtr machineCa, kj::Date now);

// Returns an Event about a request that is left open, as `kubectl describe csr` shows it. Its name
// derives from the request and the message, so that it is made once.
kube::Json leftOpenEvent(kj::StringPtr name, kj::StringPtr uid, kj::StringPtr message,
                         kj::Date now);

}  // namespace talos::kubed
