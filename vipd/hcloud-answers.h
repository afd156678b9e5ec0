// Answers of the API of Hetzner Cloud (https://docs.hetzner.cloud): servers, floating IPs,
// networks, actions and errors.
//
// Pure and total over untrusted bytes: InvalidArgument names the error. Unknown fields are ignored,
// and an address that is not valid counts as missing. What is read from a page is bounded, too: a
// process that the kernel ends for its memory loses all its addresses.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::vipd {

// A page has 25 items; a server, the largest kind of item, has about 10 KiB.
constexpr size_t kMostHcloudAnswer = 1u << 20;
constexpr unsigned kHcloudPageItems = 25;

// A page of a list. `next` is the number of the next page; 0 on the last one.
template <typename Item>
struct HcloudPage {
  kj::Vector<Item> items;
  unsigned next = 0;
};

struct HcloudServer {
  struct Attachment {
    uint64_t network = 0;
    kj::Vector<Ip> aliases;
  };
  uint64_t id = 0;
  kj::Vector<Prefix> addresses;  // the public ones, and one in each of its networks
  kj::Vector<Attachment> networks;
};
HcloudPage<HcloudServer> readHcloudServers(kj::ArrayPtr<const char> body);

struct HcloudFloatingIp {
  uint64_t id = 0;
  Prefix address;       // of IPv6: a /64
  uint64_t server = 0;  // 0: assigned to none
};
HcloudPage<HcloudFloatingIp> readHcloudFloatingIps(kj::ArrayPtr<const char> body);
HcloudFloatingIp readHcloudFloatingIp(kj::ArrayPtr<const char> body);

struct HcloudNetwork {
  uint64_t id = 0;
  Prefix range;
};
HcloudPage<HcloudNetwork> readHcloudNetworks(kj::ArrayPtr<const char> body);

// A change that the API carries out after its answer.
struct HcloudAction {
  uint64_t id = 0;
  bool running = false;
  kj::String problem;  // without `secret`; empty: it runs, or has succeeded
};
HcloudAction readHcloudAction(kj::ArrayPtr<const char> body, kj::StringPtr secret);

// Formats an error for a log: "401 Unauthorized: unable to authenticate (unauthorized)", as a field
// of 300 bytes at most (common/text/foreign-text.h), without `secret`.
kj::String readHcloudError(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body,
                           kj::StringPtr secret);

}  // namespace talos::vipd
