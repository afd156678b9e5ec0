#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "common/wire/resource-registry.h"
#include "common/wire/roles.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

// Adds the interfaces that a caller gets from the API, by name.
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

// The methods of one interface that need the same role, in Markdown.
struct RoleRow {
  kj::String interface, role;
  kj::Vector<kj::String> methods, recorded;
};

// Returns the table of methods and roles for docs/trust.md, in Markdown: for each interface of the
// API and each role the methods that need at least this role. Calls of the methods in the last
// column are recorded in the audit log; methods with a dagger are served without a config as well.
// Methods of capabilities that callers pass in (sinks) are left out. The resource types that only
// os:admin reads follow.
kj::String rolesReference() {
  auto root = capnp::Schema::from<rpc::Cluster>();
  kj::TreeSet<kj::String> given;
  addGiven(root, given);
  kj::Vector<RoleRow> rows;
  for (auto& rule : Rules(root).all()) {
    auto dot = KJ_ASSERT_NONNULL(rule.method.findFirst('.'));
    auto interface = kj::heapString(rule.method.slice(0, dot));
    if (given.find(interface) == nullptr) continue;
    auto role = kj::str(rule.needed);
    RoleRow* row = nullptr;
    for (auto& each : rows) {
      if (each.interface == interface && each.role == role) row = &each;
    }
    if (row == nullptr) row = &rows.add(RoleRow{kj::mv(interface), kj::mv(role), {}, {}});
    auto& column = rule.audit ? row->recorded : row->methods;
    column.add(kj::str(rule.method.slice(dot + 1), rule.maintenance ? " †" : ""));
  }
  kj::Vector<kj::String> lines;
  lines.add(
      kj::str("| Interface | Least role | Methods | Methods whose calls are recorded |\n"
              "|---|---|---|---|"));
  for (auto& row : rows) {
    lines.add(kj::str("| `", row.interface, "` | `", row.role, "` | ",
                      kj::strArray(row.methods, ", "), " | ", kj::strArray(row.recorded, ", "),
                      " |"));
  }
  kj::Vector<kj::String> types;
  Registry registry;
  for (auto& type : registry.types()) {
    if (type.sensitive) types.add(kj::str("`", type.name, "`"));
  }
  lines.add(
      kj::str("\nResource types that only `os:admin` reads: ", kj::strArray(types, ", "), "."));
  return kj::str(kj::strArray(lines, "\n"), "\n");
}

// Catches: a table of roles in the documents that differs from the schema. UPDATE_DOCS=1 writes the
// table again.
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
