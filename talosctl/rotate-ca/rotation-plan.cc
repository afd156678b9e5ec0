#include "talosctl/rotate-ca/rotation-plan.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "talosctl/rotate-ca/secrets-key-plan.h"
#include "talosctl/rotate-ca/service-account-plan.h"
#include "talosctl/rotate-ca/worker-tokens.h"

namespace talos::talosctl {
namespace {

using Planes = kj::ArrayPtr<const RotatedNode* const>;

// Returns false also if the text cannot be parsed.
bool isOf(kj::StringPtr certificate, kj::StringPtr hash) {
  bool is = false;
  kj::runCatchingExceptions([&] { is = pki::authorityHash(certificate) == hash; });
  return is;
}

// Returns the CAs that a node accepts and that signed its own CA: `accept` and `issue` leave such
// CAs. Other accepted CAs do not belong to a rotation.
kj::Vector<kj::String> partnersOf(const RotatedNode& node, kj::StringPtr own) {
  kj::Vector<kj::String> partners;
  for (auto& candidate : node.accepted) {
    if (isOf(candidate, own)) continue;
    for (auto& cross : node.accepted) {
      if (isOf(cross, own) && pki::isSignedBy(cross, candidate)) partners.add(kj::str(candidate));
    }
  }
  return partners;
}

bool isNewer(kj::StringPtr one, kj::StringPtr other) {
  return pki::inspect(one).notBefore > pki::inspect(other).notBefore;
}

void checkNode(RotatedCa which, const RotatedNode& node) {
  requirePersistence(node, "CA");
  kj::String hash;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { hash = caHashOf(node); })) {
    refuseRotation(kj::str(node.address, ": the CA of its config (", keyNameOf(which),
                           ") is not valid: ", messageOf(*e)));
  }
  if (hash.size() == 0) {
    refuseRotation(kj::str(node.address, ": its config has ",
                           which == RotatedCa::kMachine
                               ? kj::str("neither machine.ca nor machine.caHash; set one")
                               : kj::str("no ", keyNameOf(which))));
  }
  if (!node.controlPlane) return;
  if (kj::StringPtr(node.key).size() == 0) {
    refuseRotation(kj::str(node.address, ": its config lacks the key of ", keyNameOf(which)));
  }
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { pki::checkPair(node.ca, node.key); })) {
    refuseRotation(kj::str(node.address, ": the key of its config is not that of ",
                           keyNameOf(which), ": ", messageOf(*e)));
  }
}

kj::String certificateOf(Planes planes, kj::StringPtr hash) {
  for (auto node : planes) {
    if (isOf(node->ca, hash)) return kj::str(node->ca);
  }
  KJ_FAIL_REQUIRE("the hash is of no control-plane node", hash);
}

pki::Pem keyOf(Planes planes, kj::StringPtr hash) {
  for (auto node : planes) {
    if (isOf(node->ca, hash)) return node->key.clone();
  }
  return {};
}

void makeNewCa(Planes planes, Rotation& rotation, kj::Date now) {
  auto oldKey = keyOf(planes, pki::authorityHash(rotation.oldCa));
  auto old = pki::inspect(rotation.oldCa);
  auto notBefore = now - 5 * kj::MINUTES;
  // The CA with the later validity is the new CA.
  if (notBefore <= old.notBefore) notBefore = old.notBefore + 1 * kj::SECONDS;
  if (notBefore > now) {
    refuseRotation(kj::str("the CA is younger than the clock of this host shows; set the clock"));
  }
  kj::StringPtr organization =
      old.organizations.empty() ? ""_kj : kj::StringPtr(old.organizations[0]);
  auto type =
      rotation.which == RotatedCa::kMachine ? pki::KeyType::kEd25519 : pki::KeyType::kEcdsaP256;
  auto made = pki::makeAuthority({.organization = organization,
                                  .commonName = old.commonName,
                                  .keyType = type,
                                  .notBefore = notBefore});
  rotation.newCa = kj::mv(made.certificate);
  rotation.newKey = kj::mv(made.key);
  rotation.oldByNew = pki::crossSign(rotation.newCa, rotation.newKey, rotation.oldCa);
  rotation.newByOld = pki::crossSign(rotation.oldCa, oldKey, rotation.newCa);
  rotation.oldKey = kj::mv(oldKey);
}

