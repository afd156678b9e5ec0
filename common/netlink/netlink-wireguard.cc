#include "common/netlink/netlink-wireguard.h"

#include <kj/debug.h>
#include <kj/encoding.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/wireguard.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"
#include "common/netlink/netlink-generic.h"

namespace talos::netlink {
namespace {

// Counts that always fit in one message: a peer takes up to 100 bytes, a network 40.
constexpr size_t kPeersPerMessage = 32, kNetworksPerMessage = 96;
constexpr size_t kMostNetworks = 1 << 16;  // that are read of one device

// Returns true if the text is the base64 of exactly as many octets as `key` has.
bool decodeKey(kj::StringPtr text, WireguardKey& key) {
  if (text.size() != 44 || text[43] != '=' || text[42] == '=') return false;
  for (char c : text.slice(0, 43)) {
    bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '+' || c == '/';
    if (!ok) return false;
  }
  auto bytes = kj::decodeBase64(text);
  KJ_DEFER(explicit_bzero(bytes.begin(), bytes.size()));
  if (bytes.hadErrors || bytes.size() != key.size()) return false;
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return true;
}

void putNetwork(MessageBuilder& out, const Prefix& network) {
  out.nest(0, [&] {
    out.putU16(WGALLOWEDIP_A_FAMILY, network.address.family());
    out.put(WGALLOWEDIP_A_IPADDR, network.masked().address.bytes());
    out.putU8(WGALLOWEDIP_A_CIDR_MASK, network.length);
  });
}

// Appends one peer with `count` of its networks from `first` on.
void putPeer(MessageBuilder& out, const SetPeer& peer, size_t first, size_t count) {
  out.nest(0, [&] {
    out.put(WGPEER_A_PUBLIC_KEY, kj::arrayPtr(peer.publicKey.data(), peer.publicKey.size()));
    uint32_t flags = 0;
    if (peer.remove) flags |= WGPEER_F_REMOVE_ME;
    // The second part of a peer must not remove the networks that the first part has set.
    if (peer.replaceAllowed && first == 0) flags |= WGPEER_F_REPLACE_ALLOWEDIPS;
    if (flags != 0) out.putU32(WGPEER_A_FLAGS, flags);
    if (first == 0) {
      if (peer.endpoint) out.put(WGPEER_A_ENDPOINT, peer.endpoint->socketName().bytes());
      if (peer.keepalive) out.putU16(WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, *peer.keepalive);
    }
    if (count > 0) {
      out.nest(WGPEER_A_ALLOWEDIPS, [&] {
        for (size_t i = first; i < first + count; ++i) putNetwork(out, peer.allowed[i]);
      });
    }
  });
}

std::optional<Prefix> readNetwork(const nlattr* nest) {
  std::optional<Ip> address;
  unsigned length = 0xffff;
  eachNested(nest, [&](unsigned type, const nlattr* attribute) {
    if (type == WGALLOWEDIP_A_IPADDR) {
      KJ_IF_MAYBE (ip, Ip::fromBytes(payload(attribute))) address = *ip;
    }
    if (type == WGALLOWEDIP_A_CIDR_MASK) length = number<uint8_t>(attribute).orDefault(0xff);
  });
  if (!address || length > address->bits()) return {};
  return Prefix{*address, length}.masked();
}

void readKey(const nlattr* attribute, WireguardKey& key) {
  auto bytes = payload(attribute);
  if (bytes.size() >= key.size()) std::copy_n(bytes.begin(), key.size(), key.begin());
}

WireguardPeer readPeer(const nlattr* nest) {
  WireguardPeer peer;
  eachNested(nest, [&](unsigned type, const nlattr* attribute) {
    switch (type) {
      case WGPEER_A_PUBLIC_KEY:
        readKey(attribute, peer.publicKey);
        break;
      case WGPEER_A_ENDPOINT:
        KJ_IF_MAYBE (there, Endpoint::fromBytes(payload(attribute))) peer.endpoint = *there;
        break;
      case WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL:
        read(attribute, peer.keepalive);
        break;
      case WGPEER_A_LAST_HANDSHAKE_TIME:
        read(attribute, peer.lastHandshake);  // the seconds of a timespec
        break;
      case WGPEER_A_RX_BYTES:
        read(attribute, peer.received);
        break;
      case WGPEER_A_TX_BYTES:
        read(attribute, peer.sent);
        break;
      case WGPEER_A_ALLOWEDIPS:
        eachNested(attribute, [&](unsigned, const nlattr* inner) {
          auto network = readNetwork(inner);
          if (network && peer.allowed.size() < kMostNetworks) peer.allowed.push_back(*network);
        });
        break;
      default:
        break;
    }
  });
  return peer;
}

}  // namespace

// --- keys
kj::String toText(const WireguardKey& key) {
  return kj::encodeBase64(kj::arrayPtr(key.data(), key.size()));
}

kj::Maybe<WireguardKey> parseWireguardKey(kj::StringPtr text) {
  WireguardKey key;
  if (!decodeKey(text, key)) return nullptr;
  return key;
}

kj::Maybe<WireguardSecret> WireguardSecret::parse(kj::StringPtr text) {
  WireguardSecret secret;
  if (!decodeKey(text, secret.key)) return nullptr;
  return kj::mv(secret);
}

WireguardSecret::WireguardSecret(WireguardSecret&& other) : key(other.key) {
  explicit_bzero(other.key.data(), other.key.size());
}

WireguardSecret& WireguardSecret::operator=(WireguardSecret&& other) {
  if (this == &other) return *this;
  key = other.key;
  explicit_bzero(other.key.data(), other.key.size());
  return *this;
}

WireguardSecret::~WireguardSecret() noexcept(false) {
  explicit_bzero(key.data(), key.size());
}

WireguardSecret WireguardSecret::clone() const {
  WireguardSecret copy;
  copy.key = key;
  return copy;
}

kj::ArrayPtr<const kj::byte> WireguardSecret::bytes() const {
  return kj::arrayPtr(key.data(), key.size());
}

WireguardKey WireguardSecret::publicKey() const {
  auto pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, key.data(), key.size());
  KJ_ASSERT(pkey != nullptr, "X25519 is not there");
  KJ_DEFER(EVP_PKEY_free(pkey));
  WireguardKey result;
  size_t size = result.size();
  KJ_ASSERT(EVP_PKEY_get_raw_public_key(pkey, result.data(), &size) == 1 && size == result.size());
  return result;
}

