#include "common/grpc/grpc-frame.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace talos::grpc {
namespace {

using ::testing::ElementsAre;

kj::ArrayPtr<const kj::byte> bytesOf(const std::string& text) {
  return kj::arrayPtr(text.data(), text.size()).asBytes();
}

struct Fed {
  std::vector<std::string> messages;
  std::string wrong;
  bool whole;
};
Fed feedIn(size_t step, const std::string& bytes, size_t limit = 100) {
  FrameReader reader(limit);
  Fed result;
  for (size_t i = 0; i < bytes.size() && result.wrong.empty(); i += step) {
    auto wrong = reader.feed(bytesOf(bytes.substr(i, step)), [&](kj::Array<kj::byte> message) {
      result.messages.push_back(std::string(message.asChars().begin(), message.size()));
    });
    KJ_IF_MAYBE (w, wrong) result.wrong = w->cStr();
  }
  result.whole = reader.atBoundary();
  return result;
}

// Catches: a header that is split between packets and misread; an empty message that is dropped;
// bytes after a message in the same packet that are lost.
TEST(GrpcFrame, IsReadInPiecesOfAnySize) {
  auto framed = [](const std::string& text) {
    auto bytes = frame(bytesOf(text));
    return std::string(bytes.asChars().begin(), bytes.size());
  };
  auto all = framed("first") + framed("") + framed(std::string(70, 'x'));
  for (size_t step : {1, 2, 3, 5, 7, 11, 1000}) {
    auto fed = feedIn(step, all);
    EXPECT_THAT(fed.messages, ElementsAre("first", "", std::string(70, 'x'))) << step;
    EXPECT_EQ("", fed.wrong);
    EXPECT_TRUE(fed.whole);
    EXPECT_FALSE(feedIn(step, all.substr(0, all.size() - 1)).whole);
  }
}

// Catches: memory that is allocated for an announced size before the bytes arrive; a compressed
// message taken for a plain one.
TEST(GrpcFrame, LongAndCompressedMessagesAreRefused) {
  EXPECT_EQ("a message has 101 bytes; at most 100 are accepted",
            feedIn(100, std::string("\0\0\0\0\x65", 5)).wrong);
  EXPECT_EQ("a message has 4294967295 bytes; at most 100 are accepted",
            feedIn(100, std::string("\0\xff\xff\xff\xff", 5)).wrong);
  EXPECT_EQ("a message is compressed, which is not supported",
            feedIn(100, std::string("\1\0\0\0\1x", 6)).wrong);
}

// Catches: more than eight digits, which servers refuse; a deadline of zero, which some servers
// take for no deadline.
TEST(GrpcFrame, TimeoutsFitTheirHeader) {
  EXPECT_EQ("1m", timeoutText(0 * kj::SECONDS));
  EXPECT_EQ("5000m", timeoutText(5 * kj::SECONDS));
  EXPECT_EQ("99999999m", timeoutText(99'999'999 * kj::MILLISECONDS));
  EXPECT_EQ("100000S", timeoutText(100'000 * kj::SECONDS));
}

// Catches: an escape at the end that is read past it, control bytes of a registry on the console.
TEST(GrpcFrame, StatusTextsAreDecoded) {
  EXPECT_EQ("a b: \"c\"", statusText("a b: %22c%22"));
  EXPECT_EQ("100%, 50%z1 %4", statusText("100%25, 50%z1 %4"));
  EXPECT_EQ("%", statusText("%"));
  EXPECT_EQ("a?[31m b?c", statusText("a%1B[31m%0Ab%00c"));
  EXPECT_EQ("ü", statusText("%C3%BC"));
}

// Catches: a text that ends a header or is read as codes, a character of which half is sent.
TEST(GrpcFrame, StatusTextsAreEncoded) {
  EXPECT_EQ("a b: \"c\"", statusHeader("a b: \"c\"", 100));
  EXPECT_EQ("100%25 %0A %C3%BC%7F", statusHeader("100% \n ü\x7f", 100));
  EXPECT_EQ("12%C3%BC", statusHeader("12ü345", 4));
  EXPECT_EQ("12", statusHeader("12ü345", 3));
  EXPECT_EQ("12", statusHeader("12ü345", 2));
  EXPECT_EQ("", statusHeader("", 2));
}

// Catches: a time of another unit; an invalid time; a time that overflows.
TEST(GrpcFrame, TimeoutsAreRead) {
  auto read = [](kj::StringPtr text) { return parseTimeout(text).orDefault(-1 * kj::SECONDS); };
  EXPECT_EQ(read("2H"), 2 * kj::HOURS);
  EXPECT_EQ(read("30M"), 30 * kj::MINUTES);
  EXPECT_EQ(read("99999999S"), 365 * kj::DAYS);
  EXPECT_EQ(read("10000m"), 10 * kj::SECONDS);
  EXPECT_EQ(read("7u"), 7 * kj::MICROSECONDS);
  EXPECT_EQ(read("0n"), 0 * kj::SECONDS);
  EXPECT_EQ(read("99999999H"), 365 * kj::DAYS);
  for (auto text : {"", "S", "5", "-5S", "1.5S", "5 S", "5s", "123456789S", "H5"}) {
    EXPECT_EQ(parseTimeout(text), nullptr) << text;
  }
}

// Catches: another format that is taken for gRPC's, a subtype that is refused.
TEST(GrpcFrame, ContentTypesOfGrpcAreAccepted) {
  EXPECT_TRUE(isGrpc("application/grpc"));
  EXPECT_TRUE(isGrpc("application/grpc+proto"));
  EXPECT_TRUE(isGrpc("application/grpc;charset=utf-8"));
  EXPECT_FALSE(isGrpc("application/grpc-web"));
  EXPECT_FALSE(isGrpc("application/json"));
  EXPECT_FALSE(isGrpc(""));
}

// Catches: "not found" that is tried again for 20 minutes because it has become another kind.
TEST(GrpcFrame, CodesAreKinds) {
  EXPECT_EQ(ErrorKind::kNotFound, kindOfStatus(5));
  EXPECT_EQ(ErrorKind::kConflict, kindOfStatus(6));
  EXPECT_EQ(ErrorKind::kFailedPrecondition, kindOfStatus(9));
  EXPECT_EQ(ErrorKind::kUnavailable, kindOfStatus(10));
  EXPECT_EQ(ErrorKind::kUnavailable, kindOfStatus(14));
  EXPECT_EQ(ErrorKind::kInternal, kindOfStatus(2));
  EXPECT_EQ(ErrorKind::kInternal, kindOfStatus(99));
  for (int code : {3, 4, 5, 7, 8, 9, 12, 13, 14, 16}) {
    EXPECT_EQ(code, statusOfKind(kindOfStatus(code)));
  }
  EXPECT_EQ(9, statusOfKind(ErrorKind::kConflict));
}

}  // namespace
}  // namespace talos::grpc
