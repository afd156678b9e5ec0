#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "common/wire/resource-registry.h"
#include "common/wire/roles.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

// The interfaces that a caller gets from the API, by name.
void addGiven(capnp::InterfaceSchema schema, kj::TreeSet<kj::String>& names);

void addGiven(capnp::StructSchema results, kj::TreeSet<kj::String>& names) {
  for (auto field : results.getFields()) {
    if (field.getType().isInterface()) addGiven(field.getType().asInterface(), names);
  }
}

void addGiven(capnp::InterfaceSchema schema, kj::TreeSet<kj::String>& names) {
  auto name = kj::str(schema.getShortDisplayName());
  if (names.find(name) != nullptr) return;
  names.insert(kj::mv(name));
  for (auto method : schema.getMethods()) addGiven(method.getResultType(), names);
}

// The table of methods and roles for docs/trust.md, in Markdown: each method of the API with the
// least role that may call it, whether its calls are recorded and whether a machine without a
// config serves it; then the resource types that only os:admin reads. Methods of what callers pass
// in (sinks) are left out.
kj::String rolesReference() {
  auto root = capnp::Schema::from<rpc::Cluster>();
  kj::TreeSet<kj::String> given;
  addGiven(root, given);
  kj::Vector<kj::String> lines;
  lines.add(kj::str("| Method | Least role | Recorded | Without a config |\n|---|---|---|---|"));
  for (auto& rule : Rules(root).all()) {
    auto dot = KJ_ASSERT_NONNULL(rule.method.findFirst('.'));
    if (given.find(kj::heapString(rule.method.slice(0, dot))) == nullptr) continue;
    lines.add(kj::str("| `", rule.method, "` | `", rule.needed, "` | ", rule.audit ? "yes" : "",
                      " | ", rule.maintenance ? "yes" : "", " |"));
  }
  lines.add(kj::str("\nResource types that only `os:admin` reads:\n"));
  Registry registry;
  for (auto& type : registry.types()) {
    if (type.sensitive) lines.add(kj::str("* `", type.name, "`"));
  }
  return kj::str(kj::strArray(lines, "\n"), "\n");
}

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
