#include "kubed/nodes/join-approver.h"

#include "common/base/error.h"
#include "common/kube/node-object.h"
#include "kubed/nodes/superseded-nodes.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kSigner = "kubernetes.io/kube-apiserver-client-kubelet"_kj,
                        kBootstrappers = "system:bootstrappers"_kj;
constexpr size_t kMostHeld = 64;

}  // namespace

kj::String kubeletRequests() {
  return kj::str("spec.signerName=", kSigner);
}

bool awaitsApproval(const kube::Json& request) {
  if (kube::textAt(request, {"spec", "signerName"}) != kSigner) return false;
  if (!kube::itemsAt(request, {"status", "conditions"}).empty()) return false;
  if (kube::textAt(request, {"status", "certificate"}).size() > 0) return false;
  for (auto group : kube::itemsAt(request, {"spec", "groups"})) {
    if (*group == kBootstrappers.cStr()) return true;
  }
  return false;
}

// Returns why a machine must not get a name besides that of another Node object: a machine that is
// a node already gets no second name, which another node, or a control plane, may be going to have.
// It may replace a name that it no longer uses.
kj::Maybe<kj::String> RegistrationCheck::otherNodeError(const kube::Json& registered) {
  auto other = recordOf(registered);
  if (!haveAddressInCommon(other.addresses, node.addresses)) return nullptr;
  auto isOfNode = kj::str("the address ", kj::strArray(node.addresses, ", "),
                          " is that of the node ", other.name);
  if (other.controlPlane) {
    return kj::str(isOfNode,
                   ", which is a control plane's; delete its Node object if that node is "
                   "gone, or is ",
                   node.name, " now");
  }
  if (!isAway(other, now)) {
    return kj::str(isOfNode, ", which has not been NotReady for ", kLeftAfter / kj::SECONDS,
                   " s; wait, or delete its Node object if it is ", node.name, " now");
  }
  KJ_IF_MAYBE (name, earlier) {
    return kj::str(isOfNode, ", and of ", *name,
                   "; delete the Node objects of nodes that are gone");
  }
  earlier = kj::str(other.name);
  return nullptr;
}

void RegistrationCheck::add(const kube::Json& registered) {
  if (error != nullptr) return;
  if (kube::nameOf(registered) != node.name) {
    error = otherNodeError(registered);
    return;
  }
  auto there = recordOf(registered);
  auto asked = kj::strArray(node.addresses, ", ");
  if (there.controlPlane) {
    error = kj::str(node.name, " is a control-plane node, which signs its own certificate");
  } else if (there.addresses.empty()) {
    error = kj::str("the node ", node.name,
                    " is registered without an InternalIP; wait until it "
                    "has one, or delete the Node object if the node is to join again");
  } else if (!haveAddressInCommon(there.addresses, node.addresses)) {
    error = kj::str("the node ", node.name, " has the address ",
                    kj::strArray(there.addresses, ", "), ", but the request is from ", asked,
                    "; delete the Node object if the node has moved");
  }
}

kj::Promise<void> JoinApprover::run() {
  return WatchReconciler::run().exclusiveJoin(lookAgain());
}

void JoinApprover::startList() {
  proven.clear();
  held.clear();
}

// Verifies a request at once, so that requests of strangers are not kept.
void JoinApprover::take(const kube::Json& request, bool deleted) {
  auto name = kube::nameOf(request);
  proven.erase(name);
  held.erase(name);
  if (deleted || !awaitsApproval(request)) return;
  auto failure = kj::runCatchingExceptions([&] {
    auto node = kube::proveNode(request, machineCa, clock.now());
    auto version = kj::str(kube::textAt(request, {"metadata", "resourceVersion"}));
    proven.insert(kj::str(name), Proven{kj::mv(version), kj::mv(node), kj::str()});
  });
  KJ_IF_MAYBE (e, failure) {
    refuse(name, kube::textAt(request, {"spec", "username"}), messageOf(*e));
  }
}

kj::Promise<void> JoinApprover::publish() {
  return decide(kj::mv(proven));
}

kj::Promise<void> JoinApprover::lookAgain() {
  for (;;) {
    co_await timer.afterDelay(again);
    // The watch detects a server that cannot be reached, and lists the requests again.
    if (kubernetes.get() != nullptr) co_await decide(kj::mv(held)).catch_([](kj::Exception&&) {});
  }
}

// Keeps the requests that fail, and throws the failure.
kj::Promise<void> JoinApprover::decide(Requests requests) {
  if (requests.size() == 0) co_return;
  auto server = kj::addRef(*kubernetes);
  kj::TreeMap<kj::StringPtr, RegistrationCheck> checks;
  for (auto& request : requests) {
    checks.insert(request.key, RegistrationCheck(request.value.node, clock.now()));
  }
  kj::Maybe<kj::Exception> failure;
  co_await (**server)
      .visit(kube::coreResource("nodes", "Node", false), "", {},
             [&](const kube::Json& registered) {
               for (auto& check : checks) check.value.add(registered);
             })
      .ignoreResult()
      .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  bool unknown = failure != nullptr;
  for (auto& request : requests) {
    auto& check = KJ_ASSERT_NONNULL(checks.find(request.key));
    KJ_IF_MAYBE (error, check.error) {
      hold(request.key, kj::mv(request.value), kj::mv(*error));
      continue;
    }
    bool decided = false;
    if (!unknown) {
      co_await approve(*server, request.key, request.value)
          .then([&] { decided = true; }, [&](kj::Exception&& e) { failure = kj::mv(e); });
    }
    if (!decided) keep(request.key, kj::mv(request.value));
  }
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
}

kj::Promise<void> JoinApprover::approve(SharedKube& server, kj::StringPtr name,
                                        const Proven& request) {
  auto& node = request.node;
  auto addresses = kj::strArray(node.addresses, ", ");
  auto message = kj::str("the node ", node.name, " has shown this name and the address ", addresses,
                         " to trustd");
  bool done = co_await CertificateApprover::approve(server, name, request.version, "ShownToTrustd",
                                                    message);
  if (done && lines.admits(node.name)) {
    log::info("approved the certificate request of a kubelet",
              {{"node", node.name}, {"request", name}, {"address", addresses}});
  }
}

void JoinApprover::hold(kj::StringPtr name, Proven request, kj::String error) {
  if (request.error != error) refuse(name, request.node.name, error);
  request.error = kj::mv(error);
  keep(name, kj::mv(request));
}

void JoinApprover::keep(kj::StringPtr name, Proven request) {
  if (held.size() < kMostHeld && held.find(name) == nullptr) {
    held.insert(kj::str(name), kj::mv(request));
  }
}

void JoinApprover::refuse(kj::StringPtr name, kj::StringPtr peer, kj::StringPtr error) {
  lines.warn("the certificate request of a kubelet is left to an administrator", peer, peer,
             kj::str(name, ": ", error));
}

}  // namespace talos::kubed
