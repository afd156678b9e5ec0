#include "talosctl/rotate-ca/node-roles.h"

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

kj::StringPtr roleName(bool controlPlane) {
  return controlPlane ? "controlplane"_kj : "worker"_kj;
}

kj::StringPtr pemText(const pki::Pem& pem) {
  return pem;
}

// Returns a readable text of a node's CA, which may not be a valid certificate.
kj::String shownCa(const RotatedNode& node) {
  kj::String shown;
  auto failure = kj::runCatchingExceptions([&] { shown = caHashOf(node); });
  if (failure != nullptr) return kj::str("not a valid certificate");
  return shown.size() > 0 ? kj::mv(shown) : kj::str("none");
}

void requireSame(const RotatedNode& before, kj::StringPtr key, kj::StringPtr was,
                 kj::StringPtr is) {
  if (was == is) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str(
           before.address, " has changed its answer: ", key, " was ", was, ", and is ", is,
           " now; nothing is sent to it; restore its config or remove the node from the cluster, "
           "and start the command again"));
}

void refuseSecret(const RotatedNode& before, kj::StringPtr name) {
  requireSame(before, name, "that of the first look", "another one");
}

// In `issue` the rotation sets `fresh`; before, the field must be unchanged.
bool isExpected(kj::StringPtr was, kj::StringPtr is, kj::StringPtr fresh, RotationPhase phase) {
  return is == was || (phase != RotationPhase::kAccept && is == fresh);
}

void requireSameCa(const RotatedNode& before, const RotatedNode& now, const Rotation& rotation,
                   RotationPhase phase) {
  kj::String newHash;
  if (before.caHash.size() > 0) newHash = pki::authorityHash(rotation.newCa);
  // Another certificate of the same key counts as another CA: its name and validity may differ.
  bool same = (before.ca.size() == 0) == (now.ca.size() == 0) &&
              isExpected(before.ca, now.ca, rotation.newCa, phase);
  bool sameHash = isExpected(before.caHash, now.caHash, newHash, phase);
  if (same && sameHash) return;
  auto was = shownCa(before), is = shownCa(now);
  requireSame(before, "its CA", was, was == is ? "another certificate of this key"_kj : is.asPtr());
}

void requireSameKeys(const RotatedNode& before, const RotatedNode& now, const Rotation& rotation,
                     RotationPhase phase, const ControlPlaneProof& proof) {
  if (!proof.isHeldBy(now.machine)) {
    requireSame(before, "the key of machine.ca", "that of the control plane", "another one");
  }
  auto fresh = pemText(rotation.newKey);
  if (!isExpected(pemText(before.key), pemText(now.key), fresh, phase)) {
    refuseSecret(before, rotation.which == RotatedCa::kServiceAccountKey
                             ? kj::str("cluster.serviceAccount.key")
                             : kj::str("the key of ", keyNameOf(rotation.which)));
  }
  if (!isExpected(pemText(before.secretbox), pemText(now.secretbox), fresh, phase)) {
    refuseSecret(before, "cluster.secretboxEncryptionSecret");
  }
  if (!isExpected(pemText(before.aescbc), pemText(now.aescbc), "", phase)) {
    refuseSecret(before, "cluster.aescbcEncryptionSecret");
  }
}

}  // namespace

void requireRole(const RotatedNode& node, const AssignedRole& assigned,
                 const ControlPlaneProof& proof) {
  auto claimed = roleName(node.controlPlane);
  auto refuse = [&](kj::StringPtr reason) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(node.address, ": its config has machine.type: ", claimed, ", but ", reason,
                 "; nothing is changed in this run"));
  };
  KJ_IF_MAYBE (role, assigned.byFlag) {
    if (*role != node.controlPlane) {
      refuse(*role ? "it is named with --control-plane-nodes or --init-node"_kj
                   : "it is named with --worker-nodes"_kj);
    }
  }
  KJ_IF_MAYBE (role, assigned.byMembers) {
    if (*role != node.controlPlane) {
      refuse(kj::str("the members of the cluster list it as ", roleName(*role), " (",
                     assigned.asked, " was asked for them)"));
    }
  }
  if (node.controlPlane && !proof.isHeldBy(node.machine)) {
    refuse("it does not have the key of the CA that the client configuration trusts (machine.ca)");
  }
}

void requireSameNode(const RotatedNode& before, const RotatedNode& now, const Rotation& rotation,
                     RotationPhase phase, const ControlPlaneProof& proof) {
  requireSame(before, "machine.type", roleName(before.controlPlane), roleName(now.controlPlane));
  requireSame(before, "persist", kj::str(before.persists), kj::str(now.persists));
  if (before.controlPlane) requireSameKeys(before, now, rotation, phase, proof);
  requireSameCa(before, now, rotation, phase);
}

void remember(RotatedNode& known, RotatedNode now) {
  known.ca = kj::mv(now.ca);
  known.caHash = kj::mv(now.caHash);
  known.key = kj::mv(now.key);
  known.accepted = kj::mv(now.accepted);
  known.secretbox = kj::mv(now.secretbox);
  known.aescbc = kj::mv(now.aescbc);
  known.acceptedKeys = kj::mv(now.acceptedKeys);
}

}  // namespace talos::talosctl
