// Messages of DNS (RFC 1035, RFC 6891), as far as a caching forwarder needs them. Pure.
//
// A message of the network may have any bytes. The parsers read its header and its question, and
// walk over its records for their times to live; they expand no compressed name and interpret no
// data but that of an SOA, so no message can make them loop or read beyond its end. A forwarder
// does not pass on what a client sent: it asks the upstream with a message that encodeQuery()
// builds from the parsed query, so options of EDNS stay between the client and this node.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <stdint.h>

#include <compare>
#include <string>
#include <vector>

#include "common/net/ip.h"

namespace talos::networkd::dns {

using Bytes = kj::ArrayPtr<const kj::byte>;

constexpr uint16_t kPort = 53;
constexpr size_t kHeaderSize = 12;
// Largest messages over UDP: without EDNS, and the most that this resolver announces and accepts.
constexpr size_t kPlainUdpSize = 512, kMostUdpSize = 4096;
constexpr uint32_t kLongestLifetime = 24 * 60 * 60, kLongestNegativeLifetime = 10;  // s

constexpr uint16_t kAddress = 1, kSoa = 6, kAddress6 = 28, kOpt = 41, kIxfr = 251, kAxfr = 252,
                   kAnyType = 255;
constexpr uint16_t kInternet = 1;  // class

enum Rcode : uint16_t {
  kNoError = 0,
  kFormatError = 1,
  kServerFailure = 2,
  kNameError = 3,
  kNotImplemented = 4,
  kRefused = 5,
  kBadVersion = 16,  // only with EDNS
};

// The fields of a query that decide its answer: equal keys have equal answers.
struct QueryKey {
  std::string name;  // as on the wire, with the final root, in lower case
  uint16_t type = 0, klass = 0;
  bool recursion = false;  // RD
  bool authentic = false;  // AD: the client understands this bit of an answer
  bool unchecked = false;  // CD
  bool edns = false, dnssec = false;
  auto operator<=>(const QueryKey&) const = default;
};

struct Query {
  uint16_t id = 0;
  QueryKey key;
  std::string written;             // the name as the client wrote it
  size_t mostUdp = kPlainUdpSize;  // largest answer that the client accepts over UDP
  bool laterEdns = false;  // of a version that this resolver does not know: the answer is BADVERS
};

// Returns nullptr if the message is not a query with one question that this resolver understands.
kj::Maybe<Query> parseQuery(Bytes message);
// Returns the answer to a query that parseQuery() does not accept; nullptr if it gets none, because
// it has no header, or is an answer itself.
kj::Maybe<kj::Array<kj::byte>> refusal(Bytes message);

kj::Array<kj::byte> encodeQuery(const QueryKey& key, uint16_t id);

// The answer of an upstream.
struct Response {
  uint16_t rcode = kNoError;
  bool truncated = false;
  std::vector<uint32_t> ttls;  // places of the times to live in the message
  uint32_t lifetime = 0;       // seconds that a cache may keep it (RFC 2181, RFC 2308)
};
// Returns nullptr if the message is not an answer to this query.
kj::Maybe<Response> parseResponse(Bytes message, const QueryKey& key, uint16_t id);

// --- answers to a client

// Returns an upstream's message with the client's id and spelling, not authoritative, and with the
// times to live that are left after `age` seconds. The message has been parsed as the answer to a
// query with the same key.
kj::Array<kj::byte> answerOf(const Query& query, Bytes message, kj::ArrayPtr<const uint32_t> ttls,
                             uint32_t age);
// Returns an answer without records.
kj::Array<kj::byte> errorAnswer(const Query& query, Rcode rcode);
// Returns an authoritative answer with these addresses, which are of the family of the query's
// type.
kj::Array<kj::byte> addressAnswer(const Query& query, kj::ArrayPtr<const Ip> addresses,
                                  uint32_t ttl);
// Returns the answer without its records, which tells the client to ask over TCP.
kj::Array<kj::byte> truncatedAnswer(const Query& query, Bytes answer);

// Returns a name in the form of QueryKey::name; nullptr if it is no name of DNS.
kj::Maybe<std::string> wireName(kj::StringPtr text);

}  // namespace talos::networkd::dns
