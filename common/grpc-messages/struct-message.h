// Encodes YAML or JSON as google.protobuf.Struct, in which Talos' messages hold objects of
// Kubernetes. Pure.
#pragma once

#include "common/grpc-messages/protobuf-wire.h"

namespace talos::grpcapi {

// Returns the fields of a Struct: 1, an entry {1 key, 2 value} for each key; empty for a text that
// is not a mapping. machined wrote the text, and common/yaml limits its depth and size.
kj::Array<kj::byte> structMessage(kj::StringPtr yaml);

}  // namespace talos::grpcapi
