#include "talosctl/rotate-ca/worker-tokens.h"

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/tls/public-key.h"

namespace talos::talosctl {
namespace {

using TokenState = rpc::Etcd::JoinToken::State;

kj::String joinTokenError(const RotatedNode& node, const ListedToken& token) {
  auto its = kj::str("its join token ", token.id);
  switch (token.state) {
    case TokenState::USED:
      if (pki::fingerprint(node.certificate) == token.fingerprint) return {};
      return kj::str(its, " was used by ", token.usedBy, ", for another key than its own");
    case TokenState::UNUSED:
      return kj::str(its, " is unused: it has not joined with it yet");
    case TokenState::EXPIRED:
      return kj::str(its, " has expired");
    case TokenState::REVOKED:
      return kj::str(its, " was revoked");
  }
  return kj::str(its, " is in an unknown state");
}

// Returns the error of the token; empty if trustd accepts it.
kj::String tokenError(const RotatedNode& node, kj::ArrayPtr<const ListedToken> tokens) {
  kj::StringPtr token = node.token;
  if (token.size() == 0) return kj::str("its config has no machine.token");
  if (!isJoinTokenLike(token)) {
    return kj::str("its machine.token is not that of the control plane");
  }
  KJ_IF_MAYBE (id, joinTokenId(token)) {
    for (auto& one : tokens) {
      if (one.id == *id) return joinTokenError(node, one);
    }
    return kj::str("etcd has no join token ", *id);
  }
  return kj::str("its machine.token is not a valid join token");
}

}  // namespace

bool hasTokenOfItsOwn(const RotatedNode& node, kj::ArrayPtr<const RotatedNode> nodes) {
  if (node.controlPlane) return false;
  kj::StringPtr token = node.token;
  for (auto& one : nodes) {
    if (one.controlPlane && token.size() > 0 && kj::StringPtr(one.token) == token) return false;
  }
  return true;
}

void checkWorkerTokens(kj::ArrayPtr<const RotatedNode> nodes,
                       kj::ArrayPtr<const ListedToken> tokens, kj::StringPtr newCa) {
  kj::Vector<kj::String> refused;
  for (auto& node : nodes) {
    if (!hasTokenOfItsOwn(node, nodes) || pki::isSignedBy(node.certificate, newCa)) continue;
    auto error = tokenError(node, tokens);
    if (error.size() > 0) refused.add(kj::str("\n  ", node.address, ": ", error));
  }
  if (refused.empty()) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("trustd would give these workers no certificate of the new CA; set their "
               "machine.token to that of the control plane, or to a new join token (talosctl token "
               "create), first:",
               kj::strArray(refused, "")));
}

}  // namespace talos::talosctl
