// docs/evidence/config-keys.md: for each key of the machine config the test that shows that it
// acts, or that a config with it gets a warning. UPDATE_DOCS=1 writes it anew.
#include <gtest/gtest.h>
#include <kj/vector.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "common/base/annotation.h"
#include "common/config/config-check.h"
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

// A key without keys below it.
struct Leaf {
  std::string path, key;
  kj::StringPtr noEffect;
};

void collect(StructSchema schema, const std::string& above, kj::StringPtr noEffect,
             std::vector<Leaf>& leaves) {
  for (auto field : schema.getFields()) {
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
    if (type.isStruct() && type.asStruct().getFields().size() > 0) {
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

const KeyTest* rowOf(const std::string& path) {
  const KeyTest* best = nullptr;
  for (auto& row : kKeyTests) {
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

// The key in YAML, or the accessor that C++ has for it.
bool names(const std::string& test, const std::string& key) {
  auto accessor = key;
  accessor[0] = static_cast<char>(toupper(accessor[0]));
  return hasName(test, key) || hasName(test, "set" + accessor) ||
         hasName(test, "init" + accessor) || hasName(test, "get" + accessor);
}

// Catches: a key that nothing reads and nobody is warned of, one whose test was removed, a test
// that is about something else, and a list that is not that of this schema.
TEST(ConfigKeys, EachActsOrIsWarnedOf) {
  std::string markdown =
      "# Keys of the machine config and their tests\n\n"
      "Generated from the schema and the table `common/config/key-tests.inc`. The unit tests check "
      "that\n"
      "each key has a test or a warning, and that the file of the test exists, has tests and names "
      "the key.\n"
      "They cannot check that the test proves the effect of the key: read it for that. A key of a "
      "later\n"
      "version always gets a warning ([list](later-versions.md)).\n\n"
      "| Key | Test |\n|---|---|\n";
  std::set<const KeyTest*> used;
  for (auto& leaf : leavesOfTheSchema()) {
    if (leaf.noEffect.size() > 0) {
      markdown += "| `" + leaf.path + "` | warns: this key has no effect; " +
                  std::string(leaf.noEffect.cStr()) + " |\n";
      EXPECT_EQ(nullptr, rowOf(leaf.path)) << leaf.path << " has no effect, so no test shows it";
      continue;
    }
    auto row = rowOf(leaf.path);
    if (row == nullptr) {
      ADD_FAILURE() << leaf.path << " neither acts nor warns: name its test in key-tests.inc, or "
                    << "give it $noEffect";
      continue;
    }
    used.insert(row);
    auto test = contentOf(row->test);
    bool rows = std::string(row->test).ends_with("-wrong.inc");  // of config-wrong-test.cc
    EXPECT_TRUE(rows || test.find("TEST") != std::string::npos) << row->test << " is no test";
    EXPECT_TRUE(names(test, leaf.key)) << row->test << " does not name " << leaf.path;
    markdown += "| `" + leaf.path + "` | " + row->test + " |\n";
  }
  for (auto& row : kKeyTests) EXPECT_TRUE(used.contains(&row)) << row.path << " is no key";

  const char* path = TALOS_SOURCE_DIR "/docs/evidence/config-keys.md";
  if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(path) << markdown;
  EXPECT_TRUE(markdown == contentOf("docs/evidence/config-keys.md"))
      << path << " is not up to date";
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

}  // namespace
}  // namespace talos::config
