#include "networkd/dns/dns-message.h"

#include <string.h>

#include <algorithm>

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dns {
namespace {

using dhcp::Reader;
using dhcp::Writer;

constexpr size_t kLongestName = 255, kLongestLabel = 63;
constexpr uint16_t kResponse = 0x8000, kOpcode = 0x7800, kAuthoritative = 0x0400,
                   kTruncated = 0x0200, kRecursion = 0x0100, kAvailable = 0x0080,
                   kAuthentic = 0x0020, kUnchecked = 0x0010, kRcode = 0x000f;
constexpr uint32_t kDnssecOk = 0x8000;                 // in the TTL of OPT
constexpr uint16_t kPointerToQuestion = 0xc00c;        // the name of the question
constexpr size_t kShortestSoa = 22, kMinimumSize = 4;  // two root names and five numbers

struct Header {
  uint16_t id, flags, questions, answers, authorities, additionals;
};

Header readHeader(Reader& in) {
  Header h;
  h.id = in.u16();
  h.flags = in.u16();
  h.questions = in.u16();
  h.answers = in.u16();
  h.authorities = in.u16();
  h.additionals = in.u16();
  return h;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c;
}

// Reads a name without compression; nullptr if it is not valid.
kj::Maybe<std::string> readName(Reader& in) {
  std::string name;
  for (;;) {
    size_t length = in.u8();
    if (in.bad() || length > kLongestLabel || name.size() + 1 + length > kLongestName) {
      return nullptr;
    }
    name.push_back(char(length));
    if (length == 0) return kj::mv(name);
    auto label = in.take(length).asChars();
    name.append(label.begin(), label.size());
  }
}

// The lengths of labels stay as they are: they are at most 63, and 'A' is 65.
std::string lowerName(std::string name) {
  for (char& c : name) c = lower(c);
  return name;
}

// Skips a name that may be compressed: a pointer ends it.
void skipName(Reader& in) {
  for (;;) {
    auto length = in.u8();
    if (in.bad() || length == 0) return;
    if (length >= 0xc0) {
      in.u8();
      return;
    }
    if (length > kLongestLabel) {
      in.take(in.left() + 1);  // the other kinds of labels do not exist
      return;
    }
    in.take(length);
  }
}

struct Record {
  uint16_t type, klass;
  uint32_t ttlPlace, ttl;
  Bytes data;
};

Record readRecord(Reader& in, size_t size) {
  skipName(in);
  Record record;
  record.type = in.u16();
  record.klass = in.u16();
  record.ttlPlace = uint32_t(size - in.left());
  record.ttl = in.u32();
  size_t length = in.u16();
  record.data = in.take(length);
  return record;
}

uint32_t lifetimeOf(uint32_t ttl) {
  return ttl > INT32_MAX ? 0 : ttl;  // RFC 2181 section 8
}

uint32_t numberAt(Bytes bytes, size_t at) {
  Reader in(bytes.slice(at, bytes.size()));
  return in.u32();
}

void putNumber(kj::ArrayPtr<kj::byte> bytes, size_t at, uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) bytes[at + i] = kj::byte(value >> (24 - 8 * i));
}

uint16_t flagsIn(Bytes message) {
  return uint16_t(message[2] << 8 | message[3]);
}

void putFlags(kj::ArrayPtr<kj::byte> message, uint16_t flags) {
  message[2] = kj::byte(flags >> 8);
  message[3] = kj::byte(flags);
}

uint16_t requestFlags(const QueryKey& key) {
  return uint16_t((key.recursion ? kRecursion : 0) | (key.authentic ? kAuthentic : 0) |
                  (key.unchecked ? kUnchecked : 0));
}

void writeHeader(Writer& out, const Header& h) {
  out.u16(h.id).u16(h.flags).u16(h.questions).u16(h.answers).u16(h.authorities).u16(h.additionals);
}

void writeQuestion(Writer& out, const std::string& name, const QueryKey& key) {
  out.bytes(kj::arrayPtr(name.data(), name.size()).asBytes()).u16(key.type).u16(key.klass);
}

// `upper`: the bits of the Rcode that the header has no place for.
void writeOpt(Writer& out, const QueryKey& key, uint32_t upper = 0) {
  auto ttl = upper << 24 | (key.dnssec ? kDnssecOk : 0);
  out.u8(0).u16(kOpt).u16(kMostUdpSize).u32(ttl).u16(0);
}

// Writes the answer without records; `flags` are those beside the client's.
kj::Array<kj::byte> bareAnswer(const Query& query, uint16_t flags, uint32_t upper = 0) {
  Writer out;
  auto all = uint16_t(kResponse | (requestFlags(query.key) & ~kAuthentic) | flags);
  writeHeader(out, {query.id, all, 1, 0, 0, uint16_t(query.key.edns)});
  writeQuestion(out, query.written, query.key);
  if (query.key.edns) writeOpt(out, query.key, upper);
  return out.finish();
}

// Reads the additional records of a query; false if they are not valid.
bool readAdditionals(Reader& in, size_t size, unsigned count, Query& query) {
  for (unsigned i = 0; i < count; ++i) {
    auto record = readRecord(in, size);
    if (in.bad()) return false;
    if (record.type != kOpt) continue;
    constexpr uint32_t kVersion = 0x00ff0000;
    if (query.key.edns) return false;
    query.key.edns = true;
    query.laterEdns = (record.ttl & kVersion) != 0;
    query.key.dnssec = (record.ttl & kDnssecOk) != 0;
    query.mostUdp = std::clamp<size_t>(record.klass, kPlainUdpSize, kMostUdpSize);
  }
  return true;
}

// The records of a response, as a cache sees them.
class Records {
 public:
  Records(const QueryKey& key, Response& response) : key(key), response(response) {}

  // Returns false if the section is not valid.
  bool read(Reader& in, size_t size, unsigned count, bool answers, bool authorities) {
    for (unsigned i = 0; i < count; ++i) {
      auto record = readRecord(in, size);
      if (in.bad()) return false;
      if (record.type == kOpt) {
        response.rcode |= uint16_t(record.ttl >> 24 << 4);
        continue;
      }
      response.ttls.push_back(record.ttlPlace);
      shortest = std::min(shortest, lifetimeOf(record.ttl));
      bool asked = record.type == key.type || key.type == kAnyType;
      if (answers && asked) hasAnswer = true;
      if (authorities && record.type == kSoa && record.data.size() >= kShortestSoa) {
        hasSoa = true;
        auto minimum = numberAt(record.data, record.data.size() - kMinimumSize);
        negative = std::min(negative, lifetimeOf(minimum));
      }
    }
    return true;
  }

  uint32_t lifetime() const {
    if (response.truncated) return 0;
    if (response.rcode == kNoError && hasAnswer) return std::min(shortest, kLongestLifetime);
    bool absent = response.rcode == kNoError || response.rcode == kNameError;
    // RFC 2308: without an SOA nothing says how long this holds.
    return absent && hasSoa ? std::min(shortest, negative) : 0;
  }

 private:
  const QueryKey& key;
  Response& response;
  uint32_t shortest = INT32_MAX, negative = kLongestNegativeLifetime;
  bool hasAnswer = false, hasSoa = false;
};

}  // namespace

