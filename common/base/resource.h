// Resource types by the struct of rpc/*-resources.capnp that is their spec: its annotation
// $resource names the type, so a name and a struct that do not belong together do not compile.
//
// Code that learns the type only at run time (`get`, the store's own calls) handles it as text, and
// common/wire/resource-registry.h has all types.
#pragma once

#include <kj/debug.h>

#include "common/base/annotation.h"
#include "rpc/annotations.capnp.h"
#include "rpc/resources.capnp.h"

namespace talos {

inline kj::StringPtr typeName(capnp::StructSchema spec) {
  auto declared = KJ_ASSERT_NONNULL(annotation::find(spec, annotation::kResource), spec);
  return declared.getStruct().getAs<schema::ResourceType>().getType();
}
// Returns LinkSpecs.net.talos.dev for rpc::LinkSpecSpec.
template <typename Spec>
kj::StringPtr typeName() {
  static const kj::StringPtr name = typeName(capnp::Schema::from<Spec>());
  return name;
}
template <typename... Specs>
kj::Array<kj::StringPtr> typeNames() {
  return kj::arr(typeName<Specs>()...);
}

// A resource of a known type: its spec and its metadata. Valid as long as the resource from which
// it was made.
template <typename Spec>
class ResourceOf : public Spec::Reader {
 public:
  explicit ResourceOf(rpc::Resource::Reader resource)
      : Spec::Reader(resource.getSpec().getAs<Spec>()), metadata_(resource.getMetadata()) {}

  rpc::Metadata::Reader metadata() const { return metadata_; }
  capnp::Text::Reader id() const { return metadata_.getId(); }
  uint64_t version() const { return metadata_.getVersion(); }

 private:
  rpc::Metadata::Reader metadata_;
};

}  // namespace talos
