#include "networkd/dns/dns-message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "networkd/dns/test-dns-messages.h"

namespace talos::networkd::dns {
namespace {

constexpr uint16_t kCname = 5;

// Catches: a name whose case decides its answer; bits of the client that are lost.
TEST(DnsMessage, AQueryIsReadWithItsBits) {
  auto query = TestQuery{"WwW.Test", kAddress6, 0xbeef, 0x0130, 1232, true}.parsed();
  EXPECT_EQ(0xbeef, query.id);
  EXPECT_EQ(std::string("\3www\4test\0", 10), query.key.name);
  EXPECT_EQ(std::string("\3WwW\4Test\0", 10), query.written);
  EXPECT_EQ(kAddress6, query.key.type);
  EXPECT_TRUE(query.key.recursion && query.key.authentic && query.key.unchecked);
  EXPECT_TRUE(query.key.edns && query.key.dnssec);
  EXPECT_EQ(1232u, query.mostUdp);
  EXPECT_EQ(kPlainUdpSize, TestQuery{}.parsed().mostUdp);
  EXPECT_EQ(kMostUdpSize, (TestQuery{.udp = 65535}.parsed().mostUdp));
  EXPECT_EQ(kPlainUdpSize, (TestQuery{.udp = 100}.parsed().mostUdp));
}

// Catches: an upstream that gets another question than the client asked; a client's number or
// spelling that goes to the upstream.
TEST(DnsMessage, TheUpstreamIsAskedTheSame) {
  auto query = TestQuery{"WwW.Test", kAddress6, 1, 0x0130, 1232, true}.parsed();
  auto sent = encodeQuery(query.key, 0x1234);
  auto read = KJ_ASSERT_NONNULL(parseQuery(sent));
  EXPECT_TRUE(read.key == query.key);
  EXPECT_EQ(0x1234, read.id);
  EXPECT_EQ(read.key.name, read.written);
  EXPECT_EQ(kMostUdpSize, read.mostUdp);
}

// Catches: a read beyond the end of a query; half of a query that gets an answer.
TEST(DnsMessage, ACutQueryIsNone) {
  auto whole = TestQuery{.udp = 1232}.encode();
  for (size_t size = 0; size < whole.size(); ++size) {
    auto cut = kj::heapArray<kj::byte>(whole.slice(0, size));
    EXPECT_TRUE(parseQuery(cut) == nullptr) << size;
    EXPECT_EQ(size >= kHeaderSize, refusal(cut) != nullptr) << size;
  }
}

// Catches: an answer that is taken for a query, so that two resolvers answer each other for ever;
// a query of another kind that is forwarded.
TEST(DnsMessage, OnlyQueriesAreAnswered) {
  struct Row {
    size_t at;
    kj::byte value;
    int rcode;  // -1: no answer
  };
  const Row rows[] = {
      {2, 0x81, -1},               // a response
      {2, 0x29, kNotImplemented},  // an update
      {5, 0, kFormatError},        // no question
      {5, 2, kFormatError},        // two
      {7, 1, kFormatError},        // an answer
      {12, 0xc0, kFormatError},    // a compressed name
      {12, 64, kFormatError},      // a label of another kind
  };
  for (auto& row : rows) {
    auto message = TestQuery{}.encode();
    message[row.at] = row.value;
    EXPECT_TRUE(parseQuery(message) == nullptr) << row.at;
    int rcode = -1;
    KJ_IF_MAYBE (answer, refusal(message)) {
      EXPECT_EQ(bytesOf(message.slice(0, 2)), bytesOf(answer->slice(0, 2)));
      EXPECT_EQ(kHeaderSize, answer->size());
      rcode = int(rcodeOf(*answer));
    }
    EXPECT_EQ(row.rcode, rcode) << row.at;
  }
}

// Catches: an answer to a later EDNS that does not say that this resolver knows version 0 only, and
// takes it for one without EDNS (RFC 6891 section 6.1.3).
TEST(DnsMessage, ALaterEdnsIsABadVersion) {
  auto message = TestQuery{.udp = 1232}.encode();
  message[message.size() - 5] = 1;  // the version
  auto query = KJ_ASSERT_NONNULL(parseQuery(message));
  EXPECT_TRUE(query.laterEdns);
  EXPECT_FALSE(TestQuery{.udp = 1232}.parsed().laterEdns);
  auto answer = errorAnswer(query, kBadVersion);
  EXPECT_EQ(kBadVersion, KJ_ASSERT_NONNULL(parseResponse(answer, query.key, 7)).rcode);
  EXPECT_EQ(0, answer[3] & 0x10) << "CD";
}

// Catches: a name that is too long, which a fixed buffer would not hold.
TEST(DnsMessage, ALongNameIsRefused) {
  auto label = kj::str(kj::repeat('a', 63));
  auto most = kj::str(label, ".", label, ".", label, ".", kj::repeat('b', 61));
  EXPECT_TRUE(parseQuery(TestQuery{.name = most}.encode()) != nullptr);
  auto more = kj::str(most, "b");
  EXPECT_TRUE(parseQuery(TestQuery{.name = more}.encode()) == nullptr);
  EXPECT_TRUE(wireName(most) != nullptr);
  EXPECT_TRUE(wireName(more) == nullptr);
}

// Catches: a name of the config that is compared in another form than queries have.
TEST(DnsMessage, NamesAreAsOnTheWire) {
  EXPECT_EQ(std::string("\1a\4test\0", 8), KJ_ASSERT_NONNULL(wireName("A.test")));
  EXPECT_EQ(std::string("\1a\4test\0", 8), KJ_ASSERT_NONNULL(wireName("a.test.")));
  for (auto wrong : {"", ".", "a..b", ".a", "a.."}) {
    EXPECT_TRUE(wireName(wrong) == nullptr) << wrong;
  }
}

struct ForgedRow {
  const char* what;
  size_t at;
  kj::byte value;
};

// Catches: a forged answer, which a cache would keep (RFC 5452).
TEST(DnsMessage, AnAnswerFitsItsQuery) {
  auto query = TestQuery{}.encode();
  auto key = TestQuery{}.parsed().key;
  auto good = TestResponse{.answers = {addressRecord("192.0.2.1")}}.encode(query);
  EXPECT_TRUE(parseResponse(good, key, 7) != nullptr);
  EXPECT_TRUE(parseResponse(good, key, 8) == nullptr) << "the number";
  const ForgedRow rows[] = {{"a query", 2, 0x01},     {"another opcode", 2, 0xa9},
                            {"no question", 5, 0},    {"another name", 13, 'b'},
                            {"another type", 21, 28}, {"another class", 23, 3}};
  for (auto& row : rows) {
    auto forged = kj::heapArray<kj::byte>(good.asPtr());
    forged[row.at] = row.value;
    EXPECT_TRUE(parseResponse(forged, key, 7) == nullptr) << row.what;
  }
  auto spelled = kj::heapArray<kj::byte>(good.asPtr());
  spelled[13] = 'A';
  EXPECT_TRUE(parseResponse(spelled, key, 7) != nullptr) << "a server may change the case";
  for (size_t size = 0; size < good.size(); ++size) {
    auto cut = kj::heapArray<kj::byte>(good.slice(0, size));
    EXPECT_TRUE(parseResponse(cut, key, 7) == nullptr) << size;
  }
}

// Catches: a server without EDNS, or that is broken, for whose answer each query waits until its
// deadline.
TEST(DnsMessage, AFailureWithoutAQuestionIsAFailure) {
  auto answer = KJ_ASSERT_NONNULL(refusal(TestQuery{}.encode()));
  auto response = KJ_ASSERT_NONNULL(parseResponse(answer, TestQuery{}.parsed().key, 7));
  EXPECT_EQ(kServerFailure, response.rcode);
}

struct LifetimeRow {
  const char* what;
  TestResponse response;
  uint32_t lifetime;
};

// Catches: an answer that is kept for longer than its server allows, or that is never kept.
TEST(DnsMessage, LifetimesAreThoseOfTheServer) {
  const TestRecord one = addressRecord("192.0.2.1", 60), zero = addressRecord("192.0.2.2", 0),
                   ages = addressRecord("192.0.2.3", 0x80000000),
                   alias{kCname, 30, std::string(1, '\0')};
  const LifetimeRow rows[] = {
      {"an address", {.answers = {one}}, 60},
      {"the shortest", {.answers = {one, addressRecord("192.0.2.9", 5)}}, 5},
      {"of the authority, too", {.answers = {one}, .authorities = {soaRecord(7, 99)}}, 7},
      {"0", {.answers = {one, zero}}, 0},
      {"more than 2^31 (RFC 2181)", {.answers = {ages}}, 0},
      {"a month", {.answers = {addressRecord("192.0.2.1", 2592000)}}, kLongestLifetime},
      {"no such name", {kNameError, {}, {soaRecord(300, 60)}}, kLongestNegativeLifetime},
      {"no such name, minimum", {kNameError, {}, {soaRecord(300, 3)}}, 3},
      {"no such name, TTL", {kNameError, {}, {soaRecord(4, 60)}}, 4},
      {"no such name, without SOA", {kNameError}, 0},
      {"no such type", {.authorities = {soaRecord(300, 60)}}, kLongestNegativeLifetime},
      {"no such type, without SOA", {}, 0},
      {"an alias without address", {.answers = {alias}}, 0},
      {"an alias of no such type", {.answers = {alias}, .authorities = {soaRecord(300, 60)}}, 10},
      {"an alias and its address", {.answers = {alias, one}}, 30},
      {"a failure", {kServerFailure, {one}}, 0},
      {"truncated", {.answers = {one}, .flags = 0x8780}, 0},
  };
  auto query = TestQuery{.udp = 1232};
  for (auto& row : rows) {
    auto message = row.response.encode(query.encode());
    auto response = KJ_ASSERT_NONNULL(parseResponse(message, query.parsed().key, 7), row.what);
    EXPECT_EQ(row.lifetime, response.lifetime) << row.what;
  }
}

// Catches: a client that gets the number, the spelling or the age of another; an answer that says
// that this node is the authority.
TEST(DnsMessage, AnAnswerIsMadeForItsClient) {
  auto key = TestQuery{}.parsed().key;
  auto message =
      TestResponse{.answers = {addressRecord("192.0.2.1", 60)}}.encode(TestQuery{.id = 7}.encode());
  auto response = KJ_ASSERT_NONNULL(parseResponse(message, key, 7));
  auto ttls = kj::arrayPtr(response.ttls.data(), response.ttls.size());
  auto client = TestQuery{.name = "A.tEST", .id = 0x0102};
  auto answer = answerOf(client.parsed(), message, ttls, 25);
  EXPECT_EQ(bytesOf(client.encode().slice(0, 2)), bytesOf(answer.slice(0, 2)));
  EXPECT_EQ(bytesOf(client.encode().slice(12, 20)), bytesOf(answer.slice(12, 20)));
  EXPECT_EQ(35u, firstTtl(answer));
  EXPECT_EQ(0, answer[2] & 0x04);
  EXPECT_EQ(0u, firstTtl(answerOf(client.parsed(), message, ttls, 61)));
}

// Catches: an answer of this node that clients cannot read, or of another family than the query's.
TEST(DnsMessage, OwnAnswersAreMessages) {
  auto query = TestQuery{.udp = 1232};
  Ip list[] = {ip("192.0.2.1"), ip("192.0.2.2")};
  auto answer = addressAnswer(query.parsed(), kj::arrayPtr(list, 2), 10);
  auto response = KJ_ASSERT_NONNULL(parseResponse(answer, query.parsed().key, 7));
  EXPECT_EQ(kNoError, response.rcode);
  EXPECT_EQ(10u, response.lifetime);
  EXPECT_EQ(2u, countOfAnswers(answer));
  EXPECT_NE(0, answer[2] & 0x04) << "authoritative";
  auto failed = errorAnswer(query.parsed(), kServerFailure);
  EXPECT_EQ(kServerFailure, KJ_ASSERT_NONNULL(parseResponse(failed, query.parsed().key, 7)).rcode);
  auto cut = truncatedAnswer(query.parsed(), answer);
  auto shown = KJ_ASSERT_NONNULL(parseResponse(cut, query.parsed().key, 7));
  EXPECT_TRUE(shown.truncated);
  EXPECT_EQ(0u, countOfAnswers(cut));
  EXPECT_LE(cut.size(), kPlainUdpSize);
}

}  // namespace
}  // namespace talos::networkd::dns
