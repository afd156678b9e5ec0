// A shared address in a project of Hetzner Cloud: finds it and moves it by the API, with the
// project's token. The token is sent only to the API's own host, over TLS that the public CAs
// verify, and is in no error.
#pragma once

#include "common/net/host-dial.h"
#include "vipd/provider.h"

namespace talos::vipd {

constexpr kj::StringPtr kHcloudHost = "api.hetzner.cloud"_kj;

constexpr kj::Duration kHcloudCall = 10 * kj::SECONDS;    // for the answer of one call
constexpr kj::Duration kHcloudAction = 30 * kj::SECONDS;  // until the API has made a change

struct HcloudDependencies {
  DialDependencies dial;
  // Returns the CAs that may sign the API's certificate, in PEM. Called before the node stands for
  // election, and again if they have not: parsing all public ones takes 20 ms of the loop, and a
  // renewal of another address allows for 50.
  kj::Function<kj::String()> authorities;
  kj::Duration actionPause = 1 * kj::SECONDS;  // between two looks at a change
};

// `host` and `port` are others only in tests.
kj::Own<Provider> hcloudProvider(HcloudDependencies& deps, const Ip& address, kj::String token,
                                 kj::StringPtr host = kHcloudHost, uint16_t port = 443);

}  // namespace talos::vipd
