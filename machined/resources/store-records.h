// Writes resources of the brain itself; in tests, also those of other owners.
#pragma once

#include <capnp/message.h>

#include "common/memory/zeroize.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kBrainOwner = "machined"_kj;

// Creates or replaces a resource; an equal spec changes nothing. `set` fills the spec.
template <typename Spec, typename F>
void putSpec(Store& store, kj::StringPtr id, kj::StringPtr owner, F&& set) {
  SecretMessage scratch;  // of any type
  auto resource = scratch.initRoot<rpc::Resource>();
  auto metadata = resource.initMetadata();
  metadata.setType(typeName<Spec>());
  metadata.setId(id);
  metadata.setOwner(owner);
  KJ_IF_MAYBE (there, store.tryGet<Spec>(id)) metadata.setVersion(there->version());
  set(resource.getSpec());
  store.put(resource.asReader());
}

template <typename Spec>
void putRecord(Store& store, kj::StringPtr id, kj::FunctionParam<void(typename Spec::Builder)> fill,
               kj::StringPtr owner = kBrainOwner) {
  putSpec<Spec>(store, id, owner,
                [&](capnp::AnyPointer::Builder place) { fill(place.initAs<Spec>()); });
}

// Writes an existing spec in the same way.
template <typename Spec>
void copyRecord(Store& store, kj::StringPtr id, typename Spec::Reader spec) {
  putSpec<Spec>(store, id, kBrainOwner,
                [&](capnp::AnyPointer::Builder place) { place.setAs<Spec>(spec); });
}

// Removes a resource of the brain, if it exists.
template <typename Spec>
void dropRecord(Store& store, kj::StringPtr id) {
  if (store.tryGet<Spec>(id) != nullptr) store.destroy("", typeName<Spec>(), id, kBrainOwner);
}

}  // namespace talos::machined
