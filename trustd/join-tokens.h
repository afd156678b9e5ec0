// Join tokens as trustd needs them: what there is about one that a caller has shown, and spending
// it for the caller's key. Which callers get a certificate for one is decided in issuer.h.
//
// Owns nothing: the tokens are in the cluster's etcd, and etcd-supervisor of this node reads and
// changes them (rpc/join-tokens.capnp), for which machined gives trustd the capability. Only a hash
// of the token leaves trustd. A call that was cut off may have taken effect: the same call again,
// for the same key, says.
#pragma once

#include <kj/timer.h>

#include "common/base/join-token.h"
#include "rpc/local.capnp.h"

namespace talos::trustd {

struct ShownToken {
  enum class State {
    kUnknown,  // there is no such token, or its secret is wrong
    kUnused,
    kUsed,
    kExpired,
    kRevoked,
    kUnverified,  // etcd did not answer
  };
  State state = State::kUnknown;
  kj::String id;
  kj::String hostname;              // that it is bound to; empty: any
  kj::String fingerprint;           // of the key that it was spent for
  kj::Date since = kj::UNIX_EPOCH;  // of the state; of unused: its end
  kj::String error = nullptr;       // of kUnverified
};

class JoinTokens {
 public:
  // None of them rejects.
  virtual kj::Promise<ShownToken> find(kj::StringPtr token) = 0;
  // kUsed with this fingerprint: it is spent for this key.
  virtual kj::Promise<ShownToken> spend(kj::StringPtr token, kj::StringPtr fingerprint,
                                        kj::StringPtr usedBy) = 0;

 protected:
  ~JoinTokens() noexcept(false) = default;
};

class StoredJoinTokens final : public JoinTokens {
 public:
  static constexpr auto kTimeout = 4 * kj::SECONDS;

  StoredJoinTokens(kj::Timer& timer, rpc::Machined::Client machined)
      : timer(timer), machined(kj::mv(machined)) {}

  kj::Promise<ShownToken> find(kj::StringPtr token) override;
  kj::Promise<ShownToken> spend(kj::StringPtr token, kj::StringPtr fingerprint,
                                kj::StringPtr usedBy) override;

 private:
  kj::Timer& timer;
  rpc::Machined::Client machined;

  rpc::JoinTokens::Client stored();
};

}  // namespace talos::trustd
