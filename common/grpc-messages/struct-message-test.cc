#include "common/grpc-messages/struct-message.h"

#include <gtest/gtest.h>
#include "common/grpc-messages/test-messages.h"

namespace talos::grpcapi {
namespace {

using testing::Message;

// Returns the value of a key of a Struct.
Message valueOf(const Message& in, const char* key) {
  for (size_t i = 0; i < in.count(1); ++i) {
    if (in.in(1, i).text(1) == key) return in.in(1, i).in(2);
  }
  ADD_FAILURE() << key << " is missing";
  return Message();
}

// Catches: a value under the number of another kind; a null value that a reader takes for a missing
// one; a text that looks like a number and becomes one.
TEST(StructMessage, EachKindOfValue) {
  Message all(structMessage(
      "phase: Running\nready: true\nnot: false\ncount: 3\nless: -2\nhalf: 0.5\nzero: 0\n"
      "none: null\nempty: \"\"\nname: \"7\"\nmany: 99999999999999999999999\n"));
  EXPECT_EQ(11u, all.count(1));
  EXPECT_EQ("Running", valueOf(all, "phase").text(3));
  EXPECT_EQ(1u, valueOf(all, "ready").number(4));
  EXPECT_TRUE(valueOf(all, "not").has(4));
  EXPECT_EQ(0u, valueOf(all, "not").number(4));
  EXPECT_EQ(3.0, doubleOf(valueOf(all, "count").number(2)));
  EXPECT_EQ(-2.0, doubleOf(valueOf(all, "less").number(2)));
  EXPECT_EQ(0.5, doubleOf(valueOf(all, "half").number(2)));
  EXPECT_TRUE(valueOf(all, "zero").has(2));
  EXPECT_TRUE(valueOf(all, "none").has(1));
  EXPECT_TRUE(valueOf(all, "empty").has(3));
  EXPECT_EQ("7", valueOf(all, "name").text(3));
  for (auto key : {"phase", "ready", "count", "none", "name"}) {
    EXPECT_EQ(1u, valueOf(all, key).fields.size()) << key;
  }
}

TEST(StructMessage, ListsAndMappingsInOneAnother) {
  Message all(structMessage(
      R"({"conditions":[{"type":"Ready","status":"True"},{}],"none":[],"deep":{"er":[[1]]}})"));
  auto conditions = valueOf(all, "conditions").in(6);
  ASSERT_EQ(2u, conditions.count(1));
  EXPECT_EQ("True", valueOf(conditions.in(1, 0).in(5), "status").text(3));
  EXPECT_TRUE(conditions.in(1, 1).has(5));
  EXPECT_TRUE(valueOf(all, "none").has(6));
  auto inner = valueOf(valueOf(all, "deep").in(5), "er").in(6).in(1).in(6).in(1);
  EXPECT_EQ(1.0, doubleOf(inner.number(2)));
}

TEST(StructMessage, NothingForWhatIsNoMapping) {
  for (auto text : {"", "text", "[1]", "a: [", "a: 1\n---\nb: 2\n"}) {
    EXPECT_EQ(0u, structMessage(text).size()) << text;
  }
}

}  // namespace
}  // namespace talos::grpcapi
