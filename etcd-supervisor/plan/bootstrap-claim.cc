#include "etcd-supervisor/plan/bootstrap-claim.h"

namespace talos::supervisor {
namespace {

Verdict withdraw(ErrorKind kind, kj::String message, kj::StringPtr whose = nullptr) {
  return {.what = Verdict::What::kWithdraw,
          .kind = kind,
          .message = kj::mv(message),
          .whose = kj::str(whose)};
}

kj::String called(const PeerAnswer& asked, const BootstrapState& bootstrapState) {
  return bootstrapState.name.size() == 0 || bootstrapState.name == asked.host
             ? kj::str(asked.host)
             : kj::str(bootstrapState.name, " (", asked.host, ")");
}

// Returns why this answer ends the claim; nullptr if it does not.
kj::Maybe<Verdict> objection(const Claim& claim, const PeerAnswer& asked,
                             const BootstrapState& bootstrapState) {
  using State = BootstrapState::State;
  if (bootstrapState.state == State::kMember) {
    return withdraw(ErrorKind::kFailedPrecondition,
                    kj::str(called(asked, bootstrapState),
                            " has a cluster already; this node joins it by itself"),
                    asked.address);
  }
  if (bootstrapState.state == State::kMakes) {
    return withdraw(
        ErrorKind::kConflict,
        kj::str(called(asked, bootstrapState), " makes the cluster; this node will join it"),
        asked.address);
  }
  if (bootstrapState.name == claim.name) {
    return withdraw(ErrorKind::kFailedPrecondition,
                    kj::str(asked.host, " is another node with the name ", claim.name,
                            ", which must be unique; set machine.network.hostname"));
  }
  if (bootstrapState.state == State::kClaims && bootstrapState.name < claim.name) {
    return withdraw(ErrorKind::kConflict,
                    kj::str(called(asked, bootstrapState),
                            " was bootstrapped as well and goes first; this node will join it"),
                    asked.address);
  }
  return nullptr;
}

bool isThisNode(const Claim& claim, const BootstrapState& bootstrapState) {
  return bootstrapState.name == claim.name &&
         bootstrapState.state == BootstrapState::State::kClaims &&
         bootstrapState.since == claim.since;
}

}  // namespace

Verdict judge(const Claim& claim, kj::ArrayPtr<const PeerAnswer> all) {
  kj::Vector<kj::String> silent;
  kj::Maybe<kj::String> rival;
  for (auto& asked : all) {
    if (asked.said.is<kj::String>()) {
      if (!asked.shared) {
        silent.add(kj::str(asked.host, " (", asked.said.get<kj::String>(), ")"));
      }
      continue;
    }
    auto& bootstrapState = asked.said.get<BootstrapState>();
    if (isThisNode(claim, bootstrapState)) continue;
    KJ_IF_MAYBE (verdict, objection(claim, asked, bootstrapState)) return kj::mv(*verdict);
    if (bootstrapState.state == BootstrapState::State::kClaims)
      rival = called(asked, bootstrapState);
  }
  if (!silent.empty()) {
    return {.what = Verdict::What::kAsk,
            .kind = ErrorKind::kUnavailable,
            .message = kj::str("no answer from ", joined(silent)),
            .whose = kj::String()};
  }
  KJ_IF_MAYBE (name, rival) {
    return {
        .what = Verdict::What::kAsk,
        .kind = ErrorKind::kConflict,
        .message = kj::str("waiting for ", *name, ", which was bootstrapped as well, to give way"),
        .whose = kj::String()};
  }
  return {};
}

}  // namespace talos::supervisor
