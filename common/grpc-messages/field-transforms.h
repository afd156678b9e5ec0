// Transforms of values whose encoding in the gRPC API differs from ours, by the name after "~" in a
// shape. Used by message-shape.cc only.
#pragma once

#include <capnp/dynamic.h>

#include "common/grpc-messages/protobuf-wire.h"

namespace talos::grpcapi {

struct Transform {
  kj::StringPtr name;
  // Writes one value as a field; nullptr: read only.
  void (*encode)(uint32_t number, capnp::DynamicValue::Reader value, WireWriter& out);
  // Reads a field of this type into the struct's field; nullptr: write only.
  void (*decode)(const WireField& from, capnp::StructSchema::Field field,
                 capnp::DynamicStruct::Builder into) = nullptr;
  WireType type = WireType::kVarint;
  bool wholeList = false;  // `encode` takes the whole list
};

// Throws Internal for an unknown name.
const Transform& findTransform(kj::StringPtr name);

// Encodes google.protobuf.Timestamp and Duration: 1 seconds, 2 nanoseconds.
kj::Array<kj::byte> timestamp(int64_t ns);
// Returns the nanoseconds of such a message; throws InvalidArgument if the bytes are not one, or
// exceed 64 bits.
int64_t nanosecondsOf(Bytes message);

}  // namespace talos::grpcapi
