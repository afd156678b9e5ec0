// Messages of resources for both resource APIs of Talos: COSI's (from 1.2 on), whose clients
// read YAML and, for some types, a message; and the older one, whose clients read only YAML.
#pragma once

#include <kj/map.h>

#include "common/grpc-messages/message-shape.h"
#include "common/wire/resource-registry.h"
#include "rpc/node.capnp.h"

namespace talos::grpcapi {

struct Kind {
  kj::StringPtr space, type;
};

class ResourceMessages {
 public:
  ResourceMessages();
  KJ_DISALLOW_COPY_AND_MOVE(ResourceMessages);

  const Registry& types() const { return registry; }
  // Returns the type of the definitions.
  static kj::StringPtr definitions();

  // Returns the kind of our API for one of Talos': some have other names there, all others
  // the same. `id`: id of the resource, empty for all of the kind.
  Kind oursOf(Kind asked, kj::StringPtr id) const;

  // Encodes cosi.resource.Resource: 1 metadata, 2 spec, both even if empty. `as`: the kind that the
  // client has requested. The YAML of a machine config of several documents is their text, and an
  // annotation says so, as Talos' nodes do.
  kj::Array<kj::byte> cosi(rpc::Resource::Reader resource, Kind as) const;
  // Encodes a resource that does not exist. Its YAML is an empty mapping: an empty text would end
  // the client.
  kj::Array<kj::byte> absent(Kind kind, kj::StringPtr id) const;
  // Encodes resource.Resource: 1 metadata, 2 spec.
  kj::Array<kj::byte> old(rpc::Resource::Reader resource) const;

  // Returns the capability that serves this type: sensitive types are for os:admin. A type that
  // this node does not know is looked up among the others.
  rpc::Resources::Client from(rpc::Node::Client node, kj::StringPtr type) const;

 private:
  Registry registry;
  Shape cosiMetadata, oldMetadata;
  kj::HashMap<kj::StringPtr, Shape> specs;  // each by its type

  kj::String yaml(rpc::Resource::Reader resource) const;
};

}  // namespace talos::grpcapi
