#include "etcd-supervisor/plan/bootstrap-claim.h"

namespace talos::supervisor {
namespace {

Verdict withdraw(ErrorKind kind, kj::String why, kj::StringPtr whose = nullptr) {
  return {Verdict::What::kWithdraw, kind, kj::mv(why), kj::str(whose)};
}

kj::String called(const Asked& asked, const Standing& standing) {
  return standing.name.size() == 0 || standing.name == asked.host
             ? kj::str(asked.host)
             : kj::str(standing.name, " (", asked.host, ")");
}

// Why this answer ends the claim; none: it does not.
kj::Maybe<Verdict> objection(const Claim& claim, const Asked& asked, const Standing& standing) {
  using State = Standing::State;
  if (standing.state == State::kMember) {
    return withdraw(
        ErrorKind::kFailedPrecondition,
        kj::str(called(asked, standing), " has a cluster already; this node joins it by itself"),
        asked.address);
  }
  if (standing.state == State::kMakes) {
    return withdraw(ErrorKind::kConflict,
                    kj::str(called(asked, standing), " makes the cluster; this node will join it"),
                    asked.address);
  }
  if (standing.name == claim.name) {
    return withdraw(ErrorKind::kFailedPrecondition,
                    kj::str(asked.host, " is another node with the name ", claim.name,
                            ", which must be unique; set machine.network.hostname"));
  }
  if (standing.state == State::kClaims && standing.name < claim.name) {
    return withdraw(ErrorKind::kConflict,
                    kj::str(called(asked, standing),
                            " was told the same and goes first; this node will join it"),
                    asked.address);
  }
  return nullptr;
}

bool isThisNode(const Claim& claim, const Standing& standing) {
  return standing.name == claim.name && standing.state == Standing::State::kClaims &&
         standing.since == claim.since;
}

}  // namespace

Verdict judge(const Claim& claim, kj::ArrayPtr<const Asked> all) {
  kj::Vector<kj::String> silent;
  kj::Maybe<kj::String> rival;
  for (auto& asked : all) {
    if (asked.said.is<kj::String>()) {
      if (!asked.shared) {
        silent.add(kj::str(asked.host, " (", asked.said.get<kj::String>(), ")"));
      }
      continue;
    }
    auto& standing = asked.said.get<Standing>();
    if (isThisNode(claim, standing)) continue;
    KJ_IF_MAYBE (verdict, objection(claim, asked, standing)) return kj::mv(*verdict);
    if (standing.state == Standing::State::kClaims) rival = called(asked, standing);
  }
  if (!silent.empty()) {
    return {Verdict::What::kAsk, ErrorKind::kUnavailable,
            kj::str("no answer from ", joined(silent)), kj::String()};
  }
  KJ_IF_MAYBE (name, rival) {
    return {Verdict::What::kAsk, ErrorKind::kConflict,
            kj::str("waiting for ", *name, ", which was told the same, to give way"), kj::String()};
  }
  return {};
}

}  // namespace talos::supervisor
