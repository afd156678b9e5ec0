#include "common/yaml/yaml.h"
#include "common/text/foreign-text.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

#include <string>

namespace talos::codec {
namespace {

struct Parsed {
  Problems problems;
  kj::String text;
  YamlStream stream;
  explicit Parsed(kj::StringPtr t) : text(kj::str(t)), stream(text, "", problems) {}
  kj::String all() const { return render(problems); }
  const YamlNode& root() const { return *stream.documents()[0]; }
  kj::String json() const { return renderJson(root(), 0); }
};

kj::String jsonOf(kj::StringPtr yaml) {
  Parsed parsed(yaml);
  return hasErrors(parsed.problems) ? parsed.all() : parsed.json();
}

std::string repeated(const char* piece, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += piece;
  return out;
}

// Catches: a scalar with another type than in YAML 1.2 (with 1.1's octals).
TEST(Scalar, HasTheTypeThatYamlSays) {
  for (auto text : {"", "~", "null", "Null"})
    EXPECT_EQ(ScalarType::kNull, scalarType(text)) << text;
  for (auto text : {"true", "False"}) EXPECT_EQ(ScalarType::kBool, scalarType(text)) << text;
  for (auto text : {"0", "-1", "+7", "0644", "0o644", "0x1a4", "0b11", "18446744073709551615"}) {
    EXPECT_EQ(ScalarType::kInteger, scalarType(text)) << text;
  }
  for (auto text : {"1.5", ".5", "1.", "1e3", "-2.5E-3", ".inf", "-.Inf", ".nan", "0899",
                    "18446744073709551616"}) {
    EXPECT_EQ(ScalarType::kFloat, scalarType(text)) << text;
  }
  for (auto text : {"yes", "1.20.4", "10.0.0.1", "0x", "0o9", "e3", ".", "-", "1e", "v1", "tRue"}) {
    EXPECT_EQ(ScalarType::kText, scalarType(text)) << text;
  }
}

// Catches: an octal that is read as decimal, a wrap-around, a lost sign.
TEST(Scalar, IntegersKeepTheirValue) {
  auto value = [](kj::StringPtr text) -> kj::String {
    KJ_IF_MAYBE (i, parseInteger(text)) return kj::str(i->negative ? "-" : "", i->magnitude);
    return kj::str("none");
  };
  EXPECT_EQ(kj::str("420"), value("0644"));
  EXPECT_EQ(kj::str("420"), value("0o644"));
  EXPECT_EQ(kj::str("420"), value("0x1a4"));
  EXPECT_EQ(kj::str("420"), value("420"));
  EXPECT_EQ(kj::str("-9223372036854775808"), value("-9223372036854775808"));
  EXPECT_EQ(kj::str("18446744073709551615"), value("18446744073709551615"));
  EXPECT_EQ(kj::str("none"), value("18446744073709551616"));
  EXPECT_EQ(kj::str("none"), value("0888"));
  EXPECT_EQ(kj::str("none"), value("1_000"));
}

// Catches: types lost on the way to JSON, quoted numbers that become numbers.
TEST(Yaml, BecomesJson) {
  EXPECT_EQ(kj::str(R"({"a":1,"b":"1","c":true,"d":null,"e":[1.5,"x"],"f":{},"g":420})"),
            jsonOf("a: 1\nb: \"1\"\nc: true\nd:\ne:\n- 1.5\n- x\nf: {}\ng: 0644\n"));
  EXPECT_EQ(kj::str(R"({"a":"x\ny\n"})"), jsonOf("a: |\n  x\n  y\n"));
  EXPECT_EQ(kj::str(R"({"a":{"b":[1,2]}})"), jsonOf("{\n\t\"a\": {\"b\": [1, 2]}\n}\n"));
  EXPECT_EQ(kj::str(R"([".inf","yes"])"), jsonOf("[.inf, yes]"));
}

// Catches: merged keys that beat the mapping's own, aliases that are not resolved.
TEST(Yaml, ResolvesAliasesAndMerges) {
  EXPECT_EQ(kj::str(R"({"base":{"x":1,"y":2},"c":{"y":3,"x":1},"d":{"x":1,"y":2}})"),
            jsonOf("base: &b {x: 1, y: 2}\nc:\n  <<: *b\n  y: 3\nd: *b\n"));
  EXPECT_EQ(kj::str(R"({"a":{"p":1,"q":2}})"), jsonOf("a:\n  <<: [{p: 1}, {p: 9, q: 2}]\n"));
}

// Catches: a bomb that is built before it is refused, endless recursion, stack overflow.
TEST(Yaml, ExpandingAliasesAreRefused) {
  std::string laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    auto before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
              repeated((before + ",").c_str(), 10) + "]\n";
  }
  EXPECT_NE(std::string(jsonOf(laughs.c_str()).cStr()).find("more than 200000 values"),
            std::string::npos);
  EXPECT_NE(std::string(jsonOf("a: &a [*a]\n").cStr()).find("refers to a value that contains it"),
            std::string::npos);
  // Unclosed: refused without a stack overflow, whichever limit sees it first.
  EXPECT_TRUE(jsonOf(repeated("[", 100'000).c_str()).startsWith("line 1, column "));
  EXPECT_NE(std::string(jsonOf((repeated("[", 65) + repeated("]", 65)).c_str()).cStr())
                .find("more than 64 levels"),
            std::string::npos);
  EXPECT_NE(std::string(jsonOf(repeated("- ", 100'000).c_str()).cStr()).find("more than 64 levels"),
            std::string::npos);
  EXPECT_NE(std::string(jsonOf(repeated("[", 2'000'000).c_str()).cStr())
                .find("YAML indicator characters"),
            std::string::npos);
  EXPECT_NE(
      std::string(jsonOf(repeated(" ", kMaxDocumentBytes + 1).c_str()).cStr()).find("at most"),
      std::string::npos);
  std::string deep = "l0: &l0 [x]\n";  // each level small, together deeper than the stack
  for (int i = 1; i < 100; ++i)
    deep += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [*l" + std::to_string(i - 1) +
            "]\n";
  EXPECT_NE(std::string(jsonOf(deep.c_str()).cStr()).find("more than 64 levels"),
            std::string::npos);
}

// Catches: a key with an anchor whose aliases mean nothing, and a key that is taken for one.
TEST(Yaml, KeysCanHaveAnchorsAndBeAliases) {
  EXPECT_EQ(jsonOf("&a one: 1\ntwo: *a\n*a : 3\n").startsWith("line 3"), true);
  EXPECT_EQ(jsonOf("&a one: 1\ntwo: {*a : 2, \"b\": *a}\n"),
            "{\"one\":1,\"two\":{\"one\":2,\"b\":\"one\"}}");
}

// Catches: a small text with few aliases that fills its reader's memory.
TEST(Yaml, RefusesLongTextsThatAreRepeated) {
  auto text = "a: &a " + repeated("x", 1u << 20) + "\nb: [" + repeated("*a,", 1000) + "]\n";
  EXPECT_NE(std::string(jsonOf(text.c_str()).cStr()).find("16777216 bytes, aliases expanded"),
            std::string::npos);
  auto keys = "a: &a {" + repeated("k", 1000) + ": 1}\nb: [" + repeated("*a,", 90'000) + "]\n";
  EXPECT_NE(std::string(jsonOf(keys.c_str()).cStr()).find("16777216 bytes, aliases expanded"),
            std::string::npos);
  auto few = "a: &a " + repeated("x", 1u << 20) + "\nb: [*a, *a]\n";
  EXPECT_GT(jsonOf(few.c_str()).size(), 3u << 20);
}

// Catches: a parser that makes empty documents of a stray bracket without end.
TEST(Yaml, RefusesStrayBrackets) {
  for (auto text : {"a: 1\n}\n", "]\n", "{a: 1}}\n", "a: {b: 1}\n}}--\n? key\n:...\n"}) {
    EXPECT_TRUE(jsonOf(text).startsWith("line ")) << text;
  }
}

// Catches: bytes that yaml-cpp takes for the end of the input, text that is not text.
TEST(Yaml, RefusesWhatIsNoText) {
  EXPECT_EQ(kj::str("line 2, column 4: byte 0x04 is not text; the file must be UTF-8 text without "
                    "control characters\n"),
            jsonOf("a: 1\nb: \x04\nc: 2\n"));
  EXPECT_EQ(kj::str("line 1, column 4: invalid UTF-8; the file must be UTF-8 text\n"),
            jsonOf("a: \xff\n"));
  EXPECT_EQ(kj::str(R"({"a":1})"), jsonOf("\xef\xbb\xbf"
                                          "a: 1\n"));
  // yaml-cpp removes one mark itself, so every place after a second one would be wrong.
  EXPECT_TRUE(jsonOf("\xef\xbb\xbf\xef\xbb\xbf"
                     "a: 1\n")
                  .startsWith("line 1, column 1: a second byte order mark"));
}

// Catches: a second value that silently wins; a message that does not say where the first is.
TEST(Yaml, RefusesDuplicateKeys) {
  EXPECT_EQ(kj::str("line 3, column 1: the key \"a\" is a duplicate; the first is in line 1\n"),
            jsonOf("a: 1\nb: 2\na: 3\n"));
}

// Catches: yaml-cpp's messages shown to a user, places that are off by one.
TEST(Yaml, SaysWhatToDoAboutMistakes) {
  EXPECT_EQ(kj::str("line 2, column 1: a tab in the indentation; indent with blanks\n"),
            jsonOf("a:\n\tb: 1\n"));
  EXPECT_EQ(
      kj::str(
          "line 1, column 5: a second \": \" in one line, or a value that is indented like a key; "
          "put text that holds \": \" in quotes\n"),
      jsonOf("a: b: c\n"));
  EXPECT_EQ(kj::str("line 1, column 1: a key must be text, not a list or a mapping\n"),
            jsonOf("[a]: b\n"));
}

// Catches: a JSON text that was cut off, whose user looks for a key that is no text.
TEST(Yaml, SaysWhichBracketIsNotClosed) {
  const std::pair<kj::StringPtr, kj::StringPtr> rows[] = {
      {"{"_kj, "line 1, column 1: the \"{\" here"_kj},
      {"[1, 2"_kj, "line 1, column 1: the \"[\" here"_kj},
      {"{\"a\":{\"b\":1}"_kj, "line 1, column 1: the \"{\" here"_kj},
      {"{\"a\": 1,\n \"b\": [2, 3 # ]\n"_kj, "line 2, column 7: the \"[\" here"_kj},
      {"{a: \"}\", b: 'it''s }', c: it's, d: \"\\\"}\""_kj, "line 1, column 1: the \"{\" here"_kj},
  };
  for (auto& [text, problem] : rows) {
    EXPECT_EQ(jsonOf(text), kj::str(problem, " is never closed\n")) << text.cStr();
  }
  for (auto text : {"{a: [b}"_kj, "{a: 1}}"_kj, "{a: \"b}"_kj, "a: {"_kj}) {
    auto problem = jsonOf(text);
    EXPECT_TRUE(problem.startsWith("line ")) << text.cStr();
    EXPECT_EQ(strstr(problem.cStr(), "\" here is never closed"), nullptr) << problem.cStr();
  }
  EXPECT_EQ(jsonOf("{\"a\": [1, {}]} # {\n"), kj::str(R"({"a":[1,{}]})"));
}

// Catches: comments or formatting lost, neighbours taken along, indentation kept.
TEST(Yaml, GivesTheTextOfANode) {
  Parsed parsed(
      "first: 1\n"
      "pod: # the pod\n"
      "    # about the kind\n"
      "    kind:   Pod   # spaces stay\n"
      "    spec:\n"
      "      - a: |\n"
      "          text\n"
      "\n"
      "          more\n"
      "# about the next\n"
      "next: 2\n"
      "list:\n"
      "- x\n"
      "- y: 1\n"
      "  z: 2\n"
      "flow: {a: [1, \"2\"]}\n");
  ASSERT_EQ(kj::str(), parsed.all());
  auto& entries = parsed.root().entries;
  EXPECT_EQ(kj::str("kind:   Pod   # spaces stay\nspec:\n  - a: |\n      text\n\n      more\n"),
            parsed.stream.textOf(*entries[1].value));
  EXPECT_EQ(kj::str("- x\n- y: 1\n  z: 2\n"), parsed.stream.textOf(*entries[3].value));
  EXPECT_EQ(kj::str("y: 1\nz: 2\n"), parsed.stream.textOf(*entries[3].value->items[1]));
  EXPECT_EQ(kj::str("a:\n  - 1\n  - \"2\"\n"), parsed.stream.textOf(*entries[4].value));
  EXPECT_EQ(kj::str("1\n"), parsed.stream.textOf(*entries[0].value));
}

// Catches: documents that run into each other.
TEST(Yaml, KeepsDocumentsApart) {
  Parsed parsed("---\na: 1\n---\nb: 2\n...\n");
  ASSERT_EQ(kj::str(), parsed.all());
  ASSERT_EQ(2, parsed.stream.documents().size());
  EXPECT_EQ(kj::str("a: 1\n"), parsed.stream.textOf(*parsed.stream.documents()[0]));
  EXPECT_EQ(kj::str("b: 2\n"), parsed.stream.textOf(*parsed.stream.documents()[1]));
  EXPECT_EQ(0, Parsed("").stream.documents().size());
  EXPECT_EQ(0, Parsed("# only a comment\n").stream.documents().size());
}

// Catches: text that a reader of YAML 1.1 or 1.2 takes for something else when it is not quoted.
TEST(YamlScalar, QuotesOnlyWhatNeedsIt) {
  for (auto text : {"controlplane", "k8s.StaticPodStatus(\"kube-apiserver\")",
                    "https://172.20.0.1:6443", "10.96.0.0/12", "v1.20.4", "a b", "172.20.0.2",
                    "--flag=x", "-x", ":x", "a#b", "\xc3\xa4", "abcdef.0123456789abcdef"}) {
    EXPECT_EQ(kj::str(text), yamlScalar(text));
  }
  for (auto text : {"",           "2",     "1.5", "true", "yes", "n",  "null", "~",
                    "a: b",       "a #b",  " a",  "a ",   "*",   "&a", "- a",  "-",
                    "@x",         "`x",    "%x",  "[a",   "{a",  "a:", "1:20", "52:54:00:12:34:56",
                    "2021-03-09", "1_000", "<<",  "!x",   "|",   ">",  "'x'",  "\"x\"",
                    "---",        "0x1f",  ".inf"}) {
    EXPECT_TRUE(yamlScalar(text).startsWith("\"")) << text;
  }
  EXPECT_EQ(kj::str("\"a\\nb\\t\\\"\\\\\\u0001\""), yamlScalar("a\nb\t\"\\\001"));
  EXPECT_EQ(kj::str("\"\\u2028\\ufeff\""), yamlScalar("\xe2\x80\xa8\xef\xbb\xbf"));
}

// Catches: JSON that does something to the terminal on which it is printed, and a text that is read
// in another order than it has.
TEST(Yaml, WhatATerminalInterpretsIsEscaped) {
  EXPECT_EQ(jsonString("a\xc2\x9b"
                       "1m\xe2\x80\xae\x7f"),
            R"("a\u009b1m\u202e\u007f")"_kj);
  EXPECT_EQ(yamlScalar("a\xe2\x81\xa6"), R"("a\u2066")"_kj);
  EXPECT_EQ(yamlScalar("a\xed\xa0\x80"), "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""_kj);
  EXPECT_EQ(jsonString("größe 日本"), "\"größe 日本\""_kj);
}

}  // namespace
}  // namespace talos::codec
