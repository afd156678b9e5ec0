// Decides who may read metrics. Pure.
#pragma once

#include "common/tls/tls.h"

namespace talos::metrics {

// machine.metrics of the node.
struct Settings {
  uint16_t port = 0;
  bool plain = false;
  pki::Pem token;  // empty: no token

  bool operator==(const Settings& other) const;
};

// Returns why a client is refused, as text for the client; nullptr if it may read. It may read with
// `plain`, with a certificate that has a role including os:reader, or with `Authorization: Bearer`
// and the token, which is compared in constant time. Text of the client is not repeated.
kj::Maybe<kj::String> refusal(const Settings& settings, const Peer& peer,
                              kj::Maybe<kj::StringPtr> authorization);

}  // namespace talos::metrics
