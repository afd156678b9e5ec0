#include "common/grpc-messages/request-fields.h"

#include <gtest/gtest.h>
#include <string.h>

#include "common/base/error.h"
#include "common/grpc-messages/test-messages.h"

namespace talos::grpcapi {
namespace {

using testing::request;

std::string refusal(kj::Function<void()> call) {
  auto e = kj::runCatchingExceptions([&] { call(); });
  KJ_IF_MAYBE (x, e) return kj::str(nameOf(kindOf(*x)), ": ", messageOf(*x)).cStr();
  return "taken";
}

// Catches: the first of two values; a value of another type than requested; an existing empty field
// taken for a missing one.
TEST(RequestFields, TheLastOneOfItsTypeCounts) {
  auto bytes = request([](WireWriter& out) {
    out.varint(1, 4);
    out.varint(1, 5);
    out.text(1, "first");
    out.text(1, "last");
    out.bytes(2, nullptr);
    out.varint(3, 0);
    out.varint(70'000, 1);
  });
  RequestFields fields(bytes);
  EXPECT_EQ(5u, fields.number(1));
  EXPECT_EQ("last", fields.text(1));
  EXPECT_TRUE(fields.has(1));
  EXPECT_TRUE(fields.has(2));
  EXPECT_EQ(0u, fields.bytes(2).size());
  EXPECT_FALSE(fields.has(3));
  EXPECT_FALSE(fields.flag(3));
  EXPECT_FALSE(fields.has(4));
  EXPECT_EQ("", fields.text(4));
}

// Catches: 8 MiB of small fields that are parsed again for each access.
TEST(RequestFields, AreReadOnce) {
  auto bytes = request([](WireWriter& out) {
    out.varint(1, 7);
    out.varint(2, 8);
    out.text(3, "text");
  });
  RequestFields fields(bytes);
  memset(bytes.begin(), 0, 4);  // both numbers
  EXPECT_EQ(7u, fields.number(1));
  EXPECT_EQ(8u, fields.number(2));
  EXPECT_EQ("text", fields.text(3));
}

TEST(RequestFields, EachOneUpToALimit) {
  auto bytes = request([](WireWriter& out) {
    for (auto text : {"a", "b", "c"}) out.text(2, text);
    out.varint(1, 1);
  });
  RequestFields fields(bytes);
  std::string all;
  fields.each(2, 3, [&](const WireField& field) { all += textOf(field).cStr(); });
  EXPECT_EQ("abc", all);
  EXPECT_EQ("InvalidArgument: field 2 occurs 3 times; at most 2 are accepted",
            refusal([&] { fields.each(2, 2, [&](const WireField&) { all += "!"; }); }));
  EXPECT_EQ("abc", all);
}

// Catches: an invalid message that is taken for an empty request.
TEST(RequestFields, MalformedMessagesAreRefused) {
  auto broken = "\x0a\x05"_kj.asBytes();
  EXPECT_TRUE(kj::StringPtr(refusal([&] { RequestFields fields(broken); }).c_str())
                  .startsWith("InvalidArgument: not a protobuf message"));
  auto text = request([](WireWriter& out) { out.bytes(1, "\xff"_kj.asBytes()); });
  RequestFields fields(text);
  EXPECT_EQ("InvalidArgument: a text is not UTF-8", refusal([&] { fields.text(1); }));
}

}  // namespace
}  // namespace talos::grpcapi
