// The annotations of a struct's fields, in the form in which the decoder looks them up.
//
// A schema is itself a Cap'n Proto message: each look-up of an annotation reads all annotations of
// the field from it, and each key of a document needs several for each field of its struct. A
// decoder reads them once for each struct that it meets, all of a field in one pass. A config meets
// most structs once or twice, so names are in a list, which takes less time to make than a table.
// Nothing outlives the decoder. Pure.
#pragma once

#include <capnp/schema.h>
#include <kj/map.h>
#include <kj/memory.h>

#include "common/base/annotation.h"

namespace talos::codec {

struct FieldShape {
  capnp::StructSchema::Field field;
  kj::StringPtr key;            // $name, or the name itself
  kj::StringPtr noEffect = "";  // text of $noEffect
  kj::Maybe<capnp::schema::Value::Reader> alias = nullptr;
  bool inUnion, isRequired = false, isRaw = false, isMap = false, isSecret = false;
  bool isOthers = false, isHidden = false;

  explicit FieldShape(capnp::StructSchema::Field field)
      : field(field), key(field.getProto().getName()), inUnion(annotation::inUnion(field)) {
    for (auto each : field.getProto().getAnnotations()) read(each.getId(), each.getValue());
  }

 private:
  void read(uint64_t id, capnp::schema::Value::Reader value) {
    switch (id) {
      case annotation::kName:
        if (value.getText().size() > 0) key = value.getText();
        return;
      case annotation::kNoEffect:
        noEffect = value.getText();
        return;
      case annotation::kAlias:
        alias = value;
        return;
      case annotation::kRequired:
        isRequired = true;
        return;
      case annotation::kRaw:
        isRaw = true;
        return;
      case annotation::kMap:
        isMap = true;
        return;
      case annotation::kSecret:
        isSecret = true;
        return;
      case annotation::kOthers:
        isOthers = true;
        return;
      case annotation::kHidden:
        isHidden = true;
        return;
    }
  }
};

class StructShape {
 public:
  explicit StructShape(capnp::StructSchema schema)
      : fields(KJ_MAP(field, schema.getFields()) { return FieldShape(field); }),
        isInline(annotation::has(schema, annotation::kInline)),
        names(fields.size()) {
    for (auto& shape : fields) {
      if (shape.isRequired) required.add(&shape);
      if (shape.isOthers) {
        if (others == nullptr) others = shape;
      } else if (!shape.isHidden) {
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
    for (auto& known : names) {
      if (known.name == name) return *known.shape;
    }
    return nullptr;
  }

 private:
  struct Name {
    kj::StringPtr name;
    const FieldShape* shape;
  };
  kj::Vector<Name> names;  // of all fields, in their order

  void addNames(const FieldShape& shape) {
    names.add(Name{shape.key, &shape});
    KJ_IF_MAYBE (value, shape.alias) {
      capnp::AnyPointer::Reader list = value->getList();
      for (auto alias : list.getAs<capnp::List<capnp::Text>>()) names.add(Name{alias, &shape});
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
