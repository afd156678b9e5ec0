// Annotations of rpc/annotations.capnp on compiled-in schemas.
#pragma once

#include <capnp/schema.h>

namespace talos::annotation {

// Ids of rpc/annotations.capnp; generated code declares no constants for annotations.
enum Id : uint64_t {
  kName = 0xc1c8a1f3f0a3d001,
  kDoc = 0xc1c8a1f3f0a3d002,
  kSince = 0xc1c8a1f3f0a3d004,
  kDefault = 0xc1c8a1f3f0a3d005,
  kSecret = 0xc1c8a1f3f0a3d003,
  kRequired = 0xc1c8a1f3f0a3d006,
  kMap = 0xc1c8a1f3f0a3d007,
  kRaw = 0xc1c8a1f3f0a3d008,
  kOthers = 0xc1c8a1f3f0a3d019,
  kInline = 0xc1c8a1f3f0a3d009,
  kBase64 = 0xc1c8a1f3f0a3d00a,
  kKeepEmpty = 0xc1c8a1f3f0a3d00b,
  kIfGiven = 0xc1c8a1f3f0a3d014,
  kResource = 0xc1c8a1f3f0a3d00c,
  kColumn = 0xc1c8a1f3f0a3d00d,
  kAllow = 0xc1c8a1f3f0a3d00e,
  kAlias = 0xc1c8a1f3f0a3d00f,
  kNoun = 0xc1c8a1f3f0a3d010,
  kOctal = 0xc1c8a1f3f0a3d011,
  kLive = 0xc1c8a1f3f0a3d012,
  kReboot = 0xc1c8a1f3f0a3d017,
  kNoEffect = 0xc1c8a1f3f0a3d018,
  kHidden = 0xc1c8a1f3f0a3d01a,
  kMaintenance = 0xc1c8a1f3f0a3d013,
  kAudit = 0xc1c8a1f3f0a3d016,
  kJoining = 0xc1c8a1f3f0a3d015,
};

// `node` is anything with annotations in getProto(): a schema, a field, an enumerant, a method.
template <typename T>
kj::Maybe<capnp::schema::Value::Reader> find(const T& node, Id id) {
  for (auto a : node.getProto().getAnnotations()) {
    if (a.getId() == id) return a.getValue();
  }
  return nullptr;
}

template <typename T>
bool has(const T& node, Id id) {
  return find(node, id) != nullptr;
}

// Returns the annotation's text; empty if it is absent.
template <typename T>
kj::StringPtr text(const T& node, Id id) {
  KJ_IF_MAYBE (value, find(node, id)) return value->getText();
  return "";
}

// Returns true if a change of the field takes effect without a reboot. `above`: a change of the
// enclosing struct does.
template <typename T>
bool isLive(const T& field, bool above) {
  return !has(field, kReboot) && (above || has(field, kLive));
}

// Returns $name, or the name itself.
template <typename T>
kj::StringPtr nameOf(const T& node) {
  auto name = text(node, kName);
  return name.size() == 0 ? kj::StringPtr(node.getProto().getName()) : name;
}

// Returns the name of a value of an enum; nullptr for a number that this schema does not know.
inline kj::Maybe<kj::StringPtr> enumName(capnp::EnumSchema schema, unsigned value) {
  auto names = schema.getEnumerants();
  if (value >= names.size()) return nullptr;
  return nameOf(names[value]);
}
template <typename Enum>
kj::Maybe<kj::StringPtr> enumName(Enum value) {
  return enumName(capnp::Schema::from<Enum>(), unsigned(value));
}

inline bool inUnion(capnp::StructSchema::Field field) {
  return field.getProto().getDiscriminantValue() != capnp::schema::Field::NO_DISCRIMINANT;
}

// Returns true if `name` is the name of this field or enumerant, or one of its $alias spellings.
template <typename T>
bool isCalled(const T& node, kj::StringPtr name) {
  if (nameOf(node) == name) return true;
  KJ_IF_MAYBE (value, find(node, kAlias)) {
    capnp::AnyPointer::Reader list = value->getList();
    for (auto alias : list.getAs<capnp::List<capnp::Text>>()) {
      if (alias == name) return true;
    }
  }
  return false;
}

inline kj::Maybe<capnp::StructSchema::Field> fieldCalled(capnp::StructSchema schema,
                                                         kj::StringPtr name) {
  for (auto field : schema.getFields()) {
    if (!has(field, kOthers) && !has(field, kHidden) && isCalled(field, name)) return field;
  }
  return nullptr;
}

// Returns the field that holds the keys with other names ($others).
inline kj::Maybe<capnp::StructSchema::Field> othersOf(capnp::StructSchema schema) {
  for (auto field : schema.getFields()) {
    if (has(field, kOthers)) return field;
  }
  return nullptr;
}

}  // namespace talos::annotation
