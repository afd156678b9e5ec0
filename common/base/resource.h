// Resources by the struct of rpc/*-resources.capnp that is their spec: its annotation $resource
// says the type, so a name and a struct that do not belong together cannot be written down.
//
// Where the type is only known at run time (`get`, the store's own calls) it is text, and
// common/wire/resource-registry.h knows which there are.
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
// As LinkSpecs.net.talos.dev of rpc::LinkSpecSpec.
template <typename Spec>
kj::StringPtr typeName() {
  static const kj::StringPtr name = typeName(capnp::Schema::from<Spec>());
  return name;
}
template <typename... Specs>
kj::Array<kj::StringPtr> typeNames() {
  return kj::arr(typeName<Specs>()...);
}

// A resource whose type is known: read as its spec, and it tells what its metadata say. Valid as
// long as the resource that it was made of.
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
