// Writing resources that the brain itself owns; and, in tests, those of others.
#pragma once

#include <capnp/message.h>

#include "common/memory/zeroize.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kBrainOwner = "machined"_kj;

// Creates or replaces; an equal spec changes nothing. `set` gets the place of the spec.
template <typename Spec, typename F>
void putSpec(Store& store, kj::StringPtr id, kj::StringPtr owner, F&& set) {
  SecretMessage scratch;  // of whatever type
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

// The same with a spec that there is.
template <typename Spec>
void copyRecord(Store& store, kj::StringPtr id, typename Spec::Reader spec) {
  putSpec<Spec>(store, id, kBrainOwner,
                [&](capnp::AnyPointer::Builder place) { place.setAs<Spec>(spec); });
}

// Of the brain's; when there is one.
template <typename Spec>
void dropRecord(Store& store, kj::StringPtr id) {
  if (store.tryGet<Spec>(id) != nullptr) store.destroy("", typeName<Spec>(), id, kBrainOwner);
}

}  // namespace talos::machined
