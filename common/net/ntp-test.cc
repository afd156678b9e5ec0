#include "common/net/ntp.h"

#include <gtest/gtest.h>

#include <functional>

namespace talos::ntp {
namespace {

constexpr uint64_t kNonce = 0x0123456789abcdefull;
constexpr kj::Date kNow = kj::UNIX_EPOCH + 1790000000 * kj::SECONDS;  // 2026

kj::Date at(int64_t seconds, int64_t nanoseconds = 0) {
  return kj::UNIX_EPOCH + seconds * kj::SECONDS + nanoseconds * kj::NANOSECONDS;
}

// Returns a good reply: the query took 10 ms to the server, 1 ms in the server, 10 ms back; the
// server is 2 s ahead.
Packet goodReply() {
  Packet p;
  p.mode = kServer;
  p.stratum = 2;
  p.rootDelay = 15625 * kj::MICROSECONDS;
  p.rootDispersion = 8 * kj::MILLISECONDS - 187'500 * kj::NANOSECONDS;
  p.origin.raw = kNonce;
  p.reference = Timestamp::of(kNow - 60 * kj::SECONDS);
  p.receive = Timestamp::of(kNow + 2010 * kj::MILLISECONDS);
  p.transmit = Timestamp::of(kNow + 2011 * kj::MILLISECONDS);
  return p;
}
constexpr kj::Duration kElapsed = 21 * kj::MILLISECONDS;

Verdict judged(const Packet& p) {
  return judge(encode(p), kNonce, kNow, kElapsed);
}

kj::String said(const Verdict& v) {
  KJ_SWITCH_ONEOF(v) {
    KJ_CASE_ONEOF(s, Sample) {
      return kj::str("offset ", showOffset(s.offset), " delay ", showOffset(s.delay), " root ",
                     showOffset(s.rootDistance));
    }
    KJ_CASE_ONEOF(k, KissOfDeath) {
      return kj::str("kiss ", k.code, " ", int(k.action));
    }
    KJ_CASE_ONEOF(r, Rejected) {
      return kj::str(r.forged ? "forged: " : "", r.error);
    }
  }
  return kj::str("nothing");
}

// An era read wrongly makes a clock wrong by 136 years; rounding the wrong way loses the identity.
TEST(Ntp, TimestampsInEveryEraKeepEachNanosecond) {
  struct {
    kj::Date date;
    uint64_t raw;
  } rows[] = {
      {kj::UNIX_EPOCH, 0x83aa7e80'00000000},
      {at(0, 500'000'000), 0x83aa7e80'80000000},
      {at(-1), 0x83aa7e7f'00000000},
      {at(2085978495), 0xffffffff'00000000},               // 2036-02-07T06:28:15Z, era 0 ends
      {at(2085978496), 0x00000000'00000000},               // era 1 starts
      {at(2085978497, 250'000'000), 0x00000001'40000000},  // and continues
      {at(4233462143), 0x7fffffff'00000000},               // 2104-02-26T09:42:23Z
      {at(-61505152), 0x80000000'00000000},                // 1968-01-20T03:14:08Z
  };
  for (auto& row : rows) {
    EXPECT_EQ(Timestamp::of(row.date).raw, row.raw);
    EXPECT_EQ(Timestamp{row.raw}.date(), row.date) << std::hex << row.raw;
  }
  for (int64_t ns : {0, 1, 2, 3, 233, 499'999'999, 500'000'001, 999'999'998, 999'999'999}) {
    for (int64_t s : {int64_t(0), int64_t(1790000000), int64_t(2085978495), int64_t(4000000000)}) {
      EXPECT_EQ(Timestamp::of(at(s, ns)).date(), at(s, ns)) << s << " " << ns;
    }
  }
  // Rounding up would leave the last second of the range, and wrap to 136 years earlier.
  EXPECT_EQ(Timestamp{0x7fffffff'ffffffff}.date(), at(4233462143, 999'999'999));
}

// A field at a wrong offset or of a wrong width.
TEST(Ntp, PacketsHaveTheOctetsOfTheStandard) {
  Packet p;
  p.leap = 1;
  p.version = 3;
  p.mode = kServer;
  p.stratum = 2;
  p.poll = 6;
  p.precision = -20;
  p.rootDelay = 1500 * kj::MILLISECONDS;
  p.rootDispersion = 250 * kj::MILLISECONDS;
  p.referenceId = 0x0a050001;
  p.reference.raw = 0x1111111122222222;
  p.origin.raw = 0x3333333344444444;
  p.receive.raw = 0x5555555566666666;
  p.transmit.raw = 0x7777777788888888;
  auto bytes = encode(p);
  const kj::byte head[] = {0x5c, 2, 6, 0xec, 0,    1,    0x80, 0,    0,    0,    0x40, 0,   10,
                           5,    0, 1, 0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22, 0x33};
  ASSERT_EQ(bytes.size(), kPacketSize);
  EXPECT_EQ(bytes.slice(0, sizeof head), kj::arrayPtr(head, sizeof head));
  EXPECT_EQ(bytes[47], 0x88);
  auto back = KJ_ASSERT_NONNULL(decode(bytes));
  EXPECT_EQ(encode(back), bytes.asPtr());
  EXPECT_EQ(back.rootDelay, p.rootDelay);
  EXPECT_EQ(back.precision, -20);
  EXPECT_EQ(decode(bytes.slice(0, 47)), nullptr);
}

// The clock of the client in the query, which makes replies guessable and the client traceable.
TEST(Ntp, AQueryHoldsNothingButItsNonce) {
  auto query = makeQuery(kNonce);
  ASSERT_EQ(query.size(), kPacketSize);
  EXPECT_EQ(query[0], 0x23);
  for (size_t i = 1; i < 40; ++i) EXPECT_EQ(query[i], 0) << i;
  const kj::byte nonce[] = {1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
  EXPECT_EQ(query.slice(40, 48), kj::arrayPtr(nonce, 8));
}

TEST(Ntp, OffsetAndDelayComeFromTheFourStamps) {
  EXPECT_STREQ(said(judged(goodReply())).cStr(), "offset +2.000s delay +20.000ms root +15.625ms");
}

// Differences in 32 or 64 bits that wrap, when the local clock is from another century.
TEST(Ntp, AClockThatIsYearsOffIsMeasuredAllTheSame) {
  for (auto local : {at(0), at(1000), at(7'000'000'000), at(1577836800)}) {
    auto p = goodReply();
    auto verdict = judge(encode(p), kNonce, local, kElapsed);
    ASSERT_TRUE(verdict.is<Sample>()) << said(verdict).cStr();
    EXPECT_EQ(verdict.get<Sample>().offset, kNow + 2 * kj::SECONDS - local);
    EXPECT_EQ(verdict.get<Sample>().delay, 20 * kj::MILLISECONDS);
  }
  // A query in one era, its answer in the next.
  auto p = goodReply();
  p.reference = Timestamp::of(at(2085978400));
  p.receive = Timestamp::of(at(2085978495, 999'000'000));
  p.transmit = Timestamp::of(at(2085978496, 1'000'000));
  auto verdict = judge(encode(p), kNonce, at(2085978495, 900'000'000), 22 * kj::MILLISECONDS);
  ASSERT_TRUE(verdict.is<Sample>()) << said(verdict).cStr();
  EXPECT_EQ(verdict.get<Sample>().offset, 89 * kj::MILLISECONDS);
  EXPECT_EQ(verdict.get<Sample>().delay, 20 * kj::MILLISECONDS);
}

// Each row: one thing wrong with the reply, and the result.
TEST(Ntp, RepliesThatSayNothingAreRefused) {
  using Change = void (*)(Packet&);
  struct {
    Change change;
    kj::StringPtr expected;
  } rows[] = {
      {[](Packet& p) { p.origin.raw ^= 1; }, "forged: not an answer to this query"},
      {[](Packet& p) { p.origin.raw = 0; }, "forged: not an answer to this query"},
      {[](Packet& p) { p.mode = kClient; }, "forged: not an answer to this query"},
      {[](Packet& p) { p.mode = 5; }, "forged: not an answer to this query"},
      {[](Packet& p) { p.version = 2; }, "unsupported version 2"},
      {[](Packet& p) { p.version = 5; }, "unsupported version 5"},
      {[](Packet& p) { p.leap = 3; }, "the server's own clock is not synchronised"},
      {[](Packet& p) { p.stratum = 16; }, "the server's own clock is not synchronised"},
      {[](Packet& p) { p.stratum = 255; }, "the server's own clock is not synchronised"},
      {[](Packet& p) { p.receive.raw = 0; }, "the answer carries no time"},
      {[](Packet& p) { p.transmit.raw = 0; }, "the answer carries no time"},
      {[](Packet& p) { p.reference.raw = p.transmit.raw + 1; },
       "the server's reference time is in its own future"},
      {[](Packet& p) { std::swap(p.receive, p.transmit); },
       "the server sent the answer before it received the query"},
      {[](Packet& p) { p.transmit = Timestamp::of(kNow + 2100 * kj::MILLISECONDS); },
       "the server claims more processing time than the round trip took"},
      {[](Packet& p) { p.rootDelay = 10 * kj::SECONDS; }, "its error may be up to 5017 ms"},
      {[](Packet& p) { p.rootDispersion = 60 * kj::SECONDS; }, "its error may be up to 60017 ms"},
      {[](Packet& p) {
         p.reference.raw = 0;
         p.receive = p.transmit = Timestamp::of(at(1000));
       },
       "the server's time is before 2021"},
      {[](Packet& p) {
         p.stratum = 0;
         p.referenceId = 0x44454e59;
       },
       "kiss DENY 0"},
      {[](Packet& p) {
         p.stratum = 0;
         p.leap = 3;
         p.referenceId = 0x52535452;
       },
       "kiss RSTR 0"},
      {[](Packet& p) {
         p.stratum = 0;
         p.referenceId = 0x52415445;
       },
       "kiss RATE 1"},
      {[](Packet& p) {
         p.stratum = 0;
         p.referenceId = 0x0a5c1b00;
       },
       "kiss ?\\?? 2"},
      // A kiss of death that an attacker could have sent must not silence a server.
      {[](Packet& p) {
         p.stratum = 0;
         p.referenceId = 0x44454e59;
         p.origin.raw = 7;
       },
       "forged: not an answer to this query"},
      {[](Packet& p) { p.version = 3; }, "offset +2.000s delay +20.000ms root +15.625ms"},
      {[](Packet& p) { p.stratum = 15; }, "offset +2.000s delay +20.000ms root +15.625ms"},
      {[](Packet& p) { p.leap = 1; }, "offset +2.000s delay +20.000ms root +15.625ms"},
      {[](Packet& p) { p.reference.raw = 0; }, "offset +2.000s delay +20.000ms root +15.625ms"},
      // A server whose clock runs a little faster than ours, next door.
      {[](Packet& p) { p.transmit = Timestamp::of(kNow + 2031'500 * kj::MICROSECONDS); },
       "offset +2.010s delay 0 root +15.625ms"},
  };
  for (auto& row : rows) {
    auto p = goodReply();
    row.change(p);
    EXPECT_STREQ(said(judged(p)).cStr(), row.expected.cStr());
  }
  auto bytes = encode(goodReply());
  EXPECT_STREQ(said(judge(bytes.slice(0, 47), kNonce, kNow, kElapsed)).cStr(),
               "forged: the answer has 47 bytes, which is not the size of one");
  EXPECT_STREQ(said(judge(nullptr, kNonce, kNow, kElapsed)).cStr(),
               "forged: the answer has 0 bytes, which is not the size of one");
}

// Skips an authenticator after the header, from a server that always signs.
TEST(Ntp, ATrailerIsSkipped) {
  auto bytes = encode(goodReply());
  auto longer = kj::heapArray<kj::byte>(68);
  memset(longer.begin(), 0xff, longer.size());
  memcpy(longer.begin(), bytes.begin(), bytes.size());
  EXPECT_TRUE(judge(longer, kNonce, kNow, kElapsed).is<Sample>());
}

// A responder that reflects anything, or whose stamps are swapped.
TEST(Ntp, AServersAnswerIsWhatAClientTakes) {
  ServerClock clock{.stratum = 3, .referenceId = 0x7f7f0101};
  auto query = makeQuery(kNonce);
  auto reply = KJ_ASSERT_NONNULL(
      answer(query, kNow + 2010 * kj::MILLISECONDS, kNow + 2011 * kj::MILLISECONDS, clock));
  EXPECT_LE(reply.size(), query.size());
  auto verdict = judge(reply, kNonce, kNow, kElapsed);
  EXPECT_STREQ(said(verdict).cStr(), "offset +2.000s delay +20.000ms root 0");
  EXPECT_EQ(verdict.get<Sample>().stratum, 3);

  query[0] = 0x1b;  // version 3, as old clients send it
  EXPECT_EQ(KJ_ASSERT_NONNULL(answer(query, kNow, kNow, clock))[0], 0x1c);
  for (int head : {0x24, 0x23 + 0x18, 0x22, 0x21, 0x03, 0x26}) {
    query[0] = kj::byte(head);
    EXPECT_EQ(answer(query, kNow, kNow, clock), nullptr) << std::hex << head;
  }
  EXPECT_EQ(answer(makeQuery(1).slice(0, 40), kNow, kNow, clock), nullptr);
}

TEST(Ntp, OffsetsAreShownForPeople) {
  struct {
    kj::Duration offset;
    const char* text;
  } rows[] = {
      {0 * kj::NANOSECONDS, "0"},
      {12 * kj::MICROSECONDS, "+12us"},
      {-1250 * kj::MICROSECONDS, "-1.250ms"},
      {3200 * kj::MILLISECONDS, "+3.200s"},
      {-86400 * kj::SECONDS, "-86400.000s"},
  };
  for (auto& row : rows) EXPECT_STREQ(showOffset(row.offset).cStr(), row.text);
}

}  // namespace
}  // namespace talos::ntp
