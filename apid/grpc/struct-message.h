// Encodes YAML or JSON as google.protobuf.Struct, in which the original's messages hold objects of
// Kubernetes. Pure.
#pragma once

#include "apid/grpc/protobuf-wire.h"

namespace talos::grpcapi {

// The fields of a Struct: 1, an entry {1 key, 2 value} for each key. Nothing for a text that is not
// a mapping. The text is one that machined wrote, and as deep and large as common/yaml admits.
kj::Array<kj::byte> structMessage(kj::StringPtr yaml);

}  // namespace talos::grpcapi