// Returns the new CA as signed by the old one, from a node's config; empty if no config has it.
kj::String newByOldOf(Planes planes, const Rotation& rotation) {
  auto newHash = pki::authorityHash(rotation.newCa);
  for (auto node : planes) {
    for (auto& cross : node->accepted) {
      if (isOf(cross, newHash) && pki::isSignedBy(cross, rotation.oldCa)) return kj::str(cross);
    }
  }
  return {};
}

// Plans for nodes with one CA: no rotation has begun, or it ended in `accept`, `issue` or `drop`.
Rotation planOfOne(RotatedCa which, Planes planes, kj::StringPtr hash, kj::Date now) {
  Rotation rotation;
  rotation.which = which;
  auto ca = certificateOf(planes, hash);
  for (auto node : planes) {
    for (auto& partner : partnersOf(*node, hash)) {
      rotation.begun = true;
      if (isNewer(partner, ca)) continue;
      if (rotation.oldCa.size() > 0 && rotation.oldCa != partner) {
        refuseRotation(kj::str(node->address, ": it accepts more than one older CA"));
      }
      rotation.oldCa = kj::str(partner);
    }
  }
  if (rotation.oldCa.size() > 0) {
    rotation.phase = RotationPhase::kDrop;
    rotation.newCa = kj::mv(ca);
    rotation.newKey = keyOf(planes, hash);
    rotation.newByOld = newByOldOf(planes, rotation);
    return rotation;
  }
  rotation.oldCa = kj::mv(ca);
  makeNewCa(planes, rotation, now);
  return rotation;
}

[[noreturn]] void refuseCa(RotatedCa which, const RotatedNode& node, kj::StringPtr hash) {
  refuseRotation(kj::str(node.address, ": its CA ", hash, " is not that of ",
                         node.controlPlane ? "all control-plane nodes" : "the control plane",
                         ", and it is not in a rotation with theirs; correct its ",
                         keyNameOf(which), " first"));
}

Rotation planOfTwo(RotatedCa which, Planes planes, kj::StringPtr one, kj::StringPtr other) {
  Rotation rotation;
  rotation.which = which;
  rotation.phase = RotationPhase::kIssue;
  rotation.begun = true;
  rotation.oldCa = certificateOf(planes, one);
  rotation.newCa = certificateOf(planes, other);
  if (isNewer(rotation.oldCa, rotation.newCa)) std::swap(rotation.oldCa, rotation.newCa);
  auto oldHash = pki::authorityHash(rotation.oldCa), newHash = pki::authorityHash(rotation.newCa);
  rotation.newKey = keyOf(planes, newHash);
  rotation.oldKey = keyOf(planes, oldHash);
  for (auto node : planes) {
    auto hash = caHashOf(*node);
    auto partners = partnersOf(*node, hash);
    if (!contains(partners, hash == newHash ? rotation.oldCa : rotation.newCa)) {
      refuseCa(which, *node, hash);
    }
  }
  rotation.newByOld = newByOldOf(planes, rotation);
  KJ_ASSERT(rotation.newByOld.size() > 0);
  return rotation;
}

// Goes back to `issue` for a worker that has not issued yet, while each control-plane node accepts
// the old CA: `issue` then changes nothing on the control plane.
void fitWorkers(kj::ArrayPtr<const RotatedNode> nodes, Planes planes, Rotation& rotation) {
  auto oldHash = pki::authorityHash(rotation.oldCa), newHash = pki::authorityHash(rotation.newCa);
  bool dropped = false;
  for (auto node : planes) {
    dropped = dropped ||
              (rotation.phase == RotationPhase::kDrop && !contains(node->accepted, rotation.oldCa));
  }
  bool behind = false;
  for (auto& node : nodes) {
    if (node.controlPlane) continue;
    auto hash = caHashOf(node);
    if (rotation.phase == RotationPhase::kAccept ? hash == oldHash : hash == newHash) continue;
    bool accepted = hash == oldHash && contains(node.accepted, rotation.newCa);
    if (!accepted || dropped || rotation.phase == RotationPhase::kAccept) {
      refuseCa(rotation.which, node, hash);
    }
    behind = true;
  }
  if (behind) rotation.phase = RotationPhase::kIssue;
}

kj::String base64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes());
}

}  // namespace

