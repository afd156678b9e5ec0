// A daemon's view of machined's store: inputs as snapshot + changes, outputs with versions.
//
// Survives restarts of machined: a lost connection is dialled again and every watch starts over with a
// snapshot, so a controller needs no code for it. A conflict on a write is answered by reading again and
// computing again, never by repeating the write.
#pragma once

#include <capnp/message.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/map.h>

#include "rpc/resources.capnp.h"

namespace talos {

// A resource held by value.
class HeldResource {
 public:
  explicit HeldResource(rpc::Resource::Reader resource);
  rpc::Resource::Reader get() const;
  template <typename Spec>
  typename Spec::Reader spec() const { return get().getSpec().template getAs<Spec>(); }

 private:
  kj::Own<capnp::MallocMessageBuilder> message;
};

// The current resources of one kind, kept up to date. `changed` is called once per batch.
class Watched {
 public:
  virtual ~Watched() noexcept(false) = default;
  virtual bool synced() const = 0;                       // a snapshot has arrived
  virtual const kj::TreeMap<kj::String, HeldResource>& resources() const = 0;   // by id
};

class StoreClient {
 public:
  // `owner` names the controller in metadata.owner.
  StoreClient(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr socketPath, kj::String owner);
  ~StoreClient() noexcept(false);

  kj::Own<Watched> watch(kj::StringPtr type, kj::Function<void()> changed);

  // Makes the stored set of `type` owned by this owner exactly `wanted` (id -> spec): creates, updates only
  // what differs, destroys the rest. Spec is a struct of rpc/types.capnp.
  template <typename Spec>
  kj::Promise<void> replaceAll(kj::StringPtr type, kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>> wanted) {
    return replaceAllErased(type, kj::mv(wanted), capnp::Schema::from<Spec>());
  }

 private:
  struct Impl;
  kj::Own<Impl> impl;
  kj::Promise<void> replaceAllErased(kj::StringPtr type,
                                     kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>> wanted,
                                     capnp::StructSchema schema);
};

}  // namespace talos
