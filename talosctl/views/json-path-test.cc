#include "talosctl/views/json-path.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

const kube::Json& sampleDocument() {
  static const auto document = kube::Json::parse(R"({
    "node": "10.0.0.2",
    "metadata": {"id": "eth0", "version": 3, "labels": {"a.b/c": "dotted"}},
    "spec": {"up": true, "mtu": 1500, "none": null, "addresses": [
      {"name": "one", "size": 1, "scope": "global"},
      {"name": "two", "size": 20, "scope": "link"},
      {"name": "three", "size": 3, "same": "three"}]}})");
  return document;
}

std::string evaluated(kj::StringPtr text) {
  auto out = JsonPathTemplate(text).evaluate(sampleDocument());
  return {out.begin(), out.size()};
}

std::string refusal(kj::StringPtr text) {
  auto e = kj::runCatchingExceptions([&] { JsonPathTemplate parsed(text); });
  KJ_IF_MAYBE (x, e) {
    EXPECT_EQ(kindOf(*x), ErrorKind::kInvalidArgument);
    return messageOf(*x).cStr();
  }
  return "accepted";
}

// Catches: a form of kubectl's that gives another value, order or spacing here.
TEST(JsonPath, GivesWhatKubectlGives) {
  struct Case {
    kj::StringPtr text;
    const char* expected;
  };
  for (auto& c : std::initializer_list<Case>{
           {"{.metadata.id}"_kj, "eth0"},
           {"{ .metadata.id }"_kj, "eth0"},
           {"{$.metadata.version}"_kj, "3"},
           {"id={.metadata['id']} v={.metadata[\"version\"]}"_kj, "id=eth0 v=3"},
           {"{.metadata.labels['a.b/c']}"_kj, "dotted"},
           {"{.metadata.labels.a\\.b/c}"_kj, "dotted"},
           {"{.spec.up}"_kj, "true"},
           {"{.spec.none}"_kj, ""},
           {"{.spec.missing.more[3]}"_kj, ""},
           {"{.spec.addresses[*].name}"_kj, "one two three"},
           {"{.spec.addresses[0].name}"_kj, "one"},
           {"{.spec.addresses[-1].name}"_kj, "three"},
           {"{.spec.addresses[9].name}"_kj, ""},
           {"{.spec.addresses[1:].name}"_kj, "two three"},
           {"{.spec.addresses[:-1].name}"_kj, "one two"},
           {"{.spec.addresses[0:3:2].name}"_kj, "one three"},
           {"{.spec.addresses[0,2].name}"_kj, "one three"},
           {"{.spec.addresses[0]['name','size']}"_kj, "one 1"},
           {"{..name}"_kj, "one two three"},
           {"{.spec..size}"_kj, "1 20 3"},
           {"{.metadata.labels}"_kj, "{\"a.b/c\":\"dotted\"}"},
           {"{.spec.addresses[0].*}"_kj, "one 1 global"},
           {"{.spec.addresses[?(@.scope==\"link\")].name}"_kj, "two"},
           {"{.spec.addresses[?(@.scope!='link')].name}"_kj, "one"},
           {"{.spec.addresses[?(@.size > 2)].name}"_kj, "two three"},
           {"{.spec.addresses[?(@.size<=3)].name}"_kj, "one three"},
           {"{.spec.addresses[?(@.scope)].name}"_kj, "one two"},
           {"{.spec.addresses[?(@.name==@.same)].size}"_kj, "3"},
           {"{range .spec.addresses[*]}{.name}={.size}{\"\\n\"}{end}"_kj,
            "one=1\ntwo=20\nthree=3\n"},
           {"{range .spec.addresses[0:2]}{@.name}@{$.node} {end}!"_kj,
            "one@10.0.0.2 two@10.0.0.2 !"},
           {"{range .spec.addresses[*]}{range .name}<{@}>{end}{end}"_kj, "<one><two><three>"},
           {"plain"_kj, "plain"},
           {"{'a' }b"_kj, "ab"},
       }) {
    EXPECT_EQ(evaluated(c.text), c.expected) << c.text.cStr();
  }
}

// Catches: unsupported syntax with another meaning, a wrong place.
TEST(JsonPath, RefusesTheRestWithItsPlace) {
  EXPECT_EQ(refusal("{.spec"), "jsonpath:1:7: expected \"}\" at the end of the expression");
  EXPECT_EQ(refusal("a\n{.spec[}"),
            "jsonpath:2:8: expected an index, a name in quotes, * or a filter ?(…)");
  EXPECT_EQ(refusal("{end}"), "jsonpath:1:1: {end} without {range}");
  EXPECT_EQ(refusal("{range .a}x"), "jsonpath:1:12: {range} without {end}");
  EXPECT_EQ(refusal("{.a[?(@.b==1 && @.c==2)]}"),
            "jsonpath:1:14: a filter has one comparison; && and || are not supported");
  EXPECT_EQ(refusal("{.a[?(@.b==c)]}"),
            "jsonpath:1:13: expected a text in quotes, a number, true or false in the comparison");
  for (kj::StringPtr text :
       {"{}"_kj, "{.a.}b}"_kj, "{length(.a)}"_kj, "{.a.length()}"_kj, "{.a[1:2:0]}"_kj,
        "{.a['b}"_kj, "{.a[99999999999]}"_kj, "{.a ~ b}"_kj, "{..}"_kj, "{"_kj}) {
    EXPECT_NE(refusal(text), "accepted") << text.cStr();
  }
}

// Catches: a template that makes the program's memory grow without a bound.
TEST(JsonPath, IsBounded) {
  kube::Json deep = kube::Json::array();
  for (int i = 0; i < 150; ++i) deep = kube::Json::array({deep, deep.size()});
  JsonPathTemplate many("{..*..*..*..*}");
  auto e = kj::runCatchingExceptions([&] { many.evaluate(deep); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kResourceExhausted);
  // Each range alone yields few values.
  kube::Json wide = kube::Json::array();
  for (int i = 0; i < 400; ++i) wide.push_back(i);
  JsonPathTemplate nested("{range $[*]}{range $[*]}{end}{end}");
  auto tooMuch = kj::runCatchingExceptions([&] { nested.evaluate(wide); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(tooMuch)), ErrorKind::kResourceExhausted);
  std::string ranges;
  for (int i = 0; i < 17; ++i) ranges += "{range .a}";
  EXPECT_NE(refusal(ranges.c_str()).find("16 ranges"), std::string::npos);
}

}  // namespace
}  // namespace talos::talosctl
