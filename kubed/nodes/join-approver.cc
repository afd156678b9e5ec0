#include "kubed/nodes/join-approver.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/kube/node-object.h"
#include "common/net/ip.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kSigner = "kubernetes.io/kube-apiserver-client-kubelet"_kj,
                        kBootstrappers = "system:bootstrappers"_kj;
constexpr size_t kMostNodeAddresses = 16;

bool isNamed(kj::StringPtr address, kj::ArrayPtr<const kj::String> addresses) {
  auto one = Ip::parse(address);
  for (auto& text : addresses) {
    auto other = Ip::parse(text);
    KJ_IF_MAYBE (a, one) {
      KJ_IF_MAYBE (b, other) {
        if (a->unmapped() == b->unmapped()) return true;
      }
    }
  }
  return false;
}

}  // namespace

bool awaitsApproval(const kube::Json& request) {
  if (kube::textAt(request, {"spec", "signerName"}) != kSigner) return false;
  if (!kube::itemsAt(request, {"status", "conditions"}).empty()) return false;
  if (kube::textAt(request, {"status", "certificate"}).size() > 0) return false;
  for (auto group : kube::itemsAt(request, {"spec", "groups"})) {
    if (*group == kBootstrappers.cStr()) return true;
  }
  return false;
}

namespace {

bool hasHostname(const kube::Json& registered, kj::StringPtr name) {
  for (auto address : kube::itemsAt(registered, {"status", "addresses"})) {
    if (kube::textAt(*address, {"type"}) == "Hostname" &&
        kube::textAt(*address, {"address"}) == name) {
      return true;
    }
  }
  return false;
}

// A machine that is a node already gets no second name: that may be one that another node, or a
// control plane, is going to have.
kj::Maybe<kj::String> otherNodeError(const kube::ProvenNode& node, const kube::Json& registered) {
  auto name = kube::nameOf(registered);
  if (hasHostname(registered, node.name)) {
    return kj::str(node.name, " is the host name of the node ", name);
  }
  for (auto& address : kube::internalAddressesOf(registered, kMostNodeAddresses)) {
    if (isNamed(address, node.addresses)) {
      return kj::str("the address ", address, " is that of the node ", name,
                     "; delete its Node object if that node is gone, or is ", node.name, " now");
    }
  }
  return nullptr;
}

}  // namespace

kj::Maybe<kj::String> registrationError(const kube::ProvenNode& node,
                                        const kube::Json& registered) {
  if (kube::nameOf(registered) != node.name) return otherNodeError(node, registered);
  if (kube::isControlPlane(registered)) {
    return kj::str(node.name, " is a control-plane node, which signs its own certificate");
  }
  auto addresses = kube::internalAddressesOf(registered, kMostNodeAddresses);
  for (auto& address : addresses) {
    if (isNamed(address, node.addresses)) return nullptr;
  }
  if (addresses.empty()) {
    return kj::str("the node ", node.name,
                   " is registered without an InternalIP; wait until it "
                   "has one, or delete the Node object if the node is to join again");
  }
  return kj::str("the node ", node.name, " has the address ", kj::strArray(addresses, ", "),
                 ", but the request is from ", kj::strArray(node.addresses, ", "),
                 "; delete the Node object if the node has moved");
}

kube::Json approvalOf(kj::StringPtr version, const kube::ProvenNode& node, kj::Date now) {
  auto message = kj::str("the node ", node.name, " has shown this name and the address ",
                         kj::strArray(node.addresses, ", "), " to trustd");
  return {{"metadata", {{"resourceVersion", version.cStr()}}},
          {"status",
           {{"conditions", kube::Json::array({{{"type", "Approved"},
                                               {"status", "True"},
                                               {"reason", "ShownToTrustd"},
                                               {"message", message.cStr()},
                                               {"lastUpdateTime", dateText(now).cStr()}}})}}}};
}

kj::Promise<kj::Maybe<WatchReconciler::Selection>> JoinApprover::select() {
  machineCa = adapter.machineCa();
  kubernetes = nullptr;
  auto client = adapter.client();
  KJ_IF_MAYBE (found, client.tryGet<kj::Own<SharedKube>>()) {
    if (machineCa.size() > 0) {
      kubernetes = kj::addRef(**found);
      return kj::Maybe<Selection>(Selection{.kubernetes = kj::mv(*found),
                                            .resource = kube::certificateRequests(),
                                            .fields = kj::str("spec.signerName=", kSigner),
                                            .keepsNone = true});
    }
  }
  return kj::Maybe<Selection>(nullptr);
}

// Verified at once, so that what anybody else sends in is not kept.
void JoinApprover::take(const kube::Json& request, bool deleted) {
  auto name = kube::nameOf(request);
  proven.erase(name);
  if (deleted || !awaitsApproval(request)) return;
  auto failure = kj::runCatchingExceptions([&] {
    auto node = kube::proveNode(request, machineCa, clock.now());
    auto version = kj::str(kube::textAt(request, {"metadata", "resourceVersion"}));
    proven.insert(kj::str(name), Proven{kj::mv(version), kj::mv(node)});
  });
  KJ_IF_MAYBE (e, failure) {
    refuse(name, kube::textAt(request, {"spec", "username"}), messageOf(*e));
  }
}

kj::Promise<void> JoinApprover::publish() {
  while (proven.size() > 0) {
    auto first = proven.begin();
    auto name = kj::str(first->key);
    auto request = kj::mv(first->value);
    proven.erase(name);
    co_await decide(name, request);
  }
}

kj::Promise<void> JoinApprover::decide(kj::StringPtr name, const Proven& request) {
  kj::Maybe<kj::String> error;
  co_await (**kubernetes)
      .visit(kube::coreResource("nodes", "Node", false), "", {}, [&](const kube::Json& registered) {
        if (error == nullptr) error = registrationError(request.node, registered);
      });
  KJ_IF_MAYBE (e, error) co_return refuse(name, request.node.name, *e);
  bool done = true;
  co_await (**kubernetes)
      .patch(kube::Patch::kMerge, kube::certificateRequests(), "", name,
             approvalOf(request.version, request.node, clock.now()), kFieldManager, "approval")
      .ignoreResult()
      .catch_([&](kj::Exception&& e) {
        // Another control-plane node was faster, or the request was deleted.
        done = false;
        if (kindOf(e) != ErrorKind::kConflict && kindOf(e) != ErrorKind::kNotFound) {
          kj::throwFatalException(kj::mv(e));
        }
      });
  if (done && lines.admits(request.node.name)) {
    log::info("approved the certificate request of a kubelet",
              {{"node", request.node.name},
               {"request", name},
               {"address", kj::strArray(request.node.addresses, ", ")}});
  }
}

void JoinApprover::refuse(kj::StringPtr name, kj::StringPtr peer, kj::StringPtr error) {
  lines.warn("the certificate request of a kubelet is left to an administrator", peer, peer,
             kj::str(name, ": ", error));
}

kj::Promise<void> JoinApprover::failed(kj::String error) {
  if (logged != error) {
    log::warn("cannot watch the certificate requests of kubelets; retrying", {{"error", error}});
  }
  logged = kj::mv(error);
  return kj::READY_NOW;
}

}  // namespace talos::kubed
