#include "tests/schemas/schema-growth.h"

#include <capnp/any.h>
#include <capnp/schema-loader.h>
#include <capnp/schema-parser.h>

#include <map>

namespace talos {
namespace {

using capnp::schema::Node;
using Nodes = std::map<uint64_t, Node::Reader>;

struct Schemas {
  capnp::SchemaParser parser;
  kj::Array<capnp::Schema> all;
  Nodes nodes;  // by the id, which follows from the names of file and type
};

void compile(Schemas& schemas, const kj::ReadableDirectory& files,
             const kj::ReadableDirectory& imports) {
  const kj::ReadableDirectory* path[] = {&imports};
  for (auto& name : files.listNames()) {
    if (name.endsWith(".capnp")) schemas.parser.parseFromDirectory(files, kj::Path(name), path);
  }
  schemas.all = schemas.parser.getAllLoaded();
  for (auto& schema : schemas.all) {
    auto node = schema.getProto();
    bool talks = node.isStruct() || node.isEnum() || node.isInterface();
    if (talks && !node.getDisplayName().startsWith("capnp/")) {
      schemas.nodes.emplace(node.getId(), node);
    }
  }
}

// "rpc/machine.capnp: Machine.reboot$Params"
kj::String placeOf(Node::Reader node) {
  auto name = node.getDisplayName();
  KJ_IF_MAYBE (colon, name.findFirst(':')) {
    return kj::str("rpc/", name.slice(0, *colon), ": ", name.slice(*colon + 1));
  }
  return kj::str("rpc/", name);
}

struct Members {
  kj::StringPtr kind;
  kj::Vector<kj::StringPtr> names;  // by ordinal; fields of groups are those of the group
};

Members membersOf(Node::Reader node) {
  Members members;
  auto add = [&](kj::StringPtr kind, auto list) {
    members.kind = kind;
    for (auto member : list) members.names.add(member.getName());
  };
  if (node.isStruct()) add("field", node.getStruct().getFields());
  if (node.isEnum()) add("enumerant", node.getEnum().getEnumerants());
  if (node.isInterface()) add("method", node.getInterface().getMethods());
  return members;
}

// The finding of SchemaLoader, with the member that it was comparing.
kj::String textOf(const kj::Exception& e) {
  kj::Vector<kj::String> parts;
  for (auto context = e.getContext(); context != nullptr;) {
    auto& entry = KJ_ASSERT_NONNULL(context);
    parts.add(kj::str(entry.description));
    context = entry.next.map(
        [](const kj::Own<kj::Exception::Context>& next) -> const kj::Exception::Context& {
          return *next;
        });
  }
  parts.add(kj::str(e.getDescription()));
  return kj::strArray(parts, ": ");
}

// SchemaLoader refuses a change of type too, but does not always name the field.
kj::Maybe<kj::String> typeChange(Node::Reader before, Node::Reader now, unsigned field) {
  if (!before.isStruct() || !now.isStruct()) return nullptr;
  auto old = before.getStruct().getFields()[field], today = now.getStruct().getFields()[field];
  if (!old.isSlot() || !today.isSlot()) return nullptr;
  auto type = old.getSlot().getType(), changed = today.getSlot().getType();
  if (capnp::AnyStruct::Reader(type) == capnp::AnyStruct::Reader(changed)) return nullptr;
  return kj::str("changed its type from ", type, " to ", changed);
}

bool membersChanged(Node::Reader before, Node::Reader now, kj::Vector<kj::String>& problems) {
  auto old = membersOf(before), today = membersOf(now);
  for (auto i : kj::indices(old.names)) {
    kj::Maybe<kj::String> change;
    if (i >= today.names.size()) {
      change = kj::str("was removed");
    } else if (old.names[i] != today.names[i]) {
      change = kj::str("became \"", today.names[i], "\"");
    } else {
      change = typeChange(before, now, static_cast<unsigned>(i));
    }
    if (change == nullptr) continue;
    problems.add(kj::str(placeOf(before), ": ", old.kind, " \"", old.names[i], "\" (number ", i,
                         " of the release) ", KJ_ASSERT_NONNULL(change),
                         "; keep it as it was, and add what is new with the next ordinal"));
    return true;  // those after it follow from this one
  }
  return false;
}

}  // namespace

SchemaGrowth compareSchemas(const kj::ReadableDirectory& released,
                            const kj::ReadableDirectory& current,
                            const kj::ReadableDirectory& imports) {
  Schemas before, now;
  compile(before, released, imports);
  compile(now, current, imports);
  SchemaGrowth result;
  for (auto& [id, node] : before.nodes) {
    ++result.compared;
    auto today = now.nodes.find(id);
    if (today == now.nodes.end()) {
      result.problems.add(kj::str(placeOf(node),
                                  ": the type was removed, renamed or moved; keep it where it was,"
                                  " and add a new type beside it"));
      continue;
    }
    if (membersChanged(node, today->second, result.problems)) continue;
    capnp::SchemaLoader loader;
    loader.load(node);
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { loader.load(today->second); })) {
      result.problems.add(kj::str(placeOf(node), ": ", textOf(*e),
                                  "; keep it as it was, and add a new one with the next ordinal"));
    }
  }
  return result;
}

}  // namespace talos
