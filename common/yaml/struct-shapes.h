// The annotations of a struct's fields, in the form in which the decoder looks them up.
//
// A schema is itself a Cap'n Proto message: each look-up of an annotation reads all annotations of
// the field from it, and each key of a document needs several for each field of its struct. A
// decoder reads them once for each struct that it meets, which halves the time of a config with
// many links. Nothing outlives the decoder. Pure.
#pragma once

#include <capnp/schema.h>
#include <kj/map.h>
#include <kj/memory.h>

#include "common/base/annotation.h"

namespace talos::codec {

struct FieldShape {
  capnp::StructSchema::Field field;
  kj::StringPtr key;       // $name, or the name itself
  kj::StringPtr noEffect;  // text of $noEffect
  bool inUnion, isRequired, isRaw, isMap, isSecret;

  explicit FieldShape(capnp::StructSchema::Field field)
      : field(field),
        key(annotation::nameOf(field)),
        noEffect(annotation::text(field, annotation::kNoEffect)),
        inUnion(annotation::inUnion(field)),
        isRequired(annotation::has(field, annotation::kRequired)),
        isRaw(annotation::has(field, annotation::kRaw)),
        isMap(annotation::has(field, annotation::kMap)),
        isSecret(annotation::has(field, annotation::kSecret)) {}
};

class StructShape {
 public:
  explicit StructShape(capnp::StructSchema schema)
      : fields(KJ_MAP(field, schema.getFields()) { return FieldShape(field); }),
        isInline(annotation::has(schema, annotation::kInline)) {
    for (auto& shape : fields) {
      if (shape.isRequired) required.add(&shape);
      if (annotation::has(shape.field, annotation::kOthers)) {
        if (others == nullptr) others = shape;
      } else if (!annotation::has(shape.field, annotation::kHidden)) {
        addNames(shape);
      }
    }
  }
  KJ_DISALLOW_COPY_AND_MOVE(StructShape);

  const kj::Array<FieldShape> fields;  // by index
  const bool isInline;
  kj::Vector<const FieldShape*> required;
  kj::Maybe<const FieldShape&> others;  // the field that holds the keys with other names

  // Returns the first field with this name or $alias, as annotation::fieldCalled() does.
  kj::Maybe<const FieldShape&> called(kj::StringPtr name) const {
    KJ_IF_MAYBE (shape, byName.find(name)) return **shape;
    return nullptr;
  }

 private:
  kj::HashMap<kj::StringPtr, const FieldShape*> byName;

  void addName(kj::StringPtr name, const FieldShape& shape) {
    byName.findOrCreate(name, [&]() { return decltype(byName)::Entry{name, &shape}; });
  }
  void addNames(const FieldShape& shape) {
    addName(shape.key, shape);
    KJ_IF_MAYBE (value, annotation::find(shape.field, annotation::kAlias)) {
      capnp::AnyPointer::Reader list = value->getList();
      for (auto alias : list.getAs<capnp::List<capnp::Text>>()) addName(alias, shape);
    }
  }
};

class StructShapes {
 public:
  const StructShape& of(capnp::StructSchema schema) {
    return *shapes.findOrCreate(
        schema, [&]() { return decltype(shapes)::Entry{schema, kj::heap<StructShape>(schema)}; });
  }
  const FieldShape& of(capnp::StructSchema::Field field) {
    return of(field.getContainingStruct()).fields[field.getIndex()];
  }

 private:
  kj::HashMap<capnp::StructSchema, kj::Own<StructShape>> shapes;
};

}  // namespace talos::codec