kj::Maybe<Query> parseQuery(Bytes message) {
  Reader in(message);
  auto header = readHeader(in);
  bool good = (header.flags & (kResponse | kOpcode)) == 0 && header.questions == 1 &&
              header.answers == 0 && header.authorities == 0;
  if (in.bad() || !good) return nullptr;
  KJ_IF_MAYBE (name, readName(in)) {
    Query query;
    query.id = header.id;
    query.key.name = lowerName(*name);
    query.key.type = in.u16();
    query.key.klass = in.u16();
    query.key.recursion = (header.flags & kRecursion) != 0;
    query.key.authentic = (header.flags & kAuthentic) != 0;
    query.key.unchecked = (header.flags & kUnchecked) != 0;
    query.written = kj::mv(*name);
    if (in.bad() || !readAdditionals(in, message.size(), header.additionals, query)) return nullptr;
    return kj::mv(query);
  }
  return nullptr;
}

kj::Maybe<kj::Array<kj::byte>> refusal(Bytes message) {
  Reader in(message);
  auto header = readHeader(in);
  if (in.bad() || (header.flags & kResponse) != 0) return nullptr;
  auto rcode = (header.flags & kOpcode) == 0 ? kFormatError : kNotImplemented;
  Writer out;
  auto flags = uint16_t(kResponse | (header.flags & (kOpcode | kRecursion)) | rcode);
  writeHeader(out, {header.id, flags, 0, 0, 0, 0});
  return out.finish();
}