kj::String caHashOf(const RotatedNode& node) {
  return node.ca.size() > 0 ? pki::authorityHash(node.ca) : kj::str(node.caHash);
}

bool isOfControlPlane(RotatedCa ca) {
  return ca != RotatedCa::kMachine && ca != RotatedCa::kKubernetes;
}

RotatedPaths pathsOf(RotatedCa ca) {
  switch (ca) {
    case RotatedCa::kMachine:
      return {"/machine/ca"_kj, "/machine/acceptedCAs"_kj};
    case RotatedCa::kKubernetes:
      return {"/cluster/ca"_kj, "/cluster/acceptedCAs"_kj};
    case RotatedCa::kAggregator:
      return {"/cluster/aggregatorCA"_kj, "/cluster/acceptedAggregatorCAs"_kj};
    case RotatedCa::kEtcd:
      return {"/cluster/etcd/ca"_kj, "/cluster/etcd/acceptedCAs"_kj};
    case RotatedCa::kSecretsKey:
    case RotatedCa::kServiceAccountKey:
      return {};
  }
  KJ_UNREACHABLE;
}

kj::String keyNameOf(RotatedCa ca) {
  auto name = kj::str(pathsOf(ca).ca.slice(1));
  for (auto& c : name) {
    if (c == '/') c = '.';
  }
  return name;
}

kj::StringPtr phaseName(RotationPhase phase) {
  switch (phase) {
    case RotationPhase::kAccept:
      return "accept"_kj;
    case RotationPhase::kIssue:
      return "issue"_kj;
    case RotationPhase::kDrop:
      return "drop"_kj;
  }
  KJ_UNREACHABLE;
}

void refuseRotation(kj::StringPtr reason) {
  fail(ErrorKind::kFailedPrecondition, reason);
}

kj::Vector<const RotatedNode*> controlPlaneOf(kj::ArrayPtr<const RotatedNode> nodes) {
  kj::Vector<const RotatedNode*> planes;
  for (auto& node : nodes) {
    if (node.controlPlane) planes.add(&node);
  }
  if (planes.empty()) refuseRotation("none of the nodes is a control-plane node");
  return planes;
}

void requirePersistence(const RotatedNode& node, kj::StringPtr rotated) {
  if (node.persists) return;
  refuseRotation(
      kj::str(node.address,
              ": its config has persist: false, so at each boot it comes from its source with ",
              "the ", rotated, " that is there; set persist: true for the rotation"));
}

void JsonPatch::set(kj::StringPtr path, kj::StringPtr json) {
  operations.add(kj::str("{\"op\": \"add\", \"path\": \"", path, "\", \"value\": ", json, "}"));
}

void JsonPatch::remove(kj::StringPtr path) {
  operations.add(kj::str("{\"op\": \"remove\", \"path\": \"", path, "\"}"));
}

kj::String JsonPatch::text() const {
  return kj::str("[", kj::strArray(operations, ", "), "]");
}

kj::String shortHash(kj::StringPtr certificate) {
  constexpr size_t kShown = 19;  // length of sha256: and 12 digits
  return kj::str(pki::authorityHash(certificate).slice(0, kShown));
}

Rotation planRotation(RotatedCa which, kj::ArrayPtr<const RotatedNode> nodes, kj::Date now,
                      kj::ArrayPtr<const ListedToken> tokens) {
  if (which == RotatedCa::kSecretsKey) {
    auto random = pki::randomBytes(kSecretsKeyBytes);
    KJ_DEFER(zeroize(random));
    auto fresh = pki::Pem(kj::encodeBase64(random));
    return planSecretsKey(nodes, kj::StringPtr(fresh));
  }
  if (which == RotatedCa::kServiceAccountKey) {
    return planServiceAccountKey(nodes, [](pki::KeyType type) { return pki::makeKey(type); });
  }
  for (auto& node : nodes) checkNode(which, node);
  auto planes = controlPlaneOf(nodes);
  kj::Vector<kj::String> hashes;
  for (auto node : planes) addOnce(hashes, caHashOf(*node));
  if (hashes.size() > 2) {
    auto lines = KJ_MAP(node, planes) {
      return kj::str("\n  ", node->address, ": ", caHashOf(*node));
    };
    refuseRotation(
        kj::str("the control-plane nodes have more than two CAs:", kj::strArray(lines, "")));
  }
  auto rotation = hashes.size() == 1 ? planOfOne(which, planes, hashes[0], now)
                                     : planOfTwo(which, planes, hashes[0], hashes[1]);
  fitWorkers(nodes, planes, rotation);
  if (which == RotatedCa::kMachine) checkWorkerTokens(nodes, tokens, rotation.newCa);
  return rotation;
}