kj::String describe(const SetWireguard& set, const NameOfLink& nameOf) {
  kj::Vector<kj::String> parts;
  if (set.privateKey != nullptr) parts.add(kj::str("private key"));
  if (set.listenPort == 0) {
    parts.add(kj::str("a free port"));
  } else if (set.listenPort) {
    parts.add(kj::str("port ", *set.listenPort));
  }
  if (set.firewallMark) parts.add(kj::str("firewall mark ", *set.firewallMark));
  for (auto& peer : set.peers) {
    if (peer.remove) {
      parts.add(kj::str("no peer ", toText(peer.publicKey)));
      continue;
    }
    auto text = kj::str("peer ", toText(peer.publicKey));
    if (peer.endpoint) text = kj::str(text, " at ", *peer.endpoint);
    if (peer.keepalive) text = kj::str(text, " every ", *peer.keepalive, " s");
    if (peer.replaceAllowed) {
      kj::Vector<kj::String> networks;
      for (auto& network : peer.allowed) networks.add(network.toString());
      text = kj::str(text, " for [", kj::strArray(networks, " "), "]");
    }
    parts.add(kj::mv(text));
  }
  return kj::str("set WireGuard of link ", nameOf(set.index), ": ", kj::strArray(parts, ", "));
}

// --- messages
kj::Vector<kj::Array<kj::byte>> encodeWireguard(uint16_t family, const SetWireguard& set) {
  kj::Vector<kj::Array<kj::byte>> messages;
  size_t peer = 0, network = 0;  // the start of the next message
  do {
    MessageBuilder out(family, NLM_F_REQUEST | NLM_F_ACK);
    putGenericHeader(out, WG_CMD_SET_DEVICE, WG_GENL_VERSION);
    out.putU32(WGDEVICE_A_IFINDEX, set.index);
    if (messages.size() == 0) {
      KJ_IF_MAYBE (secret, set.privateKey) out.put(WGDEVICE_A_PRIVATE_KEY, secret->bytes());
      if (set.listenPort) out.putU16(WGDEVICE_A_LISTEN_PORT, *set.listenPort);
      if (set.firewallMark) out.putU32(WGDEVICE_A_FWMARK, *set.firewallMark);
    }
    if (peer < set.peers.size()) {
      out.nest(WGDEVICE_A_PEERS, [&] {
        size_t room = kNetworksPerMessage;
        for (size_t peers = 0; peers < kPeersPerMessage && peer < set.peers.size(); ++peers) {
          auto& next = set.peers[peer];
          size_t count = std::min(room, next.allowed.size() - network);
          if (count == 0 && network < next.allowed.size()) break;  // in the next message
          putPeer(out, next, network, count);
          room -= count;
          network += count;
          if (network < next.allowed.size()) break;
          ++peer;
          network = 0;
        }
      });
    }
    messages.add(out.finish());
  } while (peer < set.peers.size());
  return messages;
}

kj::Array<kj::byte> encodeWireguardDump(uint16_t family, unsigned index) {
  MessageBuilder out(family, NLM_F_REQUEST | NLM_F_DUMP);
  putGenericHeader(out, WG_CMD_GET_DEVICE, WG_GENL_VERSION);
  out.putU32(WGDEVICE_A_IFINDEX, index);
  return out.finish();
}

void readWireguard(const Generic& message, WireguardDevice& device) {
  eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    switch (type) {
      case WGDEVICE_A_PUBLIC_KEY:
        readKey(attribute, device.publicKey);
        break;
      case WGDEVICE_A_LISTEN_PORT:
        read(attribute, device.listenPort);
        break;
      case WGDEVICE_A_FWMARK:
        read(attribute, device.firewallMark);
        break;
      case WGDEVICE_A_PEERS:
        eachNested(attribute, [&](unsigned, const nlattr* nest) {
          auto peer = readPeer(nest);
          auto& peers = device.peers;
          if (!peers.empty() && peers.back().publicKey == peer.publicKey) {
            auto& allowed = peers.back().allowed;
            if (allowed.size() + peer.allowed.size() <= kMostNetworks) {
              allowed.insert(allowed.end(), peer.allowed.begin(), peer.allowed.end());
            }
          } else {
            peers.push_back(std::move(peer));
          }
        });
        break;
      default:
        break;
    }
  });
}

}  // namespace talos::netlink
