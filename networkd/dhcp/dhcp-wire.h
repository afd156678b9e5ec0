// Octets in network order, read and written; and the domain names of RFC 1035 §3.1 in them.
//
// Serves the parsers of this folder, which accept any bytes: a Reader never reads beyond its input.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::networkd::dhcp {

using Bytes = kj::ArrayPtr<const kj::byte>;

constexpr uint32_t kInfinite = 0xffffffff;  // for every lifetime in seconds

// After a read beyond the end, `bad()` stays true and every read returns zeros.
class Reader {
 public:
  explicit Reader(Bytes bytes) : rest(bytes) {}

  bool bad() const { return failed; }
  size_t left() const { return rest.size(); }
  Bytes take(size_t size);
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  Ip ip(int family);

 private:
  Bytes rest;
  bool failed = false;
  uint64_t number(size_t size);
};

class Writer {
 public:
  Writer& u8(unsigned value) { return number(value, 1); }
  Writer& u16(unsigned value) { return number(value, 2); }
  Writer& u32(uint32_t value) { return number(value, 4); }
  Writer& bytes(Bytes bytes);
  Writer& ip(const Ip& ip) { return bytes(ip.bytes()); }
  Writer& zeros(size_t count);
  Bytes written() const { return content; }
  size_t size() const { return content.size(); }
  kj::Array<kj::byte> finish() { return content.releaseAsArray(); }

 private:
  kj::Vector<kj::byte> content;
  Writer& number(uint64_t value, size_t size);
};

kj::Array<kj::byte> copyOf(Bytes bytes);

// Returns the addresses of the family in `field`, at most 16; empty if the field's size is not a
// multiple of theirs.
kj::Vector<Ip> addressesIn(Bytes field, int family);
// Returns the addresses that a program could use: not unspecified, not multicast, and not IPv6
// link-local, because those need the link's name, which has no place in the result.
kj::Vector<Ip> serversIn(Bytes field, int family);

// Returns the checksum of RFC 1071 over all parts, as it is sent; each part but the last has an
// even size.
uint16_t internetChecksum(std::initializer_list<Bytes> parts);

// --- names
//
// Names end up in files of this machine, so a name may contain only letters, digits, '-' and '_'
// between its dots. Any other text of a server is dropped.

// Returns the name in a text field as options 12 and 15 of DHCPv4 have it; a trailing dot and NULs
// are cut.
kj::Maybe<kj::String> nameIn(Bytes text);
// Returns the names in wire form in `field`, each once, in order, at most 32. With `compressed`,
// pointers count from the field's start (RFC 3397 §2) and may only point backwards, so no loop is
// endless.
kj::Vector<kj::String> namesIn(Bytes field, bool compressed);
// Writes the name in wire form, without compression. A label over 63 octets is an error
// (kj::Exception).
void writeName(Writer& out, kj::StringPtr name);

}  // namespace talos::networkd::dhcp
