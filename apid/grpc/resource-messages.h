// Resources as the messages of both of the original's resource APIs have them: COSI's (from 1.2
// on), whose clients read YAML, and of some types a message; and that of before, whose clients read
// YAML alone.
#pragma once

#include <kj/map.h>

#include "apid/grpc/message-shape.h"
#include "common/wire/resource-registry.h"
#include "rpc/node.capnp.h"

namespace talos::edge {

struct Kind {
  kj::StringPtr space, type;
};

class ResourceMessages {
 public:
  ResourceMessages();
  KJ_DISALLOW_COPY_AND_MOVE(ResourceMessages);

  const Registry& types() const { return registry; }
  // The type of the definitions.
  static kj::StringPtr definitions() { return "ResourceDefinitions.meta.cosi.dev"; }

  // The kind of ours that a client means: some are called otherwise there. All others as they are.
  static Kind oursOf(Kind asked);

  // cosi.resource.Resource: 1 metadata, 2 spec. Both are there, whatever is in them. `as`: the kind
  // that the client has asked for.
  kj::Array<kj::byte> cosi(rpc::Resource::Reader resource, Kind as) const;
  // One that is not there. Its YAML is an empty mapping, because nothing at all ends a client.
  kj::Array<kj::byte> absent(Kind kind, kj::StringPtr id) const;
  // resource.Resource: 1 metadata, 2 spec.
  kj::Array<kj::byte> old(rpc::Resource::Reader resource) const;

  // As the client may ask for it: those with secrets are for os:admin. A type that this node does
  // not know is tried among the others.
  rpc::Resources::Client from(rpc::Node::Client node, kj::StringPtr type) const;

 private:
  Registry registry;
  Shape cosiMetadata, oldMetadata;
  kj::HashMap<kj::StringPtr, Shape> specs;  // by type

  kj::String yaml(rpc::Resource::Reader resource) const;
};

}  // namespace talos::edge
