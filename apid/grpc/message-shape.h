// Protobuf messages as Cap'n Proto structs: which field of the one is which of the other is a text,
// the rest follows from the schema.
//
//   1:id 4:follow 2:events{1:message 3:time~ns}
//
// A field is its number, a colon and the path of the struct's field. A struct, and each of a list
// of structs, is a message, whose fields are in braces. More of a field:
//
//   2{1:tag 2:sha}      a message of fields of the same struct
//   5:state~title       a value that is written in another way (transforms.cc)
//   4:health!{...}      written even if nothing is in it: whoever reads it follows it blindly
//   7=1 8='text'        always this
//   0:signal=15         the struct's field is always this; 0 is no number of a field
//   3^stage             nobody here can do what that asks for: Unimplemented when it is set
//   1^2'only CRI'       the same, saying this text, but 2 asks for no more than zero does
//
// What a reader of proto3 takes for granted is left out: zero, false, an empty text. Numbers in
// lists are packed, and read either way. A field that is absent is read as zero, never as the
// default of Cap'n Proto's schema.
//
// A shape is resolved against its schema once, and that fails for a name that is not there. Foreign
// bytes are only ever read by decode(): at most kMostItems of each list, InvalidArgument otherwise.
#pragma once

#include <capnp/dynamic.h>
#include <capnp/schema.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "apid/grpc/protobuf-wire.h"

namespace talos::edge {

constexpr size_t kMostItems = 1u << 16;

class Shape {
 public:
  // Fails with Internal for a text that is wrong, or does not fit the schema.
  Shape(kj::StringPtr text, capnp::StructSchema schema);
  ~Shape() noexcept(false);
  Shape(Shape&&);
  Shape& operator=(Shape&&);
  KJ_DISALLOW_COPY(Shape);

  void encode(capnp::DynamicStruct::Reader value, WireWriter& out) const;
  kj::Array<kj::byte> encode(capnp::DynamicStruct::Reader value) const;
  // What the message has is set, and what it could have and has not is zero.
  void decode(Bytes message, capnp::DynamicStruct::Builder into) const;

  struct Field;

 private:
  struct Parser;
  Shape(Parser& parser, capnp::StructSchema schema);
  kj::Vector<kj::Own<const Field>> fields;
};

}  // namespace talos::edge
