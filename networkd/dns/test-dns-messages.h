// Messages of DNS for tests: queries as clients send them, and responses as upstreams do.
#pragma once

#include <kj/debug.h>

#include <string>
#include <vector>

#include "common/testing/test-ip.h"
#include "networkd/dhcp/dhcp-wire.h"
#include "networkd/dns/dns-message.h"

namespace talos::networkd::dns {

// Returns bytes as text, so that a failed comparison shows them.
inline std::string bytesOf(Bytes bytes) {
  return {bytes.asChars().begin(), bytes.size()};
}

struct TestQuery {
  kj::StringPtr name = "a.test"_kj;
  uint16_t type = kAddress;
  uint16_t id = 7;
  uint16_t flags = 0x0100;  // RD
  unsigned udp = 0;         // size that EDNS announces; 0: no EDNS
  bool dnssec = false;

  kj::Array<kj::byte> encode() const {
    dhcp::Writer out;
    out.u16(id).u16(flags).u16(1).u16(0).u16(0).u16(udp > 0);
    dhcp::writeName(out, name);
    out.u16(type).u16(kInternet);
    if (udp > 0) out.u8(0).u16(kOpt).u16(udp).u32(dnssec ? 0x8000 : 0).u16(0);
    return out.finish();
  }
  Query parsed() const { return KJ_ASSERT_NONNULL(parseQuery(encode())); }
};

struct TestRecord {
  uint16_t type;
  uint32_t ttl;
  std::string data;
};

inline TestRecord addressRecord(kj::StringPtr address, uint32_t ttl = 60) {
  auto bytes = ip(address);
  return {bytes.family() == AF_INET ? kAddress : kAddress6, ttl, bytesOf(bytes.bytes())};
}
inline TestRecord soaRecord(uint32_t ttl, uint32_t minimum) {
  dhcp::Writer out;
  out.u16(0).u32(1).u32(2).u32(3).u32(4).u32(minimum);  // two root names, and numbers
  return {kSoa, ttl, bytesOf(out.written())};
}

struct TestResponse {
  uint16_t rcode = kNoError;
  std::vector<TestRecord> answers = {}, authorities = {};
  uint16_t flags = 0x8580;  // QR, AA, RD, RA

  // Returns the response to the query; all records have the name of the question.
  kj::Array<kj::byte> encode(Bytes query) const {
    auto asked = KJ_ASSERT_NONNULL(parseQuery(query));
    auto& key = asked.key;
    dhcp::Writer out;
    out.bytes(query.slice(0, 2)).u16(unsigned(flags | rcode)).u16(1).u16(unsigned(answers.size()));
    out.u16(unsigned(authorities.size())).u16(key.edns);
    auto end = kHeaderSize + key.name.size() + 4;
    out.bytes(query.slice(kHeaderSize, end));
    for (auto list : {&answers, &authorities}) {
      for (auto& record : *list) {
        out.u16(0xc00c).u16(record.type).u16(kInternet).u32(record.ttl);
        out.u16(unsigned(record.data.size()));
        out.bytes(kj::arrayPtr(record.data.data(), record.data.size()).asBytes());
      }
    }
    if (key.edns) out.u8(0).u16(kOpt).u16(kMostUdpSize).u32(0).u16(0);
    return out.finish();
  }
};

// Returns the number of seconds at the first TTL of a response with one question and a pointer as
// the name of the first record.
inline uint32_t firstTtl(Bytes message) {
  size_t at = kHeaderSize;
  while (message[at] != 0) at += 1 + message[at];
  dhcp::Reader in(message.slice(at + 1 + 4 + 2 + 4, message.size()));
  return in.u32();
}
inline unsigned rcodeOf(Bytes message) {
  return message[3] & 0xf;
}
inline unsigned countOfAnswers(Bytes message) {
  return unsigned(message[6] << 8 | message[7]);
}

}  // namespace talos::networkd::dns
