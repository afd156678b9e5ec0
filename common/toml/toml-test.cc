#include "common/toml/toml.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::toml {
namespace {

std::string written(kj::StringPtr text) {
  return write(read(text.asArray())).cStr();
}
std::string problemOf(kj::StringPtr text) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { read(text.asArray()); })) {
    return messageOf(*e).cStr();
  }
  return "none";
}
std::string merged(kj::StringPtr one, kj::StringPtr other, SameKey rule) {
  auto into = read(one.asArray());
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { merge(into, read(other.asArray()), rule); })) {
    return messageOf(*e).cStr();
  }
  return write(into).cStr();
}

// Catches: a value that changes on its way; a comment that is taken for a value, a table that loses
// its keys; a document that another reader takes for another one.
TEST(Toml, AValidDocumentIsWrittenWithItsMeaning) {
  struct {
    kj::StringPtr text, written;
  } rows[] = {
      {"", ""},
      {"# only a comment", ""},
      {"a = 1 # one\r\nb=\"x\"\n", "a = 1\nb = \"x\"\n"},
      {"a.b.c = 0xFF\na.b.d = 1_000\n", "[a.b]\nc = 0xFF\nd = 1000\n"},
      {"[t]\n[t.u]\nx = true\n", "[t.u]\nx = true\n"},
      {"[t]\n", "[t]\n"},
      {"[a.b]\nx = 1\n[a]\ny = 2\n", "[a]\ny = 2\n\n[a.b]\nx = 1\n"},
      {"[[l]]\nx = 1\n[l.s]\ny = 2\n[[l]]\n", "[[l]]\nx = 1\n\n[l.s]\ny = 2\n\n[[l]]\n"},
      {"a = [1, [2, 3], # two\n  'x',\n]\n", "a = [1, [2, 3], \"x\"]\n"},
      {"a = { b = 1, c.d = \"e\" }\n", "[a]\nb = 1\n\n[a.c]\nd = \"e\"\n"},
      {"a = []\nb = {}\n", "a = []\n\n[b]\n"},
      {"\"a b\" = '''x\ny'''\n", "\"a b\" = \"x\\ny\"\n"},
      {"a = \"\"\"q\"\" \\\n   z\"\"\"\"\n", "a = \"q\\\"\\\" z\\\"\"\n"},
      {"a = \"\"\"\\\n \xc3\xbc\"\"\"\n", "a = \"\xc3\xbc\"\n"},
      {"a = 1979-05-27 07:32:00Z\nb = 07:32:00.5\nc = 2024-02-29\n",
       "a = 1979-05-27T07:32:00Z\nb = 07:32:00.5\nc = 2024-02-29\n"},
      {"a = 1979-05-27t07:32:00.123456789-07:30\nb = 0001-01-01T00:00:00\n",
       "a = 1979-05-27T07:32:00.123456789-07:30\nb = 0001-01-01T00:00:00\n"},
      {"a = [0o17, 0b101, +7, 0.1, 1e20, 5e0, -0.0, nan]\n",
       "a = [0o17, 0b101, 7, 0.1, 1e+20, 5.0, -0.0, nan]\n"},
      {"a = -inf\nb = 6.6e-34\nc = -9223372036854775808\n",
       "a = -inf\nb = 6.6e-34\nc = -9223372036854775808\n"},
      {"[c]\n\"[fd00::1]:5\".auth.user = \"u\"\n", "[c]\n\"[fd00::1]:5\".auth.user = \"u\"\n"},
      {"\"\\u0061\" = 1\n", "a = 1\n"},
      {"\"\\u0001\\\"\\u00fc\" = 1\n", "\"\\u0001\\\"\xc3\xbc\" = 1\n"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(row.written.cStr(), written(row.text)) << row.text.cStr();
    EXPECT_EQ(written(row.written), written(row.text)) << "it reads as another document";
  }
}

// Catches: a document that containerd refuses and that is accepted; an error at another place.
TEST(Toml, AnInvalidDocumentIsRefusedWithThePlace) {
  struct {
    kj::StringPtr text;
    const char* problem;
  } rows[] = {
      {"text", "line 1, column 5: key-value pair: encountered end-of-file"},
      {"text\n", "line 1, column 5: key-value pair: expected '='"},
      {"[plugins", "line 1, column 9: table header: encountered end-of-file"},
      {"a = 1\n[[b]\n", "line 2, column 5: table header: expected ']'"},
      {"a = 1 b = 2\n", "line 1, column 7: key-value pair: expected a comment or whitespace"},
      {"a = 1\na = 2\n", "line 2, column 5: key-value pair: cannot redefine existing integer"},
      {"[a]\n[a]\n", "line 2, column 1: table header: cannot redefine existing table"},
      {"a.b = 1\n[a]\n", "line 2, column 1: table header: cannot redefine existing table"},
      {"[a]\nb = 1\n[a.b]\n",
       "line 3, column 1: table header: cannot redefine existing integer as table"},
      {"[a]\nx = 1\n[b]\n[a.x.y]\n",
       "line 4, column 9: table header: cannot redefine existing integer as table"},
      {"a = {}\n[a.b]\n",
       "line 2, column 7: table header: cannot insert into existing inline table"},
      {"a = []\n[[a]]\n",
       "line 2, column 1: table header: cannot redefine existing array as array-of-tables"},
      {"a = \"x\nb = 1\n",
       "line 1, column 7: string: unescaped control characters other than TAB (U+0009) are "
       "explicitly prohibited"},
      {"a = \"\"\"x\n", "line 1, column 10: string: encountered end-of-file"},
      {"a = \"\\x\"\n",
       "line 1, column 7: string: escape sequence is not supported in TOML 1.0.0 and earlier"},
      {"a = \"\\ud800\"\n",
       "line 1, column 12: unicode scalar sequence: unicode surrogates (U+D800 - U+DFFF) are "
       "explicitly prohibited"},
      {"a = [1, 2\n", "line 1, column 11: array: encountered end-of-file"},
      {"a = {b = 1,}\n", "line 1, column 12: inline table: expected key-value pair"},
      {"= 1\n", "line 1, column 1: root table: expected keys, tables, whitespace or comments"},
      {"a = \"b\" # \x01\n",
       "line 1, column 11: comment: control characters other than TAB (U+0009) are explicitly "
       "prohibited in comments"},
      {"a = 1\nb = '\xff'\n", "line 2, column 5: Encountered invalid utf-8 sequence"},
      {"a = 'u' # \xc3\xbc\nb = [}\n", "line 2, column 6: unexpected character"},
      {"a = ['\xc3\xbc', \xe2\x80\xa8]\n", "line 1, column 11: unexpected character"},
      {"[a]\nb = 1\n[.c]\n", "line 3, column 2: unexpected character"},
      {"[=", "line 1, column 2: unexpected character"},
  };
  for (auto& row : rows) EXPECT_EQ(row.problem, problemOf(row.text)) << row.text.cStr();
  for (auto value : {"yes", "01", "1__0", "1_e5", "_1", "1.", ".5", "0x", "0b2", "2023-02-29",
                     "25:00:00", "9223372036854775808", "1e999", "++1", "True", ""}) {
    auto text = kj::str("a = ", value, "\n");
    EXPECT_EQ(0u, problemOf(text).find("line 1, column ")) << value;
  }
}

// Catches: an error message that shows a part of a secret.
TEST(Toml, AnErrorHasNoTextOfTheDocument) {
  for (auto value : {"83719283719283719283", "8.3719e837192", "8371-83-71", "true83719", "inf83719",
                     "'a' 83719", "\"\\83719\"", "[83719 83719]", "{x = 83719 83719}", "83719x"}) {
    auto text = kj::str("a = ", value, "\n[a]\n[a]\n");
    auto problem = problemOf(text);
    EXPECT_EQ(0u, problem.find("line 1, column ")) << value;
    for (auto part : {"83", "71", "'8"})
      EXPECT_EQ(std::string::npos, problem.find(part)) << problem;
  }
  EXPECT_EQ("line 2, column 1: table header: cannot redefine existing table",
            problemOf("[\"host: 'a'\"]\n[\"host: 'a'\"]\n"));
}

// Catches: a document whose tables end the stack; a limit that takes the dots of a text for those
// of a key, or that a quote switches off.
TEST(Toml, ADeepDocumentIsRefusedBeforeItIsRead) {
  auto deep = kj::str("a = ", kj::repeat('[', 10'000));
  EXPECT_NE(std::string::npos, problemOf(deep).find("nested too deeply"));
  std::string name = "a";
  for (size_t i = 1; i < kMostDepth; ++i) name += ".a";
  auto header = kj::str("[", name.c_str(), "]\n");
  EXPECT_EQ("none", problemOf(header));
  EXPECT_NE(std::string::npos, problemOf(kj::str(header, "b = 1\n")).find("nested too deeply"));
  std::string names = "x", dots(100, '.'), numbers;
  for (size_t i = 0; i < 30'000; ++i) names += ".x";
  for (size_t i = 0; i < 100; ++i) numbers += "0.5, ";
  auto all = names.c_str(), many = dots.c_str();
  for (auto& text :
       {kj::str(all, " = 1"), kj::str("[", all, "]"), kj::str("a = {", all, " = 1}"),
        kj::str("a = '\\' # '''\n", all, " = 1"), kj::str("a = \"\\\"\" # \"\n", all, " = 1"),
        kj::str("a = ''\nb = \"\"\"x\"\"\"\"\"\n", all, " = 1"),
        kj::str("a = '''x\n''''\n\"'''\" = ''''''\n", all, " = 1")}) {
    EXPECT_NE(std::string::npos, problemOf(text).find("nested too deeply"))
        << kj::str(text.slice(0, 20)).cStr();
  }
  for (auto& text : {kj::str("a = '", many, "'"), kj::str("a = '''''", many, "\n'", many, "'''"),
                     kj::str("\"\\\"", many, "\" = \"\"\"\\\"\"\"", many, "\"\"\""),
                     kj::str("# ", many), kj::str("a = [", numbers.c_str(), "]")}) {
    EXPECT_EQ("none", problemOf(text)) << text.cStr();
  }
  EXPECT_NE("none", problemOf(kj::str(kj::repeat('a', kMostBytes), " = 1")));
}

// Catches: a table that replaces the one that it should be merged into; a conflict that passes.
TEST(Toml, DocumentsAreMergedKeyByKey) {
  auto one = "a = 1\nl = [1]\n[t.u]\nx = \"old\"\ny = true\n"_kj;
  EXPECT_EQ("a = 1\nl = [1, 2]\n\n[t.u]\nx = \"new\"\ny = true\nz = 3\n\n[v]\nw = 4\n",
            merged(one, "l = [2]\nt.u = {x = \"new\", z = 3}\n[v]\nw = 4\n", SameKey::kIsReplaced));
  EXPECT_EQ("t.u.x has another value already",
            merged(one, "t.u.x = \"new\"", SameKey::kMustBeEqual));
  EXPECT_EQ(written(one), merged(one, "t.u.x = \"old\"", SameKey::kMustBeEqual));
  for (auto rule : {SameKey::kMustBeEqual, SameKey::kIsReplaced}) {
    EXPECT_EQ("t.u must be a table, not a whole number", merged(one, "t.u = 1", rule));
    EXPECT_EQ("t.u.y must be true or false, not a text", merged(one, "t.u.y = \"true\"", rule));
    EXPECT_EQ("a must be a whole number, not a table", merged(one, "[a.b]", rule));
  }
}

}  // namespace
}  // namespace talos::toml
