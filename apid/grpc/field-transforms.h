// Values that the original's API writes in another way than ours: how, by the name that a shape
// gives behind "~". Only shape.cc uses this.
#pragma once

#include <capnp/dynamic.h>

#include "apid/grpc/protobuf-wire.h"

namespace talos::edge {

struct Transform {
  kj::StringPtr name;
  // Writes one value as a field; null: only read.
  void (*encode)(uint32_t number, capnp::DynamicValue::Reader value, WireWriter& out);
  // Reads one, of that type, into the struct's field; null: only written.
  void (*decode)(const WireField& from, capnp::StructSchema::Field field,
                 capnp::DynamicStruct::Builder into) = nullptr;
  WireType type = WireType::kVarint;
  bool wholeList = false;  // `encode` takes a list as one value
};

// Internal when there is none of this name.
const Transform& transformCalled(kj::StringPtr name);

// google.protobuf.Timestamp and Duration: 1 seconds, 2 nanoseconds.
kj::Array<kj::byte> timestamp(int64_t ns);
// Nanoseconds of such a message; InvalidArgument when it is none, or beyond 64 bits.
int64_t nanosecondsOf(Bytes message);

}  // namespace talos::edge