kj::Maybe<kj::String> rotationPatch(const RotatedNode& node, const Rotation& rotation,
                                    RotationPhase phase) {
  if (rotation.which == RotatedCa::kSecretsKey) return secretsKeyPatch(node, rotation, phase);
  if (rotation.which == RotatedCa::kServiceAccountKey) {
    return serviceAccountPatch(node, rotation, phase);
  }
  auto oldHash = pki::authorityHash(rotation.oldCa), newHash = pki::authorityHash(rotation.newCa);
  auto hash = caHashOf(node);
  kj::Vector<kj::String> wanted;
  auto partners = partnersOf(node, hash);
  for (auto& accepted : node.accepted) {
    // Includes CAs of an abandoned new CA.
    bool ours = contains(partners, accepted) || isOf(accepted, oldHash) || isOf(accepted, newHash);
    if (!ours) wanted.add(kj::str(accepted));
  }
  if (phase == RotationPhase::kAccept) {
    wanted.add(kj::str(rotation.newCa));
    wanted.add(kj::str(rotation.oldByNew));
  } else if (phase == RotationPhase::kIssue) {
    wanted.add(kj::str(rotation.oldCa));
    wanted.add(kj::str(rotation.newByOld));
  } else if (rotation.which == RotatedCa::kKubernetes) {
    wanted.add(kj::str(rotation.newByOld));
  }
  bool sameList = wanted.size() == node.accepted.size();
  for (auto& one : wanted) sameList = sameList && contains(node.accepted, one);
  bool issues = phase != RotationPhase::kAccept && hash != newHash;
  if (sameList && !issues) return nullptr;
  JsonPatch patch;
  auto paths = pathsOf(rotation.which);
  if (issues && node.ca.size() > 0) {
    auto key = node.controlPlane ? base64(rotation.newKey) : kj::String();
    patch.set(paths.ca,
              kj::str("{\"crt\": \"", base64(rotation.newCa), "\", \"key\": \"", key, "\"}"));
  }
  if (issues && node.caHash.size() > 0) patch.set("/machine/caHash", kj::str("\"", newHash, "\""));
  if (wanted.size() > 0) {
    auto items = KJ_MAP(one, wanted) {
      return kj::str("{\"crt\": \"", base64(one), "\"}");
    };
    patch.set(paths.accepted, kj::str("[", kj::strArray(items, ", "), "]"));
  } else if (node.accepted.size() > 0) {
    patch.remove(paths.accepted);
  }
  return patch.text();
}

bool isComplete(const Rotation& rotation, kj::ArrayPtr<const RotatedNode> nodes) {
  if (rotation.newKey.bytes().size() == 0) return false;  // nothing is planned yet
  for (auto& node : nodes) {
    auto patch = rotationPatch(node, rotation, RotationPhase::kDrop);
    KJ_IF_MAYBE (text, patch) {
      zeroize(*text);
      return false;
    }
  }
  return nodes.size() > 0;
}

kj::Maybe<kj::StringPtr> phaseError(const Rotation& rotation, RotationPhase phase,
                                    kj::StringPtr trusted, kj::StringPtr server) {
  auto trusts = [&](kj::StringPtr ca) {
    for (auto& one : pki::certificatesIn(trusted)) {
      if (pki::sameCertificate(one, ca)) return true;
    }
    return false;
  };
  bool issued = pki::isSignedBy(server, rotation.newCa);
  if (!trusts(rotation.newCa)) return "it does not accept the new CA yet"_kj;
  if (phase != RotationPhase::kAccept && !issued) {
    return "its certificate is not of the new CA yet"_kj;
  }
  bool old = trusts(rotation.oldCa);
  if (phase == RotationPhase::kDrop) {
    if (old) return "it accepts the old CA still"_kj;
    return nullptr;
  }
  if (!old) return "it does not accept the old CA"_kj;
  if (pki::certificatesIn(server).size() < 2) {
    return "clients of the other CA cannot verify its certificate yet"_kj;
  }
  return nullptr;
}

}  // namespace talos::talosctl
