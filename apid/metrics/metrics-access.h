// Decides who may read metrics. Pure.
#pragma once

#include "common/tls/tls.h"

namespace talos::metrics {

// machine.metrics of the node.
struct Settings {
  uint16_t port = 0;
  bool plain = false;
  pki::Pem token;  // empty: there is none

  bool operator==(const Settings& other) const;
};

// The reason why a client is refused, as text for it; none: it may read. It may with plain, with a
// certificate of which a role includes os:reader, or with `Authorization: Bearer` and the token,
// which is compared in a time that does not depend on where the texts differ. Text of the client is
// not repeated.
kj::Maybe<kj::String> refusal(const Settings& settings, const Peer& peer,
                              kj::Maybe<kj::StringPtr> authorization);

}  // namespace talos::metrics