kj::Array<kj::byte> encodeQuery(const QueryKey& key, uint16_t id) {
  Writer out;
  writeHeader(out, {id, requestFlags(key), 1, 0, 0, uint16_t(key.edns)});
  writeQuestion(out, key.name, key);
  if (key.edns) writeOpt(out, key);
  return out.finish();
}

kj::Maybe<Response> parseResponse(Bytes message, const QueryKey& key, uint16_t id) {
  Reader in(message);
  auto header = readHeader(in);
  if (in.bad() || header.id != id || (header.flags & (kResponse | kOpcode)) != kResponse) {
    return nullptr;
  }
  Response response;
  response.rcode = header.flags & kRcode;
  response.truncated = (header.flags & kTruncated) != 0;
  if (header.questions == 0 && response.rcode != kNoError && response.rcode != kNameError) {
    response.rcode = kServerFailure;  // a server that did not understand the query
    return kj::mv(response);
  }
  if (header.questions != 1) return nullptr;
  auto name = readName(in);
  auto type = in.u16(), klass = in.u16();
  KJ_IF_MAYBE (n, name) {
    bool same = lowerName(*n) == key.name && type == key.type && klass == key.klass;
    if (in.bad() || !same) return nullptr;
  } else {
    return nullptr;
  }
  Records records(key, response);
  auto size = message.size();
  bool whole = records.read(in, size, header.answers, true, false) &&
               records.read(in, size, header.authorities, false, true) &&
               records.read(in, size, header.additionals, false, false);
  if (!whole) {
    // Servers may cut a truncated message in the middle of a record; its records are not used.
    if (!response.truncated) return nullptr;
    response.ttls.clear();
  }
  response.lifetime = whole ? records.lifetime() : 0;
  return kj::mv(response);
}

kj::Array<kj::byte> answerOf(const Query& query, Bytes message, kj::ArrayPtr<const uint32_t> ttls,
                             uint32_t age) {
  auto answer = dhcp::copyOf(message);
  answer[0] = kj::byte(query.id >> 8);
  answer[1] = kj::byte(query.id);
  putFlags(answer, uint16_t(flagsIn(answer) & ~kAuthoritative));
  memcpy(answer.begin() + kHeaderSize, query.written.data(), query.written.size());
  for (auto place : ttls) {
    auto ttl = lifetimeOf(numberAt(answer, place));
    putNumber(answer, place, ttl > age ? ttl - age : 0);
  }
  return answer;
}

kj::Array<kj::byte> errorAnswer(const Query& query, Rcode rcode) {
  return bareAnswer(query, uint16_t(kAvailable | (rcode & kRcode)), uint32_t(rcode) >> 4);
}

kj::Array<kj::byte> addressAnswer(const Query& query, kj::ArrayPtr<const Ip> addresses,
                                  uint32_t ttl) {
  Writer out;
  auto flags =
      uint16_t(kResponse | kAuthoritative | kAvailable | (requestFlags(query.key) & ~kAuthentic));
  writeHeader(out, {query.id, flags, 1, uint16_t(addresses.size()), 0, uint16_t(query.key.edns)});
  writeQuestion(out, query.written, query.key);
  for (auto& address : addresses) {
    out.u16(kPointerToQuestion).u16(query.key.type).u16(kInternet).u32(ttl);
    out.u16(unsigned(address.bytes().size())).ip(address);
  }
  if (query.key.edns) writeOpt(out, query.key);
  return out.finish();
}

kj::Array<kj::byte> truncatedAnswer(const Query& query, Bytes answer) {
  auto flags = flagsIn(answer) & (kAuthoritative | kAvailable | kAuthentic | kRcode);
  return bareAnswer(query, uint16_t(flags | kTruncated));
}

kj::Maybe<std::string> wireName(kj::StringPtr text) {
  std::string name;
  auto rest = text.asArray();
  if (rest.size() > 0 && rest.back() == '.') rest = rest.slice(0, rest.size() - 1);
  while (rest.size() > 0) {
    auto dot = std::find(rest.begin(), rest.end(), '.');
    auto length = size_t(dot - rest.begin());
    if (length == 0 || length > kLongestLabel) return nullptr;
    name.push_back(char(length));
    name.append(rest.begin(), length);
    bool last = dot == rest.end();
    if (!last && length + 1 == rest.size()) return nullptr;  // two dots at the end
    rest = rest.slice(last ? length : length + 1, rest.size());
  }
  name.push_back('\0');
  if (name.size() == 1 || name.size() > kLongestName) return nullptr;
  return lowerName(kj::mv(name));
}

}  // namespace talos::networkd::dns
