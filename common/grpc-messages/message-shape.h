// Shapes map protobuf messages to Cap'n Proto structs: a text pairs the fields of both, types
// follow from the schema.
//
//   1:id 4:follow 2:events{1:message 3:time~ns}
//
// A field is its number, a colon and the path of the struct's field. A struct, and each item of a
// list of structs, is a message, whose fields are in braces. More forms of a field:
//
//   2{1:tag 2:sha}      a message of fields of the same struct
//   5:state~title       a value in another encoding (field-transforms.cc)
//   4:health!{...}      written even if it is empty: clients read it without a check
//   7=1 8='text'        a constant
//   0:signal=15         the struct's field gets a constant; 0 is not the number of a field
//   3^stage             not supported by this node: Unimplemented if the field is set
//   1^2'only CRI'       not supported, with this error text; the value 2 is as harmless as zero
//
// The defaults of proto3 are left out: zero, false, an empty text. Numbers in lists are written
// packed, and read either way. An absent field is read as zero, never as the default of the Cap'n
// Proto schema.
//
// A shape is resolved against its schema once, which fails for a name that does not exist. Requests
// and answers are not trusted: a list may have at most kMostItems; beyond this limit a request is
// refused with InvalidArgument, and a node's answer with ResourceExhausted.
#pragma once

#include <capnp/dynamic.h>
#include <capnp/schema.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/grpc-messages/protobuf-wire.h"

namespace talos::grpcapi {

constexpr size_t kMostItems = 1u << 16;

// Limits a list of a node's answer: items without content cost a node nothing, but time here.
// Throws ResourceExhausted for more than kMostItems.
void checkItems(size_t count);
template <typename List>
List itemsOf(List list) {
  checkItems(list.size());
  return list;
}

class Shape {
 public:
  // Throws Internal for a text that is not valid or does not match the schema.
  Shape(kj::StringPtr text, capnp::StructSchema schema);
  ~Shape() noexcept(false);
  Shape(Shape&&);
  Shape& operator=(Shape&&);
  KJ_DISALLOW_COPY(Shape);

  void encode(capnp::DynamicStruct::Reader value, WireWriter& out) const;
  kj::Array<kj::byte> encode(capnp::DynamicStruct::Reader value) const;
  // Sets the message's fields, and sets fields that the message lacks to zero.
  void decode(Bytes message, capnp::DynamicStruct::Builder into) const;

  struct Field;

 private:
  struct Parser;
  Shape(Parser& parser, capnp::StructSchema schema);
  kj::Vector<kj::Own<const Field>> fields;
};

}  // namespace talos::grpcapi
