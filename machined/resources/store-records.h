// Writing resources that the brain itself owns; and, in tests, those of others.
#pragma once

#include <capnp/message.h>

#include "common/memory/zeroize.h"
#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kBrainOwner = "machined"_kj;

// Creates or replaces; an equal spec changes nothing.
template <typename Spec>
void putRecord(Store& store, kj::StringPtr id, kj::FunctionParam<void(typename Spec::Builder)> fill,
               kj::StringPtr owner = kBrainOwner) {
  SecretMessage scratch;  // of whatever type
  auto resource = scratch.initRoot<rpc::Resource>();
  auto metadata = resource.initMetadata();
  metadata.setType(typeName<Spec>());
  metadata.setId(id);
  metadata.setOwner(owner);
  KJ_IF_MAYBE (there, store.tryGet<Spec>(id)) metadata.setVersion(there->version());
  fill(resource.getSpec().initAs<Spec>());
  store.put(resource.asReader());
}

// Of the brain's; when there is one.
template <typename Spec>
void dropRecord(Store& store, kj::StringPtr id) {
  if (store.tryGet<Spec>(id) != nullptr) store.destroy("", typeName<Spec>(), id, kBrainOwner);
}

}  // namespace talos::machined
