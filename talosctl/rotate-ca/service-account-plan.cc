#include "talosctl/rotate-ca/service-account-plan.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/text/texts.h"
#include "common/tls/public-key.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kAcceptedPath = "/cluster/acceptedServiceAccountKeys"_kj;

bool acceptsKey(const RotatedNode& node, kj::StringPtr publicKey) {
  auto id = pki::tokenKeyId(publicKey);
  for (auto& one : node.accepted) {
    if (pki::tokenKeyId(one) == id) return true;
  }
  return false;
}

bool signsWith(const RotatedNode& node, kj::StringPtr publicKey) {
  return pki::tokenKeyId(node.ca) == pki::tokenKeyId(publicKey);
}

bool hasIssued(const RotatedNode& node) {
  return acceptsKey(node, node.ca);
}

void checkAccountKey(const RotatedNode& node) {
  requirePersistence(node, "key");
  if (node.ca.size() == 0) {
    refuseRotation(kj::str(node.address, ": its config has no cluster.serviceAccount.key"));
  }
}

// Continues a rotation: `first` already signs with the new key, and all nodes together determine
// the phase.
void continueWith(Rotation& rotation, kj::ArrayPtr<const RotatedNode* const> planes,
                  const RotatedNode& first) {
  rotation.begun = true;
  rotation.phase = RotationPhase::kIssue;
  rotation.newKey = first.key.clone();
  rotation.newCa = kj::str(first.ca);
  // Keys left by an earlier run precede the old key.
  for (auto& one : first.accepted) {
    if (!signsWith(first, one)) rotation.oldCa = kj::str(one);
  }
  for (auto node : planes) {
    bool isNew = signsWith(*node, rotation.newCa);
    if (isNew && node->accepted.empty()) rotation.phase = RotationPhase::kDrop;
    if (isNew) continue;
    if (!acceptsKey(*node, rotation.newCa) || hasIssued(*node) || !acceptsKey(first, node->ca)) {
      refuseRotation(
          kj::str(node->address, ": its key of service accounts is not that of ", first.address,
                  ", and not in a rotation with it; correct its cluster.serviceAccount.key first"));
    }
    rotation.oldCa = kj::str(node->ca);
  }
}

kj::String keyItem(kj::StringPtr publicKey) {
  return kj::str("{\"key\": \"", kj::encodeBase64(publicKey.asBytes()), "\"}");
}

}  // namespace

Rotation planServiceAccountKey(kj::ArrayPtr<const RotatedNode> nodes,
                               kj::FunctionParam<pki::Pem(pki::KeyType)> make) {
  Rotation rotation;
  rotation.which = RotatedCa::kServiceAccountKey;
  auto planes = controlPlaneOf(nodes);
  const RotatedNode* issued = nullptr;
  for (auto node : planes) {
    checkAccountKey(*node);
    if (issued == nullptr && hasIssued(*node)) issued = node;
  }
  if (issued != nullptr) {
    continueWith(rotation, planes, *issued);
    return rotation;
  }
  for (auto node : planes) {
    if (!signsWith(*node, planes[0]->ca)) {
      refuseRotation(kj::str(node->address, ": its key of service accounts is not that of ",
                             planes[0]->address, "; correct its cluster.serviceAccount.key first"));
    }
    rotation.begun = rotation.begun || !node->accepted.empty();
  }
  rotation.oldCa = kj::str(planes[0]->ca);
  rotation.newKey =
      make(pki::isRsaKey(planes[0]->key) ? pki::KeyType::kRsa4096 : pki::KeyType::kEcdsaP256);
  rotation.newCa = pki::publicKeyOf(rotation.newKey);
  return rotation;
}

kj::Maybe<kj::String> serviceAccountPatch(const RotatedNode& node, const Rotation& rotation,
                                          RotationPhase phase) {
  if (!node.controlPlane) return nullptr;
  bool isNew = signsWith(node, rotation.newCa), has = acceptsKey(node, rotation.newCa);
  JsonPatch patch;
  if (phase == RotationPhase::kDrop) {
    if (node.accepted.empty()) return nullptr;
    patch.remove(kAcceptedPath);
    return patch.text();
  }
  if (phase == RotationPhase::kAccept ? isNew || has : isNew && has) return nullptr;
  kj::Vector<kj::String> wanted;
  for (auto& one : node.accepted) {
    bool own = signsWith(node, one);
    if (!own && pki::tokenKeyId(one) != pki::tokenKeyId(rotation.newCa)) wanted.add(keyItem(one));
  }
  if (phase == RotationPhase::kIssue && !isNew) {
    wanted.add(keyItem(node.ca));
    patch.set("/cluster/serviceAccount/key",
              kj::str("\"", kj::encodeBase64(rotation.newKey.bytes()), "\""));
  }
  wanted.add(keyItem(rotation.newCa));
  patch.set(kAcceptedPath, kj::str("[", kj::strArray(wanted, ", "), "]"));
  return patch.text();
}

kj::Maybe<kj::StringPtr> serviceAccountError(const Rotation& rotation, RotationPhase phase,
                                             kj::ArrayPtr<const kj::String> apiServer,
                                             kj::ArrayPtr<const kj::String> controllerManager) {
  auto key = pki::tokenKeyId(rotation.newCa);
  if (!contains(apiServer, key)) return "its API server has not been given the new key yet"_kj;
  if (phase == RotationPhase::kAccept) return nullptr;
  if (apiServer[0] != key) return "its API server does not sign with the new key yet"_kj;
  if (controllerManager.size() == 0 || controllerManager[0] != key) {
    return "its controller manager does not sign with the new key yet"_kj;
  }
  if (phase == RotationPhase::kDrop && apiServer.size() > 1) {
    return "its API server accepts the old key still"_kj;
  }
  return nullptr;
}

}  // namespace talos::talosctl
