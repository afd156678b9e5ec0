#include "common/wire/roles-reference.h"

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

}  // namespace

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

}  // namespace talos
