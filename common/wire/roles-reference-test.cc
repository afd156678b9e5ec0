#include "common/wire/roles-reference.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace talos {
namespace {

// Catches: a table of roles in the documents that is not the one of the schema. UPDATE_DOCS=1
// writes it anew.
TEST(RolesReference, IsInTheDocuments) {
  const std::string begin = "<!-- roles: generated from rpc/ -->\n", end = "<!-- end of roles -->";
  const char* path = TALOS_SOURCE_DIR "/docs/trust.md";
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  auto from = text.find(begin), to = text.find(end);
  ASSERT_NE(from, std::string::npos) << path << " has no place for the table";
  ASSERT_NE(to, std::string::npos);
  from += begin.size();
  std::string made = std::string("\n") + rolesReference().cStr() + "\n";
  if (getenv("UPDATE_DOCS") != nullptr) {
    text.replace(from, to - from, made);
    std::ofstream(path) << text;
    to = from + made.size();
  }
  EXPECT_TRUE(text.substr(from, to - from) == made) << path << " is not up to date";
}

}  // namespace
}  // namespace talos
