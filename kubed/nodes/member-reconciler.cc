#include "kubed/nodes/member-reconciler.h"

#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/kube/node-object.h"
#include "common/tls/node-certificate.h"

namespace talos::kubed {
namespace {

constexpr size_t kMostAddresses = 16;

}  // namespace

Member memberOf(const kube::Json& node) {
  Member member;
  member.name = kj::str(kube::nameOf(node));
  member.controlPlane = kube::isControlPlane(node);
  member.operatingSystem = kj::str(kube::textAt(node, {"status", "nodeInfo", "osImage"}));
  member.addresses = kube::internalAddressesOf(node, kMostAddresses);
  return member;
}

kj::Promise<kj::Maybe<WatchReconciler::Selection>> MemberReconciler::select() {
  if (!ofEtcd.synced()) return kj::Maybe<Selection>(nullptr);
  auto client = useEndpoint ? adapter.endpointClient() : adapter.client();
  KJ_IF_MAYBE (kubernetes, client.tryGet<kj::Own<SharedKube>>()) {
    return kj::Maybe<Selection>(
        Selection{kj::mv(*kubernetes), kube::coreResource("nodes", "Node", false)});
  }
  return kj::Maybe<Selection>(nullptr);
}

// Compares names: a member of etcd has the host name of its node, and so has the Node object,
// unless the node registers with its whole name; then only the label counts.
bool MemberReconciler::isControlPlane(const Member& member) const {
  if (member.controlPlane) return true;
  KJ_IF_MAYBE (self, adapter.node()) {
    if (self->getControlPlane() && self->getNodename() == member.name) return true;
  }
  for (auto one : ofEtcd) {
    if (canonicalName(one.getName()) == member.name) return true;
  }
  return false;
}

kj::Maybe<MemberReconciler::Entry> MemberReconciler::entryOf(const kube::Json& node) {
  auto member = memberOf(node);
  member.controlPlane = isControlPlane(member);
  return Entry{kj::str(member.name), kj::mv(member)};
}

void MemberReconciler::fill(const Member& member, rpc::MemberSpec::Builder spec) {
  spec.setHostname(member.name);
  spec.setMachineType(member.controlPlane ? "controlplane" : "worker");
  spec.setOperatingSystem(member.operatingSystem);
  fillTexts(spec.initAddresses(member.addresses.size()), member.addresses);
}

void MemberReconciler::watchStarted() {
  for (auto& text : logged) text = kj::str();
}

kj::Promise<void> MemberReconciler::failed(kj::String error) {
  auto& before = logged[useEndpoint ? 1 : 0];
  if (before != error) {
    log::warn("cannot watch the nodes of the cluster; retrying", {{"error", error}});
  }
  before = kj::mv(error);
  useEndpoint = !useEndpoint;
  return kj::READY_NOW;
}

}  // namespace talos::kubed
