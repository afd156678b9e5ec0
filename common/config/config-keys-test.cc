// docs/evidence/config-keys.md: for each key of the machine config, the test that shows the key's
// effect, or that a config with it gets a warning. UPDATE_DOCS=1 writes the file again.
#include <gtest/gtest.h>
#include <kj/vector.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "common/base/annotation.h"
#include "common/config/rules/config-check.h"
#include "rpc/config.capnp.h"

namespace talos::config {
namespace {

using capnp::StructSchema;

struct KeyTest {
  const char* path;
  const char* test;
};
constexpr KeyTest kKeyTests[] = {
#include "common/config/key-tests.inc"
};

// A piece of the test's code that shows the effect of a key.
struct KeyEffect {
  const char* path;
  const char* piece;
};
constexpr KeyEffect kKeyEffects[] = {
#include "common/config/key-effects.inc"
};

// A key without keys below it.
struct Leaf {
  std::string path, key;
  kj::StringPtr noEffect;
};

void collect(StructSchema schema, const std::string& above, kj::StringPtr noEffect,
             std::vector<Leaf>& leaves) {
  for (auto field : schema.getFields()) {
    if (annotation::has(field, annotation::kHidden)) continue;
    auto path = above + (above.empty() ? "" : ".") + annotation::nameOf(field).cStr();
    auto own = annotation::text(field, annotation::kNoEffect);
    auto effect = own.size() > 0 ? own : noEffect;
    auto type = field.getType();
    auto suffix = "";
    if (type.isList()) {
      bool map = annotation::has(field, annotation::kMap);
      type = type.asList().getElementType();
      if (map) type = type.asStruct().getFieldByName("value").getType();
      suffix = map ? ".*" : "[]";
    }
    bool isInline = type.isStruct() && annotation::has(type.asStruct(), annotation::kInline);
    if (type.isStruct() && type.asStruct().getFields().size() > 0 && !isInline) {
      collect(type.asStruct(), path + suffix, effect, leaves);
    } else {
      leaves.push_back({path, annotation::nameOf(field).cStr(), effect});
    }
  }
}

std::vector<Leaf> leavesOfTheSchema() {
  std::vector<Leaf> leaves;
  collect(capnp::Schema::from<Config>(), "", "", leaves);
  return leaves;
}

bool isAtOrBelow(const std::string& path, const std::string& above) {
  if (path.compare(0, above.size(), above) != 0) return false;
  return path.size() == above.size() || path[above.size()] == '.' || path[above.size()] == '[';
}

// Returns the row with the longest path that the key starts with.
template <typename Row, size_t count>
const Row* rowOf(const Row (&rows)[count], const std::string& path) {
  const Row* best = nullptr;
  for (auto& row : rows) {
    bool longer = best == nullptr || strlen(row.path) > strlen(best->path);
    if (isAtOrBelow(path, row.path) && longer) best = &row;
  }
  return best;
}

std::string contentOf(const std::string& path) {
  std::ifstream file(TALOS_SOURCE_DIR "/" + path);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

bool hasName(const std::string& text, const std::string& name) {
  auto isLetter = [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at) {
    bool begins = at == 0 || !isLetter(text[at - 1]);
    if (begins && !isLetter(text[at + name.size()])) return true;
  }
  return false;
}

// The end of the string that begins at `at`, raw strings included: R"x(…)x".
size_t endOfString(const std::string& text, size_t at) {
  if (at > 0 && text[at - 1] == 'R') {
    auto end = ")" + text.substr(at + 1, text.find('(', at) - at - 1) + "\"";
    return std::min(text.find(end, at), text.size() - end.size()) + end.size();
  }
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
  return std::min(at + 1, text.size());
}

// Returns a test's code without comments, and with consecutive strings joined.
std::string codeOf(const std::string& text) {
  std::string code;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.compare(at, 3, "'\"'") == 0) {
      code += text.substr(at, 3);
      at += 3;
    } else if (text[at] == '"') {
      auto end = endOfString(text, at);
      auto last = code.find_last_not_of(" \n");
      bool raw = text[at - 1] == 'R';
      if (!raw && last != std::string::npos && last + 1 < code.size() && code[last] == '"') {
        code.erase(last);  // "a" "b" is "ab"
        ++at;
      }
      code += text.substr(at, end - at);
      at = end;
    } else {
      code += text[at++];
    }
  }
  return code;
}

// Returns the calls that compare: EXPECT_…, ASSERT_… and the helpers of tests, expect…
std::string assertionsOf(const std::string& code) {
  static const std::regex begin("\\b(EXPECT_|ASSERT_|expect[A-Z])\\w*\\(");
  std::string all;
  for (std::sregex_iterator it(code.begin(), code.end(), begin), none; it != none; ++it) {
    auto from = static_cast<size_t>(it->position()), at = from + it->length();
    for (unsigned depth = 1; depth > 0 && at < code.size();) {
      if (code[at] == '"') {
        at = endOfString(code, at);
        continue;
      }
      if (code[at] == '(') ++depth;
      if (code[at++] == ')') --depth;
    }
    all += code.substr(from, at - from) + "\n";
  }
  return all;
}

// Returns the names that a config, C++ and other programs have for the key: mtu, getMtu, ad_select.
std::vector<std::string> namesOf(const std::string& key) {
  auto accessor = key;
  accessor[0] = static_cast<char>(toupper(accessor[0]));
  std::string snake;
  for (char c : key) {
    if (isupper(static_cast<unsigned char>(c))) snake += '_';
    snake += static_cast<char>(tolower(c));
  }
  return {key, snake, "get" + accessor, "has" + accessor, "is" + accessor};
}

// Returns the values that the test gives to the key, in YAML or by the accessor, except values
// without meaning.
std::set<std::string> valuesOf(const std::string& code, const std::string& key) {
  static const std::regex inYaml(R"re(\\?"?: *(?:\\n *)?(?:- *)?[\[{'\\"]*([^\s,\]}'"\\)]+))re"),
      asArgument(R"re(\( *"?([^"),]+))re");
  auto accessor = key;
  accessor[0] = static_cast<char>(toupper(accessor[0]));
  const std::pair<std::string, const std::regex&> places[] = {
      {key, inYaml}, {"set" + accessor, asArgument}, {"init" + accessor, asArgument}};
  std::set<std::string> values;
  for (auto& [name, value] : places) {
    for (size_t at = 0; (at = code.find(name, at)) != std::string::npos;) {
      auto before = at > 0 ? static_cast<unsigned char>(code[at - 1]) : ' ';
      at += name.size();
      std::smatch match;
      auto from = code.begin() + static_cast<ptrdiff_t>(at);
      if (isalnum(before) || before == '_') continue;
      if (!std::regex_search(from, code.end(), match, value,
                             std::regex_constants::match_continuous)) {
        continue;
      }
      auto text = match[1].str();
      if (text.size() >= 2 && text != "true" && text != "false") values.insert(text);
    }
  }
  return values;
}

// Evidence that a test compares the key's effect: an assertion with its name, an assertion with a
// value that the key was given, or the piece of the table.
struct Evidence {
  std::string code, assertions;

  explicit Evidence(const std::string& test) : code(codeOf(test)), assertions(assertionsOf(code)) {}
  bool has(const std::string& key) const {
    auto isCompared = [this](auto& text) { return hasName(assertions, text); };
    if (key == "*") return false;
    return std::ranges::any_of(namesOf(key), isCompared) ||
           std::ranges::any_of(valuesOf(code, key), isCompared);
  }
  // Looks for a piece; a row of a table, which begins with a brace, is compared elsewhere in the
  // test.
  bool hasPiece(const std::string& piece) const {
    return (piece[0] == '{' ? code : assertions).find(piece) != std::string::npos;
  }
};

// Looks for the place and the key, with which a message in a table of mistakes begins.
bool isInAMessage(const std::string& table, const std::string& path) {
  return table.find(": " + path + ": ") != std::string::npos;
}

// Catches: a key without effect and without a warning; a key whose test was removed; a test that
// names the key and compares nothing of it; a list that differs from the schema.
TEST(ConfigKeys, EachActsOrIsWarnedOf) {
  std::string markdown =
      "# Keys of the machine config and their tests\n\n"
      "Generated from the schema and the table `common/config/key-tests.inc`. The unit tests check "
      "that\n"
      "each key has a test or a warning, and that an assertion of the test compares the key, a "
      "value "
      "that the\n"
      "test gives to it, or the piece that `common/config/key-effects.inc` has for it. Keys that "
      "only "
      "later\n"
      "versions have are in a [list of their own](later-versions.md).\n\n"
      "| Key | Test |\n|---|---|\n";
  std::set<const KeyTest*> used;
  std::set<const KeyEffect*> effects;
  std::map<std::string, Evidence> tests;
  for (auto& leaf : leavesOfTheSchema()) {
    if (leaf.noEffect.size() > 0) {
      markdown += "| `" + leaf.path + "` | warns: this key has no effect; " +
                  std::string(leaf.noEffect.cStr()) + " |\n";
      auto row = rowOf(kKeyTests, leaf.path);
      EXPECT_TRUE(row == nullptr || leaf.path != row->path)
          << leaf.path << " has no effect, so no test shows it";
      continue;
    }
    auto row = rowOf(kKeyTests, leaf.path);
    if (row == nullptr) {
      ADD_FAILURE() << leaf.path << " neither acts nor warns: name its test in key-tests.inc, or "
                    << "give it $noEffect";
      continue;
    }
    used.insert(row);
    auto& evidence = tests.try_emplace(row->test, contentOf(row->test)).first->second;
    auto effect = rowOf(kKeyEffects, leaf.path);
    if (std::string(row->test).ends_with("-wrong.inc")) {  // of config-wrong-test.cc
      EXPECT_TRUE(isInAMessage(evidence.code, leaf.path)) << row->test << ": " << leaf.path;
    } else if (effect == nullptr) {
      EXPECT_TRUE(evidence.has(leaf.key))
          << "no assertion of " << row->test << " shows what " << leaf.path
          << " does: add one, or name a piece of it in key-effects.inc";
    } else {
      effects.insert(effect);
      EXPECT_TRUE(evidence.hasPiece(effect->piece))
          << "no assertion of " << row->test << " has " << effect->piece << " for " << leaf.path;
    }
    markdown += "| `" + leaf.path + "` | " + row->test + " |\n";
  }
  for (auto& row : kKeyTests) EXPECT_TRUE(used.contains(&row)) << row.path << " is no key";
  for (auto& row : kKeyEffects) EXPECT_TRUE(effects.contains(&row)) << row.path << " is no key";

  const char* path = TALOS_SOURCE_DIR "/docs/evidence/config-keys.md";
  if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(path) << markdown;
  EXPECT_TRUE(markdown == contentOf("docs/evidence/config-keys.md"))
      << path << " is not up to date";
}

// Catches: a check that any word of a test satisfies.
TEST(ConfigKeys, AWordOfATestIsNoEvidence) {
  Evidence test(
      "// mtu: EXPECT_EQ(mtu, 1)\n"
      "TEST(A, B) {\n"
      "  apply(\"mtu: 1400\\n\"\n        \"stp: true\\n\"); read(mtu);\n"
      "  auto made = \"EXPECT\";\n"
      "  EXPECT_EQ(link(\"(\"), R\"({\"size\": 1500)\") << \"x\";\n"
      "  { \"minLinks\", \"2\" }\n"
      "}\n");
  EXPECT_FALSE(test.has("mtu"));
  EXPECT_FALSE(test.has("stp"));
  EXPECT_FALSE(test.hasPiece("1400"));
  EXPECT_TRUE(test.has("size"));
  EXPECT_TRUE(test.hasPiece("{\"size\": 1500"));
  EXPECT_TRUE(test.hasPiece("{ \"minLinks\""));
  EXPECT_FALSE(test.hasPiece("{ \"maxLinks\""));
  EXPECT_TRUE(Evidence("apply(\"mtu: 1400\"); expectAll(shown(), {\"1400\"});").has("mtu"));
  EXPECT_TRUE(Evidence("a.setMtu(1400); EXPECT_EQ(b, 1400);").has("mtu"));
  EXPECT_FALSE(Evidence("a.setMtu(1400); EXPECT_EQ(b, 14001);").has("mtu"));
  EXPECT_TRUE(Evidence("EXPECT_EQ(shown.getMtu(), 7);").has("mtu"));
  EXPECT_TRUE(Evidence("EXPECT_EQ(json(), \"ad_select\");").has("adSelect"));
}

// Catches: a key of later versions that this one has, under which a config would be read as usual
// and the list would say otherwise; a duplicate row.
TEST(ConfigKeys, LaterKeysAreNotOfThisVersion) {
  std::set<std::string> own, seen;
  for (auto& leaf : leavesOfTheSchema()) {
    for (size_t at = leaf.path.size(); at != std::string::npos; at = leaf.path.rfind('.', at - 1)) {
      own.insert(leaf.path.substr(0, at));
      if (at == 0) break;
    }
  }
  for (auto& key : laterKeys()) {
    EXPECT_FALSE(own.contains(key.path.cStr())) << key.path.cStr();
    EXPECT_TRUE(seen.insert(key.path.cStr()).second) << key.path.cStr();
    EXPECT_TRUE(std::regex_match(key.since.cStr(), std::regex("v[01]\\.\\d+"))) << key.since.cStr();
  }
  for (auto& kind : laterKinds()) {
    EXPECT_TRUE(seen.insert(kind.name.cStr()).second) << kind.name.cStr();
    EXPECT_TRUE(std::regex_match(kind.since.cStr(), std::regex("v1\\.\\d+"))) << kind.since.cStr();
  }
}

// Returns true if the key's row, or the row of a key above it, has a reason or a replacement.
bool isExplained(kj::StringPtr path) {
  for (auto& row : laterKeys()) {
    bool above =
        path.startsWith(row.path) && (path.size() == row.path.size() ||
                                      path[row.path.size()] == '.' || path[row.path.size()] == '[');
    if (above && row.reason.size() + row.hint.size() > 0) return true;
  }
  return false;
}

// Catches: an error without a message; a key or document without an effect, of which no row says
// why; a treatment of keys that documents do not have.
TEST(ConfigKeys, LaterOnesHaveAReason) {
  using enum codec::LaterTreatment;
  for (auto& key : laterKeys()) {
    bool error = key.treatment == kError || key.treatment == kErrorIfTrue;
    if (error) EXPECT_TRUE(key.reason.size() > 0) << key.path.cStr();
    if (key.treatment == kWarning) EXPECT_TRUE(isExplained(key.path)) << key.path.cStr();
  }
  for (auto& kind : laterKinds()) {
    bool error = kind.treatment == kError;
    EXPECT_TRUE(error || kind.treatment == kWarning) << kind.name.cStr();
    EXPECT_TRUE(kind.reason.size() > 0) << kind.name.cStr();
  }
}

}  // namespace
}  // namespace talos::config
