// Transforms of values that the gRPC API encodes in another way than ours, by the name behind "~"
// in a shape. Used by message-shape.cc only.
#pragma once

#include <capnp/dynamic.h>

#include "apid/grpc/protobuf-wire.h"

namespace talos::grpcapi {

struct Transform {
  kj::StringPtr name;
  // Writes one value as a field; null: only read.
  void (*encode)(uint32_t number, capnp::DynamicValue::Reader value, WireWriter& out);
  // Reads one of that type into the struct's field; null: only written.
  void (*decode)(const WireField& from, capnp::StructSchema::Field field,
                 capnp::DynamicStruct::Builder into) = nullptr;
  WireType type = WireType::kVarint;
  bool wholeList = false;  // `encode` takes a list as one value
};

// Throws Internal for an unknown name.
const Transform& findTransform(kj::StringPtr name);

// google.protobuf.Timestamp and Duration: 1 seconds, 2 nanoseconds.
kj::Array<kj::byte> timestamp(int64_t ns);
// Nanoseconds of such a message; InvalidArgument when it is none, or beyond 64 bits.
int64_t nanosecondsOf(Bytes message);

}  // namespace talos::grpcapi
