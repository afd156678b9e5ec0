#include "machined/config/config-change.h"

#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <kj/map.h>

#include "common/base/annotation.h"

namespace talos::config {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::StructSchema;

// Returns true for a field that the parser derives from others, with which it changes
// (common/config/rules/free-form.h).
bool isDerived(StructSchema::Field field) {
  auto schema = field.getContainingStruct();
  kj::StringPtr name = field.getProto().getName();
  if (schema == capnp::Schema::from<Machine>()) return name == "baseRuntimeSpec";
  return schema == capnp::Schema::from<SeccompProfile>() && name == "json";
}

class Comparison {
 public:
  kj::Vector<Change> result;

  void structs(DynamicStruct::Reader from, DynamicStruct::Reader to, kj::StringPtr path,
               bool live) {
    if (annotation::has(from.getSchema(), annotation::kInline)) {
      auto only = from.getSchema().getFields()[0];
      return values(only.getType(), from.get(only), to.get(only), path, live);
    }
    for (auto field : from.getSchema().getFields()) {
      // The kinds of documents: what they set is compared where it is.
      if (path.size() == 0 && annotation::has(field, annotation::kHidden)) continue;
      if (isDerived(field)) continue;
      auto below = kj::str(path, path.size() == 0 ? "" : ".", annotation::nameOf(field));
      bool fieldLive = annotation::isLive(field, live);
      // The presence of a mapping without keys has a meaning.
      if (isMarker(field.getType()) && from.has(field) != to.has(field)) {
        add(kj::mv(below), fieldLive);
      } else if (annotation::has(field, annotation::kMap)) {
        auto above = annotation::has(field, annotation::kOthers) ? path : kj::StringPtr(below);
        maps(from.get(field).as<DynamicList>(), to.get(field).as<DynamicList>(), above, fieldLive);
      } else {
        values(field.getType(), from.get(field), to.get(field), below, fieldLive);
      }
    }
  }

 private:
  void add(kj::String path, bool live) { result.add(Change{kj::mv(path), live}); }

  static bool isMarker(capnp::Type type) {
    return type.isStruct() && type.asStruct().getFields().size() == 0;
  }

  void values(capnp::Type type, DynamicValue::Reader from, DynamicValue::Reader to,
              kj::StringPtr path, bool live) {
    if (type.isStruct()) {
      structs(from.as<DynamicStruct>(), to.as<DynamicStruct>(), path, live);
    } else if (type.isList()) {
      lists(type.asList().getElementType(), from.as<DynamicList>(), to.as<DynamicList>(), path,
            live);
    } else if (!equal(type, from, to)) {
      add(kj::str(path), live);
    }
  }

  static bool equal(capnp::Type type, DynamicValue::Reader from, DynamicValue::Reader to) {
    if (type.isText()) return from.as<capnp::Text>() == to.as<capnp::Text>();
    if (type.isData()) return from.as<capnp::Data>() == to.as<capnp::Data>();
    if (type.isBool()) return from.as<bool>() == to.as<bool>();
    if (type.isEnum()) {
      return from.as<capnp::DynamicEnum>().getRaw() == to.as<capnp::DynamicEnum>().getRaw();
    }
    if (from.getType() == DynamicValue::FLOAT) return from.as<double>() == to.as<double>();
    if (from.getType() == DynamicValue::INT) return from.as<int64_t>() == to.as<int64_t>();
    return from.as<uint64_t>() == to.as<uint64_t>();
  }

  void lists(capnp::Type element, DynamicList::Reader from, DynamicList::Reader to,
             kj::StringPtr path, bool live) {
    if (from.size() != to.size()) return add(kj::str(path), live);
    for (unsigned i = 0; i < from.size(); ++i) {
      values(element, from[i], to[i], kj::str(path, "[", i, "]"), live);
    }
  }

  // An entry that was added or removed is a change of every key that it sets.
  void maps(DynamicList::Reader from, DynamicList::Reader to, kj::StringPtr path, bool live) {
    auto schema = from.getSchema().getStructElementType();
    auto valueField = schema.getFieldByName("value");
    auto type = valueField.getType();
    auto keyOf = [](DynamicStruct::Reader entry) -> kj::StringPtr {
      return entry.get("key").as<capnp::Text>();
    };
    auto below = [&](kj::StringPtr key) { return kj::str(path, ".", key); };
    auto lone = [&](DynamicStruct::Reader entry) {
      auto before = result.size();
      auto value = entry.get(valueField);
      if (type.isStruct()) {
        capnp::MallocMessageBuilder message(8);
        auto none = message.initRoot<DynamicStruct>(type.asStruct());
        structs(none.asReader(), value.as<DynamicStruct>(), below(keyOf(entry)), live);
      }
      if (result.size() == before) add(below(keyOf(entry)), live);
    };
    kj::HashMap<kj::StringPtr, DynamicStruct::Reader> wanted;
    for (auto item : to) {
      auto entry = item.as<DynamicStruct>();
      wanted.upsert(keyOf(entry), entry, [](auto&, auto&&) {});
    }
    kj::HashSet<kj::StringPtr> known;
    for (auto item : from) {
      auto entry = item.as<DynamicStruct>();
      auto key = keyOf(entry);
      known.upsert(key, [](auto&, auto&&) {});
      KJ_IF_MAYBE (other, wanted.find(key)) {
        values(type, entry.get(valueField), other->get(valueField), below(key), live);
      } else {
        lone(entry);
      }
    }
    for (auto item : to) {
      auto entry = item.as<DynamicStruct>();
      if (!known.contains(keyOf(entry))) lone(entry);
    }
  }
};

}  // namespace

kj::Vector<Change> changes(Config::Reader from, Config::Reader to) {
  Comparison comparison;
  comparison.structs(from, to, "", false);
  return kj::mv(comparison.result);
}

}  // namespace talos::config
