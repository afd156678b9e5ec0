// Join tokens as trustd needs them: the facts about a token that a caller has shown, and spending
// it for the caller's key. issuer.h decides which callers get a certificate for a token.
//
// Owns nothing: the tokens are in the cluster's etcd. etcd-supervisor of this node reads and
// changes them (rpc/join-tokens.capnp), and machined gives trustd the capability for this. Only a
// hash of the token leaves trustd. A call that was cut off may have taken effect: repeating it for
// the same key returns the result.
#pragma once

#include <kj/timer.h>

#include "common/base/join-token.h"
#include "rpc/local.capnp.h"

namespace talos::trustd {

struct ShownToken {
  enum class State {
    kUnknown,  // the token does not exist, or its secret is wrong
    kUnused,
    kUsed,
    kExpired,
    kRevoked,
    kUnverified,  // etcd did not answer
  };
  State state = State::kUnknown;
  kj::String id;
  kj::String hostname;              // host name that the token is bound to; empty: any
  kj::String fingerprint;           // fingerprint of the key that the token was spent for
  kj::Date since = kj::UNIX_EPOCH;  // time of the state; for kUnused, the token's end
  kj::String error = nullptr;       // for kUnverified
};

class JoinTokens {
 public:
  // The promises never reject.
  virtual kj::Promise<ShownToken> find(kj::StringPtr token) = 0;
  // kUsed with this fingerprint: the token is spent for this key.
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
