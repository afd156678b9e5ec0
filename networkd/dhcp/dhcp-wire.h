// Octets in network order, read and written; and the domain names of RFC 1035 §3.1 in them.
//
// For the parsers beside it, which take any bytes whatever: a Reader never goes beyond its input.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::networkd::dhcp {

using Bytes = kj::ArrayPtr<const kj::byte>;

constexpr uint32_t kInfinite = 0xffffffff;  // of every lifetime in seconds

// After a read of more than there is, `bad()` stays true and every read gives zeros.
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

// All addresses of the family in `field`; none when its size is not a multiple of theirs. Of many,
// the first 16.
kj::Vector<Ip> addressesIn(Bytes field, int family);
// Those of them that a program could ask: not unspecified, not multicast, and not link-local ones
// of IPv6, which mean nothing without the link's name, and there is no place for one.
kj::Vector<Ip> serversIn(Bytes field, int family);

// The sum of RFC 1071 over all parts, each but the last of even size; the value that goes on the
// wire.
uint16_t internetChecksum(std::initializer_list<Bytes> parts);

// --- names
// Names are what files of this machine will contain, so only letters, digits, '-' and '_' between
// the dots count as one. Whatever else a server sends is left out.

// The name in a text field as options 12 and 15 of DHCPv4 have it; a trailing dot and NULs are cut.
kj::Maybe<kj::String> nameIn(Bytes text);
// The names in wire form in `field`, each once, in order, at most 32. With `compressed`, pointers
// count from the field's begin (RFC 3397 §2) and may only go back, which ends every loop.
kj::Vector<kj::String> namesIn(Bytes field, bool compressed);
// In wire form, without compression. Labels over 63 octets are an error (kj::Exception).
void writeName(Writer& out, kj::StringPtr name);

}  // namespace talos::networkd::dhcp
