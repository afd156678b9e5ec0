#include "talosctl/rotate-ca/secrets-key-plan.h"

#include "common/base/error.h"
#include "common/config/rules/encryption-keys.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"
#include "common/yaml/yaml-codec.h"

namespace talos::talosctl {
namespace {

kj::StringPtr textOf(const pki::Pem& key) {
  return kj::StringPtr(key);
}

kj::Vector<kj::StringPtr> acceptedOf(const RotatedNode& node) {
  kj::Vector<kj::StringPtr> list;
  for (auto& one : node.acceptedKeys) list.add(textOf(one));
  return list;
}

kj::Vector<config::SecretsKey> keysOf(const RotatedNode& node) {
  return config::secretsKeys(textOf(node.secretbox), textOf(node.aescbc), acceptedOf(node));
}

// Returns true if the node has only one key: before `accept`, or after `drop`.
bool isAtRest(const RotatedNode& node) {
  if (node.acceptedKeys.empty()) return true;
  return node.acceptedKeys.size() == 1 && textOf(node.acceptedKeys[0]) == textOf(node.secretbox) &&
         textOf(node.aescbc).size() == 0;
}

// Returns the last accepted key of a node that is not at rest.
kj::StringPtr lastOf(const RotatedNode& node) {
  return textOf(node.acceptedKeys.back());
}

// Returns true if the node's list alone shows that its last key is the new key of a rotation.
bool showsNewKey(const RotatedNode& node) {
  auto count = node.acceptedKeys.size();
  bool twice = count > 1 && textOf(node.acceptedKeys[count - 2]) == lastOf(node);
  return twice || lastOf(node) == textOf(node.secretbox);
}

[[noreturn]] void refuseUnknown(const RotatedNode& node) {
  bool secretbox = textOf(node.secretbox).size() > 0;
  refuseRotation(
      kj::str(node.address,
              ": it does not write with the last of its cluster.acceptedEncryptionSecrets, and no "
              "rotation has put that there; if it is an old key, ",
              secretbox ? "add cluster.secretboxEncryptionSecret to the end of the list on all "
                          "control-plane nodes, with which the rotation goes on"_kj
                        : "have Secrets written again, and remove it"_kj,
              "; if nothing is encrypted with it, remove it"));
}

void checkNode(const RotatedNode& node) {
  requirePersistence(node, "key");
  if (textOf(node.secretbox).size() + textOf(node.aescbc).size() == 0) {
    refuseRotation(
        kj::str(node.address,
                ": its config has neither cluster.secretboxEncryptionSecret nor "
                "cluster.aescbcEncryptionSecret; set one, the same on all control-plane nodes"));
  }
}

bool accepts(const RotatedNode& node, kj::StringPtr key) {
  return contains(acceptedOf(node), key);
}

// Requires the same present key on all nodes: a node could not read Secrets of another key.
void checkSame(const RotatedNode& first, const RotatedNode& node, kj::StringPtr fresh) {
  bool aescbc = textOf(node.aescbc).size() > 0 && textOf(first.aescbc).size() > 0 &&
                textOf(node.aescbc) != textOf(first.aescbc);
  bool secretbox = textOf(node.secretbox) != fresh && textOf(first.secretbox) != fresh &&
                   textOf(node.secretbox) != textOf(first.secretbox);
  if (aescbc || secretbox) {
    refuseRotation(kj::str(node.address, ": its key of Secrets is not that of ", first.address,
                           "; correct its cluster.secretboxEncryptionSecret or "
                           "cluster.aescbcEncryptionSecret first"));
  }
}

// Returns the new key of a rotation that was begun; empty if no rotation was begun.
kj::StringPtr newKeyIn(kj::ArrayPtr<const RotatedNode* const> planes) {
  kj::StringPtr found;
  for (auto node : planes) {
    if (isAtRest(*node) || !showsNewKey(*node)) continue;
    if (found.size() > 0 && found != lastOf(*node)) {
      refuseRotation(
          kj::str(node->address,
                  ": it accepts another new key of Secrets than the nodes before it; remove one "
                  "of them from cluster.acceptedEncryptionSecrets"));
    }
    found = lastOf(*node);
  }
  for (auto node : planes) {
    if (!isAtRest(*node) && lastOf(*node) != found) refuseUnknown(*node);
  }
  return found;
}

}  // namespace

Rotation planSecretsKey(kj::ArrayPtr<const RotatedNode> nodes, kj::StringPtr fresh) {
  Rotation rotation;
  rotation.which = RotatedCa::kSecretsKey;
  auto planes = controlPlaneOf(nodes);
  for (auto node : planes) checkNode(*node);
  auto found = newKeyIn(planes);
  rotation.begun = found.size() > 0;
  rotation.newKey = pki::Pem(kj::str(rotation.begun ? found : fresh));
  auto key = textOf(rotation.newKey);
  bool anyWrites = false, anyDropped = false;
  for (auto node : planes) {
    checkSame(*planes[0], *node, key);
    bool writes = textOf(node->secretbox) == key;
    anyWrites = anyWrites || writes;
    anyDropped = anyDropped || (writes && isAtRest(*node));
  }
  for (auto node : planes) {
    bool has = textOf(node->secretbox) == key || accepts(*node, key);
    if (anyWrites && !has) {
      refuseRotation(kj::str(node->address,
                             ": it does not accept the key of Secrets with which others "
                             "write; add it to its cluster.acceptedEncryptionSecrets"));
    }
  }
  rotation.phase = anyDropped  ? RotationPhase::kDrop
                   : anyWrites ? RotationPhase::kIssue
                               : RotationPhase::kAccept;
  return rotation;
}

kj::Maybe<kj::String> secretsKeyPatch(const RotatedNode& node, const Rotation& rotation,
                                      RotationPhase phase) {
  if (!node.controlPlane) return nullptr;
  auto key = textOf(rotation.newKey);
  bool writes = textOf(node.secretbox) == key;
  kj::Vector<kj::String> wanted;
  for (auto& one : node.acceptedKeys) {
    if (textOf(one) != key && phase != RotationPhase::kDrop) wanted.add(jsonString(textOf(one)));
  }
  if (phase == RotationPhase::kAccept) {
    if (writes || (accepts(node, key) && showsNewKey(node))) return nullptr;
    wanted.add(jsonString(key));
  } else if (phase == RotationPhase::kIssue) {
    if (writes) return nullptr;
    auto old = textOf(node.secretbox);
    if (old.size() > 0 && !accepts(node, old)) wanted.add(jsonString(old));
  } else if (writes && isAtRest(node) && !node.acceptedKeys.empty()) {
    return nullptr;
  }
  wanted.add(jsonString(key));
  JsonPatch patch;
  patch.set("/cluster/acceptedEncryptionSecrets", kj::str("[", kj::strArray(wanted, ", "), "]"));
  if (phase != RotationPhase::kAccept && !writes) {
    patch.set("/cluster/secretboxEncryptionSecret", jsonString(key));
  }
  if (phase == RotationPhase::kDrop && textOf(node.aescbc).size() > 0) {
    patch.remove("/cluster/aescbcEncryptionSecret");
  }
  return patch.text();
}

kj::String writingKey(const RotatedNode& node) {
  return kj::mv(keysOf(node)[0].name);
}

kj::String newPrefix(const Rotation& rotation) {
  auto key = textOf(rotation.newKey);
  return config::storedPrefix(config::secretsKeys(key, ""_kj, kj::arrayPtr(&key, 1))[0]);
}

kj::Maybe<kj::StringPtr> secretsKeyError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> keys) {
  auto key = textOf(rotation.newKey);
  auto only = config::secretsKeys(key, ""_kj, kj::arrayPtr(&key, 1));
  auto prefix = config::storedPrefix(only[0]);
  bool reads = false, others = false;
  for (auto& one : keys) {
    bool known = false;
    for (auto& own : only) known = known || one == config::storedPrefix(own);
    reads = reads || one == prefix;
    others = others || !known;
  }
  if (!reads) return "its API server has not been given the new key yet"_kj;
  if (phase == RotationPhase::kAccept) return nullptr;
  if (keys[0] != prefix) return "its API server does not write with the new key yet"_kj;
  if (phase == RotationPhase::kDrop && others) return "its API server has the old key still"_kj;
  return nullptr;
}

}  // namespace talos::talosctl
