// WireGuard devices as the kernel knows them (linux/wireguard.h, generic netlink family
// "wireguard"): keys, the values that are read and set, and their messages. Pure.
//
// A private key is written and never read: every copy is zeroed, the copy in the kernel's answers
// is skipped and zeroed, and no function here prints it. The public key shows whether the kernel
// has the right private key.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

#include <array>
#include <optional>
#include <vector>

#include "common/net/ip.h"
#include "common/netlink/link-names.h"

namespace talos::netlink {

struct Generic;

// A public key (Curve25519).
using WireguardKey = std::array<kj::byte, 32>;
kj::String toText(const WireguardKey& key);  // base64, 44 characters
// Returns nullptr unless the text is the base64 of exactly 32 octets.
kj::Maybe<WireguardKey> parseWireguardKey(kj::StringPtr text);

class WireguardSecret {
 public:
  // Returns nullptr unless the text is the base64 of exactly 32 octets.
  static kj::Maybe<WireguardSecret> parse(kj::StringPtr text);
  WireguardSecret(WireguardSecret&& other);
  WireguardSecret& operator=(WireguardSecret&& other);
  ~WireguardSecret() noexcept(false);

  WireguardSecret clone() const;
  WireguardKey publicKey() const;
  kj::ArrayPtr<const kj::byte> bytes() const;

 private:
  WireguardSecret() = default;
  WireguardKey key{};
};

struct WireguardPeer {
  WireguardKey publicKey{};
  std::optional<Endpoint> endpoint = {};
  uint16_t keepalive = 0;  // s, 0: off
  std::vector<Prefix> allowed = {};
  int64_t lastHandshake = 0;  // s since 1970, 0: never
  uint64_t received = 0, sent = 0;
};

struct WireguardDevice {
  WireguardKey publicKey{};  // zeros if it has no key yet
  uint16_t listenPort = 0;
  uint32_t firewallMark = 0;
  std::vector<WireguardPeer> peers;
};

struct SetPeer {
  WireguardKey publicKey{};
  bool remove = false;
  std::optional<Endpoint> endpoint = {};
  std::optional<uint16_t> keepalive = {};
  bool replaceAllowed = false;  // `allowed` replaces the list instead of adding to it
  std::vector<Prefix> allowed = {};
};

// Changes only what is given; peers that are not named stay.
struct SetWireguard {
  unsigned index = 0;
  kj::Maybe<WireguardSecret> privateKey = nullptr;
  std::optional<uint16_t> listenPort = {};
  std::optional<uint32_t> firewallMark = {};
  std::vector<SetPeer> peers = {};
};
// Describes the change without keys.
kj::String describe(const SetWireguard& set, const NameOfLink& nameOf = indexText);

// Returns as many messages as the peers and networks need, in order, each with NLM_F_ACK. `family`
// is the number that the kernel gave to "wireguard".
kj::Vector<kj::Array<kj::byte>> encodeWireguard(uint16_t family, const SetWireguard& set);
kj::Array<kj::byte> encodeWireguardDump(uint16_t family, unsigned index);
// Adds the content of one message of a dump; a peer may continue in the next message.
void readWireguard(const Generic& message, WireguardDevice& device);

}  // namespace talos::netlink
