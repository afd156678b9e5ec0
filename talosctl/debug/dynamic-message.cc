// Converts messages with capabilities and resources in them, from and to JSON.
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/problem.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml.h"
#include "rpc/resources.capnp.h"
#include "talosctl/debug/dynamic-call.h"

namespace talos::talosctl {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;

kj::String oneLine(DynamicStruct::Reader value) {
  return codec::writeJson(value, {.indent = 0, .secrets = codec::Secrets::kHide});
}

bool isResource(capnp::Type type) {
  return type.isStruct() && type.asStruct() == capnp::Schema::from<rpc::Resource>();
}
bool isResources(capnp::Type type) {
  return type.isList() && isResource(type.asList().getElementType());
}

// Returns true if the codec alone cannot write the type because it contains a capability or a
// resource at some depth.
bool isMixed(capnp::Type type, unsigned depth = 0) {
  constexpr unsigned kDeepest = 16;  // schemas that contain themselves have neither
  if (type.isInterface() || type.isAnyPointer()) return true;
  if (type.isList()) return isMixed(type.asList().getElementType(), depth);
  if (!type.isStruct() || depth > kDeepest) return false;
  for (auto field : type.asStruct().getFields()) {
    if (isMixed(field.getType(), depth + 1)) return true;
  }
  return false;
}

class Writer {
 public:
  explicit Writer(const Registry& registry) : registry(registry) {}

  kj::String ofStruct(DynamicStruct::Reader value) {
    if (isResource(value.getSchema())) return ofResource(value.as<rpc::Resource>());
    if (!isMixed(value.getSchema())) return oneLine(value);
    kj::Vector<kj::String> members;
    for (auto field : value.getSchema().getFields()) {
      members.add(
          kj::str(jsonString(codec::keyOf(field)), ":", ofMember(value, field, field.getType())));
    }
    return kj::str("{", kj::strArray(members, ","), "}");
  }

 private:
  const Registry& registry;

  kj::String ofResource(rpc::Resource::Reader resource) {
    auto metadata = oneLine(resource.getMetadata());
    kj::String spec = kj::str("null");
    KJ_IF_MAYBE (type, registry.byName(resource.getMetadata().getType())) {
      spec = oneLine(resource.getSpec().getAs<DynamicStruct>(type->schema));
    }
    return kj::str("{\"metadata\":", metadata, ",\"spec\":", spec, "}");
  }

  kj::String ofMember(DynamicStruct::Reader value, capnp::StructSchema::Field field,
                      capnp::Type type) {
    if (type.isInterface()) {
      auto name = type.asInterface().getShortDisplayName();
      return value.has(field) ? jsonString(kj::str("<", name, ">")) : kj::str("null");
    }
    if (type.isAnyPointer()) return jsonString("<AnyPointer>");
    return ofValue(value.get(field));
  }

  kj::String ofValue(const DynamicValue::Reader& value) {
    switch (value.getType()) {
      case DynamicValue::BOOL:
        return kj::str(value.as<bool>());
      case DynamicValue::INT:
        return kj::str(value.as<int64_t>());
      case DynamicValue::UINT:
        return kj::str(value.as<uint64_t>());
      case DynamicValue::FLOAT:
        return kj::str(value.as<double>());
      case DynamicValue::TEXT:
        return jsonString(value.as<capnp::Text>());
      case DynamicValue::DATA:
        return jsonString(kj::encodeBase64(value.as<capnp::Data>()));
      case DynamicValue::ENUM:
        KJ_IF_MAYBE (known, value.as<capnp::DynamicEnum>().getEnumerant()) {
          return jsonString(known->getProto().getName());
        }
        return kj::str(value.as<capnp::DynamicEnum>().getRaw());
      case DynamicValue::STRUCT:
        return ofStruct(value.as<DynamicStruct>());
      case DynamicValue::LIST: {
        kj::Vector<kj::String> items;
        for (auto item : value.as<DynamicList>()) items.add(ofValue(item));
        return kj::str("[", kj::strArray(items, ","), "]");
      }
      default:
        return kj::str("null");
    }
  }
};

class MessageReader {
 public:
  MessageReader(const codec::YamlStream& stream, kj::StringPtr name, const Registry& registry)
      : stream(stream), name(name), registry(registry) {}

  void read(const codec::YamlNode& node, DynamicStruct::Builder target) {
    codec::YamlNode rest;  // the part that the codec reads
    rest.kind = node.kind;
    rest.place = node.place;
    rest.text = kj::str(node.text);
    for (auto item : node.items) rest.items.add(item);
    for (auto& entry : node.entries) {
      if (!readResources(entry, target)) {
        rest.entries.add(
            codec::Entry{kj::str(entry.key), entry.place, entry.value, entry.comment, entry.begin});
      }
    }
    readPlain(rest, target);
  }

 private:
  const codec::YamlStream& stream;
  kj::StringPtr name;
  const Registry& registry;

  void readPlain(const codec::YamlNode& node, DynamicStruct::Builder target) {
    Problems problems;
    if (codec::readNode(stream, node, target, problems, {.file = name})) return;
    fail(ErrorKind::kInvalidArgument, render(problems));
  }

  bool readResources(const codec::Entry& entry, DynamicStruct::Builder target) {
    KJ_IF_MAYBE (field, target.getSchema().findFieldByName(entry.key)) {
      if (isResource(field->getType())) {
        readResource(*entry.value, target.init(*field).as<DynamicStruct>());
        return true;
      }
      if (isResources(field->getType()) && entry.value->kind == codec::YamlNode::Kind::kSequence) {
        auto& items = entry.value->items;
        auto list = target.init(*field, items.size()).as<DynamicList>();
        for (auto i : kj::indices(items)) readResource(*items[i], list[i].as<DynamicStruct>());
        return true;
      }
    }
    return false;
  }

  void readResource(const codec::YamlNode& node, DynamicStruct::Builder target) {
    auto resource = target.as<rpc::Resource>();
    const codec::YamlNode* spec = nullptr;
    for (auto& entry : node.entries) {
      if (entry.key == "metadata") {
        readPlain(*entry.value, resource.initMetadata());
      } else if (entry.key == "spec") {
        spec = entry.value;
      } else {
        refuse(entry.place, kj::str("unknown key \"", entry.key, "\"; use metadata and spec"));
      }
    }
    if (resource.getMetadata().getType().size() == 0 || spec == nullptr) {
      refuse(node.place, kj::str("a resource needs metadata with a type, and a spec"));
    }
    auto& type = registry.find(resource.getMetadata().getType());
    resource.getMetadata().setType(type.name);
    readPlain(*spec, resource.getSpec().initAs<DynamicStruct>(type.schema));
  }

  [[noreturn]] void refuse(codec::Place place, kj::StringPtr why) {
    fail(ErrorKind::kInvalidArgument, kj::str(name, ":", place.line, ":", place.column, ": ", why));
  }
};

}  // namespace

kj::String messageJson(DynamicStruct::Reader message, const Registry& registry) {
  return Writer(registry).ofStruct(message);
}

void readMessage(kj::StringPtr text, kj::StringPtr name, DynamicStruct::Builder message,
                 const Registry& registry) {
  Problems problems;
  codec::YamlStream stream(text, name, problems);
  if (hasErrors(problems)) fail(ErrorKind::kInvalidArgument, render(problems));
  if (stream.documents().size() != 1) {
    fail(ErrorKind::kInvalidArgument, kj::str(name, ": parameters are one object"));
  }
  MessageReader(stream, name, registry).read(*stream.documents()[0], message);
}

}  // namespace talos::talosctl
