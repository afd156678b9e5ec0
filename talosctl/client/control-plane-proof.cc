#include "talosctl/client/control-plane-proof.h"

#include "common/base/error.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"

namespace talos::talosctl {
namespace {

// A rotation leaves two certificates, and an interrupted rotation two more.
constexpr size_t kMostAccepted = 32;

// Returns an empty string if the text is not a certificate.
kj::String hashOrNone(kj::StringPtr certificate) {
  kj::String hash;
  kj::runCatchingExceptions([&] { hash = pki::authorityHash(certificate); });
  return hash;
}

bool isPair(kj::StringPtr certificate, kj::StringPtr key) {
  return kj::runCatchingExceptions([&] { pki::checkPair(certificate, key); }) == nullptr;
}

}  // namespace

MachineAuthority machineAuthorityOf(config::Config::Reader config) {
  auto machine = config.getMachine();
  return {.ca = kj::heapString(machine.getCa().getCrt().asChars()),
          .key = pki::Pem(kj::heapString(machine.getCa().getKey().asChars())),
          .accepted = acceptedCertificates(machine.getAcceptedCAs())};
}

kj::Vector<kj::String> acceptedCertificates(capnp::List<config::AcceptedCa>::Reader list) {
  kj::Vector<kj::String> accepted;
  for (auto one : list) {
    for (auto& certificate : pki::certificatesIn(kj::heapString(one.getCrt().asChars()))) {
      accepted.add(kj::mv(certificate));
    }
  }
  if (accepted.size() > kMostAccepted) {
    fail(ErrorKind::kInvalidArgument, kj::str("its config accepts ", accepted.size(),
                                              " CAs of one kind; use at most ", kMostAccepted));
  }
  return accepted;
}

ControlPlaneProof::ControlPlaneProof(kj::StringPtr authorities)
    : trusted(pki::certificatesIn(authorities)) {
  for (auto& one : trusted) add(one);
}

void ControlPlaneProof::add(kj::StringPtr authority) {
  auto hash = hashOrNone(authority);
  if (hash.size() > 0) known.upsert(kj::mv(hash), true, [](bool&, bool) {});
}

bool ControlPlaneProof::isSuccessor(const MachineAuthority& node, kj::StringPtr hash) const {
  for (auto& cross : node.accepted) {
    if (hashOrNone(cross) != hash) continue;
    for (auto& own : trusted) {
      // A predecessor's certificate begins its validity when the CA that signed it does.
      if (pki::isSignedBy(cross, own) &&
          pki::inspect(cross).notBefore > pki::inspect(own).notBefore) {
        return true;
      }
    }
  }
  return false;
}

bool ControlPlaneProof::isHeldBy(const MachineAuthority& node) const {
  auto hash = hashOrNone(node.ca);
  if (hash.size() == 0 || !isPair(node.ca, node.key)) return false;
  return known.find(hash) != nullptr || isSuccessor(node, hash);
}

void ControlPlaneProof::learn(const MachineAuthority& node) {
  if (!isHeldBy(node)) return;
  add(node.ca);
  auto hash = pki::authorityHash(node.ca);
  for (auto& cross : node.accepted) {
    if (hashOrNone(cross) != hash) continue;
    for (auto& partner : node.accepted) {
      if (pki::isSignedBy(cross, partner)) add(partner);
    }
  }
}

void requireControlPlane(kj::StringPtr node, config::Config::Reader config,
                         kj::StringPtr authorities) {
  if (authorities.size() == 0) return;
  bool claimed = config::isControlPlane(config.getMachine().getType());
  if (claimed && ControlPlaneProof(authorities).isHeldBy(machineAuthorityOf(config))) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str(node,
               claimed ? ": its config has machine.type: controlplane, but not the key of "
                         "the CA that the client configuration trusts"
                       : ": its config is that of a worker",
               "; name a control-plane node"));
}

}  // namespace talos::talosctl
