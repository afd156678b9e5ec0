#include "common/kube/json.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"

namespace talos::kube {
namespace {

Json json(kj::StringPtr text) {
  return readJson(text, "the test");
}

// Catches: a field of the wrong type that throws or is taken for a value.
TEST(KubeJson, FieldOfAnotherTypeCountsAsAbsent) {
  auto pod = json(R"({"metadata":{"name":"a","namespace":"b","labels":null},"n":5,"x":[1]})");
  EXPECT_EQ(textAt(pod, {"metadata", "name"}), "a"_kj);
  EXPECT_EQ(textAt(pod, {"metadata", "name", "more"}), ""_kj);
  EXPECT_EQ(textAt(pod, {"n"}), ""_kj);
  EXPECT_EQ(numberAt(pod, {"n"}), 5);
  EXPECT_EQ(numberAt(pod, {"metadata"}, 7), 7);
  EXPECT_EQ(itemsAt(pod, {"x"}).size(), 1u);
  EXPECT_EQ(itemsAt(pod, {"metadata"}).size(), 0u);
  EXPECT_FALSE(flagAt(pod, {"n"}));
  EXPECT_EQ(nameOf(pod), "b/a"_kj);
}

// Catches: a depth that the library's recursive writer would not survive; text that is not JSON.
TEST(KubeJson, BadTextIsRefusedWithItsName) {
  auto errorFor = [](kj::StringPtr text) {
    return messageOf(
        KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&]() { readJson(text, "the answer"); })));
  };
  EXPECT_EQ(errorFor("{"), "the answer is not valid JSON"_kj);
  EXPECT_EQ(errorFor("{} {}"), "the answer is not valid JSON"_kj);
  auto deep = kj::heapString(kMostJsonDepth + 1);
  for (auto& c : deep) c = '[';
  EXPECT_EQ(errorFor(deep), "the answer has more than 200 levels of JSON"_kj);
  kj::Vector<kj::String> members;
  for (unsigned i = 0; i <= kMostJsonMembers; ++i) members.add(kj::str("\"k", i, "\":0"));
  EXPECT_EQ(errorFor(kj::str("{", kj::strArray(members, ","), "}")),
            "the answer has more than 5000 members in an object of JSON"_kj);
  // Brackets in texts are not levels.
  EXPECT_EQ(writeJson(json(kj::str("\"", deep, "\\\"", deep, "\""))).size(), 2 * deep.size() + 4);
}

TEST(KubeJson, BytesThatAreNoUtf8AreReplaced) {
  Json value = std::string("a\xff");
  EXPECT_EQ(writeJson(value), "\"a\xef\xbf\xbd\""_kj);
}

// Catches: JSON on a terminal with control sequences, which the library does not escape.
TEST(KubeJson, SpecialCharactersAreEscaped) {
  Json value = {{"ö\xc2\x9b", "\x1b\x7f\xe2\x80\xae\"\n"}};
  EXPECT_EQ(writeJson(value), R"({"ö\u009b":"\u001b\u007f\u202e\"\n"})"_kj);
  EXPECT_EQ(json(writeJson(value)), value);
}

// Catches: numbers, booleans and texts that change their type on the way; an order that changes.
TEST(KubeJson, YamlAndBackIsTheSame) {
  auto value = json(
      R"({"z":"text","a":"true","n":"012","i":-5,"big":18446744073709551615,"f":1.5,"b":false,)"
      R"("none":null,"list":[{"k":"v"},[],"x\ny\n"],"empty":{},"long":"a: b # c"})");
  auto text = writeYaml(value);
  auto back = readYaml(text, "test.yaml");
  ASSERT_EQ(back.size(), 1u) << text.cStr();
  EXPECT_EQ(writeJson(back[0]), writeJson(value)) << text.cStr();
}

TEST(KubeJson, AStreamOfDocuments) {
  auto documents = readYaml(
      "# only a comment\n---\nmode: 0644\non: \"yes\"\nyes: no\nn: y\n---\n---\n{\"a\": [1, 2.5, ~]}\n"_kj,
      "m.yaml");
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(writeJson(documents[0]), "{\"mode\":420,\"on\":\"yes\",\"yes\":false,\"n\":\"y\"}"_kj);
  EXPECT_EQ(writeJson(documents[1]), "{\"a\":[1,2.5,null]}"_kj);
}

TEST(KubeJson, AMistakeHasItsPlace) {
  auto message = messageOf(KJ_ASSERT_NONNULL(
      kj::runCatchingExceptions([&]() { readYaml("a: b\nc: [\n"_kj, "https://x/m.yaml"); })));
  EXPECT_TRUE(message.startsWith("https://x/m.yaml:")) << message.cStr();
}

TEST(KubeJson, SecretsAreWiped) {
  auto value = json(R"({"a":[{"token":"abcdef"}]})");
  wipe(value);
  EXPECT_EQ(textAt(value["a"][0], {"token"}), "\0\0\0\0\0\0"_kj);
}

}  // namespace
}  // namespace talos::kube
